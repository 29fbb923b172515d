"""Asks which distributions there are and which run. Nothing here starts one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from twinrig.domain.wsl import WslDistro, choose_distro
from twinrig.hosts.wsl import client
from twinrig.hosts.wsl.call import wsl_environment
from twinrig.hosts.wsl.decoding import decode_own
from twinrig.hosts.wsl.listing import LxssRecord, from_registry, parse_names, parse_verbose
from twinrig.hosts.wsl.outcome import failure, hangs, no_wsl
from twinrig.hosts.wsl.times import WslTimes

Records = Callable[[], Sequence[LxssRecord] | None]


class WslCatalogue:
    """``WslDistros``. ``records`` reads the registry; None where there is no registry."""

    def __init__(
        self,
        executable: str | None,
        environ: Mapping[str, str],
        *,
        records: Records = lambda: None,
        times: WslTimes | None = None,
        oem: str = "cp437",
    ) -> None:
        self._executable = executable
        self._environ = wsl_environment(environ)
        self._records = records
        self._times = times or WslTimes()
        self._oem = oem

    @property
    def executable(self) -> str:
        """Raises HostError when there is no ``wsl.exe``."""
        if self._executable is None:
            raise no_wsl()
        return self._executable

    async def list(self) -> tuple[WslDistro, ...]:
        """All of them, those of other programs too; empty when none is installed."""
        records = self._records()
        if records is not None:
            running = await self.running() if records else frozenset()
            return from_registry(records, running)
        code, text = await self._ask("--list", "--quiet")
        if not parse_names(text):
            return ()
        running = await self.running()
        code, text = await self._ask("--list", "--verbose")
        if code != 0:
            raise failure("", code, False, text)
        return parse_verbose(text, running)

    async def running(self) -> frozenset[str]:
        """Names of those that run. Raises HostError when WSL does not answer."""
        code, text = await self._ask("--list", "--running", "--quiet")
        if code == 0:
            return frozenset(parse_names(text))
        if not text.strip() or "Wsl/" not in text:
            return frozenset()  # old ones say in the user's language that none runs
        raise failure("", code, False, text)

    async def choose(self, wanted: str = "") -> WslDistro:
        """The one to use; see ``choose_distro``."""
        return choose_distro(await self.list(), wanted)

    async def terminate(self, name: str) -> None:
        """Stop one now, with everything in it. One that does not run is no error."""
        code, text = await self._ask("--terminate", name)
        if code != 0:
            raise failure(name, code, False, text)

    async def shutdown(self) -> None:
        """Stop all of them, those of other programs too, and the virtual machine."""
        code, text = await self._ask("--shutdown", limit_s=self._times.start_s)
        if code != 0:
            raise failure("", code, False, text)

    async def _ask(self, *words: str, limit_s: float | None = None) -> tuple[int, str]:
        """Exit code and own text of a question that starts nothing."""
        asked = await client.start((self.executable, *words), self._environ)
        out, err = bytearray(), bytearray()
        tasks = [
            asyncio.ensure_future(client.collect(asked.stdout, out.extend)),
            asyncio.ensure_future(client.collect(asked.stderr, err.extend)),
            asyncio.ensure_future(asked.feed(b"")),
        ]
        try:
            async with asyncio.timeout(limit_s or self._times.list_s):
                code = await asked.ended()
                await asyncio.gather(*tasks)
        except TimeoutError as error:
            raise hangs() from error
        finally:
            asked.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        text = decode_own(bytes(out), self._oem) + decode_own(bytes(err), self._oem)
        return code, text


def is_awake(name: str, running: frozenset[str]) -> bool:
    """Whether a distribution is among those that run; WSL compares names without case."""
    return name.casefold() in {other.casefold() for other in running}

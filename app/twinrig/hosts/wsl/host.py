"""A WSL distribution as a target: commands and files of its Linux, from the Windows side."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Mapping, Sequence

from twinrig.domain.errors import ConflictError, HostError
from twinrig.domain.ports import CommandResult, FolderEntry, Glimpse, ProcessInfo, Script
from twinrig.hosts import linux_scripts as scripts
from twinrig.hosts.linux_answers import parse_entries, parse_glimpse, parse_processes
from twinrig.hosts.wsl.call import WslCall
from twinrig.hosts.wsl.distros import WslCatalogue
from twinrig.hosts.wsl.exchange import Exchange
from twinrig.hosts.wsl.outcome import asleep
from twinrig.hosts.wsl.times import WslTimes
from twinrig.messages import N_, message

RUN_ID_VARIABLE = "TWINRIG_RUN_ID"
_READ_LIMIT_BYTES = 4 * 1024 * 1024
_FILE_S = 30.0
_GLANCE_FOLDERS, _GLANCE_BYTES = 3000, 16 * 1024 * 1024


class WslHost:
    """``Host`` for one distribution, the default one unless ``distro`` names another.

    With ``wake`` False a distribution that is stopped is left asleep and HostError says so: for
    everything that only looks. The choice is made at the first call and kept.
    """

    def __init__(
        self,
        distros: WslCatalogue,
        environ: Mapping[str, str],
        distro: str = "",
        *,
        wake: bool = True,
        times: WslTimes | None = None,
        oem: str = "cp437",
    ) -> None:
        self._distros = distros
        self._environ = environ
        self._wanted = distro
        self._wake = wake
        self._times = times or WslTimes()
        self._oem = oem
        self._exchange: Exchange | None = None
        self._home = ""
        self._choosing = asyncio.Lock()

    @property
    def label(self) -> str:
        """Marked sentence."""
        return N_("WSL on this computer")

    @property
    def demo(self) -> bool:
        """Real."""
        return False

    def only_looking(self) -> WslHost:
        """The same distribution for whoever must not start it."""
        return WslHost(
            self._distros,
            self._environ,
            self._wanted,
            wake=False,
            times=self._times,
            oem=self._oem,
        )

    async def run(
        self,
        command: Sequence[str] | Script,
        *,
        root: bool = False,
        timeout_s: float = 30.0,
        stdin: bytes | None = None,
    ) -> CommandResult:
        """Run to the end. Starting the distribution does not count as time of the command."""
        exchange = await self._ready()
        return await exchange.run(command, root=root, timeout_s=timeout_s, stdin=stdin)

    async def stream(
        self, command: Sequence[str] | Script, *, root: bool = False
    ) -> AsyncGenerator[bytes, None]:
        """Merged output in chunks. Raises HostError when it cannot start or WSL goes away."""
        exchange = await self._ready()
        chunks = exchange.stream(command, root=root)
        try:
            async for chunk in chunks:
                yield chunk
        finally:
            await chunks.aclose()

    async def read_file(self, path: str, *, limit_bytes: int = _READ_LIMIT_BYTES) -> bytes | None:
        """Content, None when there is no such file."""
        result = await self._script(
            Script("read-file", scripts.READ_FILE, (_absolute(path), str(limit_bytes)))
        )
        if result.returncode == scripts.ABSENT_CODE:
            return None
        if result.returncode == scripts.TOO_LARGE_CODE or len(result.stdout) > limit_bytes:
            raise HostError(
                message("{path} is larger than {limit} bytes.", path=path, limit=limit_bytes),
                message("Check whether this is the right file; it was not read."),
            )
        _check_readable(path, result)
        return result.stdout

    async def list_folder(self, path: str) -> tuple[FolderEntry, ...]:
        """Entries by name, links followed; empty when there is no such folder."""
        result = await self._script(Script("list-folder", scripts.LIST_FOLDER, (_absolute(path),)))
        if result.returncode == scripts.ABSENT_CODE:
            return ()
        _check_readable(path, result)
        return parse_entries(result.stdout)

    async def glance(self, folders: Sequence[str], files: Sequence[str]) -> Glimpse | None:
        """One ``wsl.exe`` instead of one for each folder and file."""
        bounds = (str(_GLANCE_FOLDERS), str(_GLANCE_BYTES))
        words = (*bounds, *folders, "--", *files)
        result = await self.run(Script("glance", scripts.GLANCE, words), timeout_s=_FILE_S)
        seen = parse_glimpse(result.stdout) if result.returncode == 0 else None
        self._home = seen.home if seen else self._home
        return seen

    async def home(self) -> str:
        """Home of the distribution's default user."""
        if not self._home:
            result = await self._script(Script("home", 'printf %s "$HOME"'))
            if not result.output.startswith("/"):
                raise _unreadable("~", "HOME")
            self._home = result.output
        return self._home

    async def write_file(
        self,
        path: str,
        data: bytes | None,
        *,
        mode: int = 0o644,
        root: bool = False,
        expected_sha256: str | None = None,
    ) -> None:
        """Atomic replace by a script on the Linux side; what was cut off on the way is dropped."""
        script = scripts.write_file(_absolute(path), data, mode, expected_sha256)
        result = await self._script(script, root=root, stdin=data or b"")
        if result.returncode == scripts.CONFLICT_CODE:
            raise ConflictError(
                message("{path} was changed meanwhile; nothing was written.", path=path),
                message("Look at the file, then plan the change again."),
            )
        if result.returncode != 0:
            raise _unwritable(path, result)

    async def processes(self) -> tuple[ProcessInfo, ...]:
        """All live processes; the run id of those whose environment this user may read."""
        result = await self._script(Script("processes", scripts.PROCESSES, (RUN_ID_VARIABLE,)))
        return parse_processes(result.stdout, RUN_ID_VARIABLE)

    async def _script(
        self, script: Script, *, root: bool = False, stdin: bytes | None = None
    ) -> CommandResult:
        result = await self.run(script, root=root, timeout_s=_FILE_S, stdin=stdin)
        if result.timed_out:
            raise HostError(
                message("Linux did not answer within {limit} s.", limit=f"{_FILE_S:g}"),
                message("Try again; a disk of Windows or the network may be slow."),
            )
        return result

    async def _ready(self) -> Exchange:
        async with self._choosing:
            if self._exchange is None:
                chosen = await self._distros.choose(self._wanted)
                call = WslCall(self._distros.executable, chosen.name)
                self._exchange = Exchange(
                    call, self._environ, self._distros, self._times, self._oem
                )
        if not self._wake:
            name = self._exchange.call.distro
            if name.casefold() not in {n.casefold() for n in await self._distros.running()}:
                raise asleep(name)
        return self._exchange


def _absolute(path: str) -> str:
    if re.match(r"/|~/", path) is None:
        raise HostError(message("{path} is not an absolute path.", path=path))
    return path


def _check_readable(path: str, result: CommandResult) -> None:
    if result.returncode != 0:
        raise _unreadable(path, _said(result))


def _unreadable(path: str, reason: str) -> HostError:
    return HostError(
        message("{path} cannot be read: {reason}.", path=path, reason=reason),
        message("Check the permissions of this file."),
    )


def _unwritable(path: str, result: CommandResult) -> HostError:
    return HostError(
        message("{path} cannot be written: {reason}.", path=path, reason=_said(result)),
        message("Check the permissions and the free space, then try again."),
    )


def _said(result: CommandResult) -> str:
    lines = result.stderr.decode("utf-8", "replace").strip().splitlines()
    return lines[-1].rstrip(".") if lines else str(result.returncode)

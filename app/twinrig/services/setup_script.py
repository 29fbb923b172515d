"""Talks with the set-up script on the target: one step a call, its lines as they come."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass

from twinrig.domain.errors import HostError
from twinrig.domain.ports import Host, Script
from twinrig.messages import message
from twinrig.services.setup_words import SetupProgress, SetupStep, progress_of

SCRIPT = "setup/engine.sh"
ROOT = ".local/share/twinrig/engines"
"""Below the home of the target's user: one folder an engine."""
_KEPT_BYTES = 256 * 1024
_SHORT_S = 60.0
_CLEAN_S = 300.0


@dataclass(frozen=True)
class PythonFound:
    """An interpreter of the target; ``able``: it can make environments."""

    path: str
    version: str
    able: bool


@dataclass(frozen=True)
class SetupLook:
    """What is there before anything is done. ``partial`` were cut off before they were proven;
    ``about`` and ``wheels_bytes`` are what a cut set-up has downloaded, and for what."""

    pythons: tuple[PythonFound, ...]
    free_bytes: int
    current: str
    partial: tuple[str, ...]
    wheels_bytes: int
    about: str


class SetupScript:
    """The steps of one engine's folder. Every method may raise HostError."""

    def __init__(self, host: Host, text: str, root: str) -> None:
        self._host = host
        self._text = text
        self.root = root

    async def look(self) -> SetupLook:
        """Reads only."""
        code, output = await self.call("look")
        if code != 0:
            raise HostError(
                message("The machine cannot be looked at: {line}", line=output.strip() or "-"),
                message("Check that bash and Python are installed there."),
            )
        return parse_look(output)

    async def call(self, step: str, *args: str, timeout_s: float = _SHORT_S) -> tuple[int, str]:
        """Return code and all that a short step said."""
        result = await self._host.run(self._script(step, args), timeout_s=timeout_s)
        said = result.output + result.stderr.decode("utf-8", "replace")
        return (124 if result.returncode is None else result.returncode), said

    async def clean(self, *, keep_wheels: bool) -> None:
        """Drop what is not in use; what cannot be dropped now is dropped by the next set-up."""
        await self.call("clean", "yes" if keep_wheels else "no", timeout_s=_CLEAN_S)

    async def follow(
        self, at: SetupStep, step: str, *args: str, tell: Callable[[SetupProgress], object]
    ) -> tuple[int | None, str]:
        """Return code (None: it was cut off) and the end of what a long step said."""
        nonce = secrets.token_hex(8)
        code: int | None = None
        kept = ""
        async with aclosing(self._host.stream(self._script(step, args, nonce))) as chunks:
            async for line in _lines(chunks):
                if line.startswith(f"{nonce} "):
                    code = int(line.rpartition(" ")[2])
                    continue
                progress = progress_of(at, line)
                if progress.line:
                    kept = (kept + line + "\n")[-_KEPT_BYTES:]
                tell(progress)
        return code, kept

    def _script(self, step: str, args: tuple[str, ...], nonce: str = "") -> Script:
        text = self._text
        if nonce:  # a stream has no return code, so the script tells it
            text = f"( {text}\n)\nprintf '\\n%s %s\\n' '{nonce}' \"$?\""
        return Script(f"engine-setup-{step}", text, (step, self.root, *args))


async def _lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[str]:
    rest = b""
    async for chunk in chunks:
        *whole, rest = (rest + chunk).replace(b"\r", b"\n").split(b"\n")
        for line in whole:
            if line.strip():
                yield line.decode("utf-8", "replace").rstrip()
    if rest.strip():
        yield rest.decode("utf-8", "replace").rstrip()


def parse_look(output: str) -> SetupLook:
    """What the first step of the script tells; foreign lines are skipped."""
    pythons: list[PythonFound] = []
    partial: list[str] = []
    values: dict[str, str] = {}
    for line in output.splitlines():
        name, _, value = line.partition(" ")
        words = value.rsplit(" ", 2)
        if name == "python" and len(words) == 3:
            pythons.append(PythonFound(words[0], words[1], words[2] == "yes"))
        elif name == "partial":
            partial.append(value)
        else:
            values[name] = value
    return SetupLook(
        tuple(pythons),
        _number(values.get("free", "")),
        values.get("current", ""),
        tuple(partial),
        _number(values.get("wheels", "")),
        values.get("about", ""),
    )


def _number(text: str) -> int:
    return int(text) if text.isdecimal() else 0

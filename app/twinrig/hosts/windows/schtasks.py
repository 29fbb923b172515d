"""Calls of ``schtasks.exe``: exit codes and XML, never its sentences."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PureWindowsPath

from twinrig.domain.errors import HostError
from twinrig.hosts.windows.task_xml import (
    TaskDefinition,
    TaskSpec,
    read_all,
    read_definition,
    task_xml,
)
from twinrig.messages import message

OVERRIDE_VARIABLE = "TWINRIG_SCHTASKS_EXE"
"""Full path of another ``schtasks.exe``; the only way to have tasks outside Windows."""

TIMEOUT_S = 30.0
_NO_WINDOW = 0x08000000
_UTF16 = b"\xff\xfe"


def find_schtasks(environ: Mapping[str, str], platform: str = sys.platform) -> str | None:
    """Full path, None outside Windows. It is never looked up on PATH."""
    override = environ.get(OVERRIDE_VARIABLE, "").strip()
    if override:
        return override
    if platform != "win32":
        return None
    root = environ.get("SystemRoot") or environ.get("SYSTEMROOT") or r"C:\Windows"
    return str(PureWindowsPath(root) / "System32" / "schtasks.exe")


@dataclass(frozen=True)
class Answer:
    """Exit code (None: it did not end in time), and its output as bytes."""

    code: int | None
    output: bytes
    errors: bytes

    @property
    def done(self) -> bool:
        """Every failure is code 1: not found, not allowed, and bad XML look alike."""
        return self.code == 0


class Schtasks:
    """One method for each call that Twinrig needs. Raises HostError when it does not answer."""

    def __init__(self, executable: str, environ: Mapping[str, str], oem: str = "") -> None:
        self._executable = executable
        self._environ = environ
        self._oem = oem or _oem_code_page()

    async def create(self, spec: TaskSpec) -> bool:
        """Register, or replace what is there; False when Windows refuses."""
        return await asyncio.to_thread(self._create, spec)

    async def run(self, name: str) -> bool:
        """Ask for a start. True also when it runs already, which starts nothing."""
        return (await self._call("/Run", "/TN", name)).done

    async def end(self, name: str) -> bool:
        """Ask for an end. True also when nothing ran, and when nothing ends."""
        return (await self._call("/End", "/TN", name)).done

    async def delete(self, name: str) -> bool:
        """Without /F it would ask on standard input."""
        return (await self._call("/Delete", "/TN", name, "/F")).done

    async def definition(self, name: str) -> TaskDefinition | None:
        """None: there is no such task, or this user may not read it."""
        answer = await self._call("/Query", "/TN", name, "/XML")
        return read_definition(self._text(answer.output)) if answer.done else None

    async def definitions(self) -> tuple[TaskDefinition, ...]:
        """All tasks that this user may read; their names are those written in them."""
        answer = await self._call("/Query", "/XML")
        return read_all(self._text(answer.output)) if answer.done else ()

    async def _call(self, *words: str) -> Answer:
        return await asyncio.to_thread(self._run, words)

    def _create(self, spec: TaskSpec) -> bool:
        try:
            with tempfile.TemporaryDirectory(prefix="twinrig-task-") as folder:
                path = Path(folder) / "task.xml"
                path.write_bytes(task_xml(spec))
                words = ("/Create", "/TN", spec.name, "/XML", str(path), "/F")
                return self._run(words).done
        except OSError as error:
            raise HostError(
                message(
                    "The task cannot be written: {reason}.", reason=error.strerror or str(error)
                ),
                message("Free some space on the disk, then try again."),
            ) from error

    def _run(self, words: Sequence[str]) -> Answer:
        try:
            done = subprocess.run(
                [self._executable, *words],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=TIMEOUT_S,
                env=dict(self._environ),
                creationflags=_NO_WINDOW if sys.platform == "win32" else 0,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise HostError(
                message("The Task Scheduler of Windows does not answer."),
                message("Restart Windows, then try again."),
            ) from error
        except OSError as error:
            raise HostError(
                message(
                    "{program} cannot be started: {reason}.",
                    program=self._executable,
                    reason=str(error.strerror or error),
                ),
                message(
                    "Check that the Task Scheduler of Windows is not blocked on this computer."
                ),
            ) from error
        return Answer(done.returncode, done.stdout, done.stderr)

    def _text(self, data: bytes) -> str:
        """The XML claims UTF-16; through a pipe it comes in the console's code page."""
        if data.startswith(_UTF16):
            return data[2:].decode("utf-16-le", "replace")
        if data[1:2] == b"\0":
            return data.decode("utf-16-le", "replace")
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError:
            return data.decode(self._oem, "replace")


def _oem_code_page() -> str:
    return "oem" if sys.platform == "win32" else "cp437"

"""This Linux machine as a target."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path

from twinrig.domain.errors import HostError
from twinrig.domain.ports import CommandResult, FolderEntry, Glimpse, ProcessInfo, Script
from twinrig.hosts import linux_scripts
from twinrig.hosts.local import file_access, proc_table, root_steps, subprocesses
from twinrig.hosts.local.server_environment import base_environment
from twinrig.hosts.local.subprocesses import Invocation
from twinrig.messages import N_, message

BASH = ("/bin/bash", "--noprofile", "--norc")
_READ_LIMIT_BYTES = 4 * 1024 * 1024


class LocalHost:
    """``Host`` for the machine Twinrig runs on. ``sysroot`` prefixes file access, for tests."""

    def __init__(self, environ: Mapping[str, str], sysroot: Path | None = None) -> None:
        self._environ = environ
        self._sysroot = sysroot

    @property
    def label(self) -> str:
        """Marked sentence."""
        return N_("This computer")

    @property
    def demo(self) -> bool:
        """Real."""
        return False

    async def run(
        self,
        command: Sequence[str] | Script,
        *,
        root: bool = False,
        timeout_s: float = 30.0,
        stdin: bytes | None = None,
    ) -> CommandResult:
        """Run to the end. A root command that outlives its time is ended by root as well."""
        invocation = self._invocation(command, root, stdin)
        result = await subprocesses.run_to_end(invocation, timeout_s)
        root_steps.check_allowed(result)
        return result

    async def stream(
        self, command: Sequence[str] | Script, *, root: bool = False
    ) -> AsyncGenerator[bytes, None]:
        """Merged output in chunks. Raises HostError when the program cannot be started."""
        invocation = self._invocation(command, root, None)
        chunks = subprocesses.stream_output(invocation)
        try:
            async for chunk in chunks:
                yield chunk
        except OSError as error:
            raise HostError(
                message(
                    "{program} cannot be started: {reason}.",
                    program=invocation.argv[0],
                    reason=str(error.strerror),
                ),
                message("Install the program, then try again."),
            ) from error
        finally:
            await chunks.aclose()

    async def read_file(self, path: str, *, limit_bytes: int = _READ_LIMIT_BYTES) -> bytes | None:
        """Content, None when there is no such file."""
        target = file_access.target_path(path, self._sysroot)
        return await asyncio.to_thread(file_access.read_limited, target, limit_bytes)

    async def list_folder(self, path: str) -> tuple[FolderEntry, ...]:
        """Entries by name, links followed; empty when there is no such folder."""
        target = file_access.target_path(path, self._sysroot)
        return await asyncio.to_thread(file_access.entries, target)

    async def glance(self, folders: Sequence[str], files: Sequence[str]) -> Glimpse | None:
        """Asking one by one is as quick."""
        return None

    async def home(self) -> str:
        """Home of this user."""
        return str(Path.home())

    async def write_file(
        self,
        path: str,
        data: bytes | None,
        *,
        mode: int = 0o644,
        root: bool = False,
        expected_sha256: str | None = None,
    ) -> None:
        """Atomic replace; with a ``sysroot`` root is not needed and not asked for."""
        target = file_access.target_path(path, self._sysroot)
        if root and self._sysroot is None and os.geteuid() != 0:
            await self._write_as_root(target, data, mode, expected_sha256)
            return
        await asyncio.to_thread(_write, target, data, mode, expected_sha256)

    async def processes(self) -> tuple[ProcessInfo, ...]:
        """All live processes; the run id of those whose environment can be read."""
        return await asyncio.to_thread(_processes)

    async def _write_as_root(
        self, target: Path, data: bytes | None, mode: int, expected_sha256: str | None
    ) -> None:
        script = linux_scripts.write_file(str(target), data, mode, expected_sha256)
        result = await self.run(script, root=True, stdin=data or b"")
        if result.returncode == linux_scripts.CONFLICT_CODE:
            raise file_access.conflict(target)
        if result.returncode != 0:
            raise file_access.unwritable(target, result.stderr.decode("utf-8", "replace").strip())

    def _invocation(
        self, command: Sequence[str] | Script, root: bool, stdin: bytes | None
    ) -> Invocation:
        environment = {**base_environment(self._environ), "LC_ALL": "C.UTF-8"}
        argv, data = _argv(command, stdin)
        if not root:
            return Invocation(argv, data, environment)
        return Invocation(root_steps.as_root(argv), data, environment, root_steps.as_root(()))


def _argv(
    command: Sequence[str] | Script, stdin: bytes | None
) -> tuple[tuple[str, ...], bytes | None]:
    if not isinstance(command, Script):
        return tuple(command), stdin
    if stdin is not None:  # the script cannot come by standard input, which is taken
        return (*BASH, "-c", command.text, command.name, *command.args), stdin
    # In braces it is read whole before anything runs, and its commands cannot eat the rest.
    return (*BASH, "-s", "--", *command.args), f"{{ :; {command.text}\n}} </dev/null\n".encode()


def _write(path: Path, data: bytes | None, mode: int, expected_sha256: str | None) -> None:
    if expected_sha256 is not None:
        present = file_access.read_limited(path, 1 << 30)
        file_access.check_expected(path, present, expected_sha256)
    try:
        file_access.replace_file(path, data, mode)
    except OSError as error:
        raise file_access.unwritable(path, error.strerror or str(error)) from error


def _processes() -> tuple[ProcessInfo, ...]:
    table = proc_table.read_table()
    return tuple(proc_table.process_info(table[pid]) for pid in sorted(table))

"""Starts servers that are programs of this computer itself: the demo rig's on Windows."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
from asyncio.subprocess import Process
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from twinrig.domain.errors import HostError
from twinrig.domain.launch import LaunchSpec, StopSignal
from twinrig.domain.ports import ExitStatus, ProcessInfo
from twinrig.files import write_atomic
from twinrig.messages import message

RUN_ID_VARIABLE = "TWINRIG_RUN_ID"


class WindowsServerLauncher:
    """``ServerLauncher``. The supervisor's job object ends what it started together with it, so
    that nothing is left of a run whose supervisor is gone."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._runs: dict[str, WindowsServer] = {}

    async def launch(
        self, spec: LaunchSpec, run_id: str, on_output: Callable[[bytes], None]
    ) -> WindowsServer:
        """Files, then the process, without a window. Raises HostError."""
        for file in spec.files:
            _write(file.path, file.content, file.mode, file.keep_previous)
        kept = {k: v for k, v in self._environ.items() if k not in spec.unset}
        try:
            process = await asyncio.create_subprocess_exec(
                *spec.argv,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                env={**kept, **spec.env, RUN_ID_VARIABLE: run_id},
                cwd=spec.cwd or None,
                creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
            )
        except (OSError, ValueError) as error:
            raise HostError(
                message(
                    "{program} cannot be started: {reason}.",
                    program=spec.argv[0],
                    reason=getattr(error, "strerror", None) or str(error),
                ),
                message(
                    "Check that the engine is installed in the environment that the profile names."
                ),
            ) from error
        server = WindowsServer(process, on_output, lambda: self._runs.pop(run_id, None))
        self._runs[run_id] = server
        return server

    async def survivors(self, run_id: str) -> tuple[ProcessInfo, ...]:
        """The server itself as long as it runs."""
        server = self._runs.get(run_id)
        return () if server is None else (ProcessInfo(server.pid, 0, "server", run_id),)

    async def signal_processes(self, pids: Sequence[int], signal: StopSignal) -> None:
        """Ends those that are servers of ours."""
        for server in tuple(self._runs.values()):
            if server.pid in pids:
                await server.signal(signal)

    async def environment_of(self, pid: int) -> Mapping[str, str] | None:
        """Windows does not show it."""
        return None

    async def shared_memory_of(self, pids: Sequence[int]) -> tuple[str, ...]:
        """Windows frees it by itself."""
        return ()

    async def remove_shared_memory(self, names: Sequence[str]) -> None:
        """Nothing to do."""


class WindowsServer:
    """``RunningServer``. Windows has no signals: each of them ends it at once."""

    def __init__(
        self, process: Process, on_output: Callable[[bytes], None], on_exit: Callable[[], object]
    ) -> None:
        self._process = process
        self._on_exit = on_exit
        self._exit: asyncio.Task[ExitStatus] = asyncio.ensure_future(self._until_exit(on_output))

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    async def wait(self) -> ExitStatus:
        """The same status to all awaiters; cancelling one does not disturb the others."""
        return await asyncio.shield(self._exit)

    async def signal(self, signal: StopSignal) -> None:
        """End it; one that is gone is no error."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                self._process.terminate()

    async def _until_exit(self, on_output: Callable[[bytes], None]) -> ExitStatus:
        assert self._process.stdout is not None
        while chunk := await self._process.stdout.read(65536):
            on_output(chunk)
        code = await self._process.wait()
        self._on_exit()
        return ExitStatus(None, -code) if code < 0 else ExitStatus(code)


def _write(path: str, content: str, mode: int, keep_previous: bool) -> None:
    try:
        write_atomic(Path(path), content.encode(), mode=mode, keep_previous=keep_previous)
    except OSError as error:
        raise HostError(
            message(
                "{path} cannot be written: {reason}.",
                path=path,
                reason=error.strerror or str(error),
            ),
            message("Make the folder writable for this user, then start again."),
        ) from error

"""One launched server process: its output as chunks, its exit for every awaiter."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
from asyncio.subprocess import Process
from collections.abc import Callable

from twinrig.domain.launch import StopSignal
from twinrig.domain.ports import ExitStatus
from twinrig.hosts.local.signals import NUMBERS

_CHUNK_BYTES = 65536
_PIPE_BYTES = 1 << 20
_DRAIN_CHUNKS = 256


class OutputPipe:
    """A pipe of our own, since asyncio's would make ``wait`` hang on it.

    Orphans of the server keep the writing end open; the pipe is read until the last is gone.
    """

    def __init__(self, on_output: Callable[[bytes], None]) -> None:
        self._on_output = on_output
        self._loop = asyncio.get_running_loop()
        self._reading, self.writing = os.pipe()
        os.set_blocking(self._reading, False)
        with contextlib.suppress(OSError):  # the limit for users may be lower
            fcntl.fcntl(self._reading, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        self._loop.add_reader(self._reading, self._read)

    def close_writing(self) -> None:
        """To be called once the server has its copy."""
        os.close(self.writing)

    def drain(self) -> None:
        """Take what is there now, without waiting; bounded, as orphans may write on."""
        for _ in range(_DRAIN_CHUNKS):
            if not self._read():
                return

    def close(self) -> None:
        """Stop reading; safe to call twice."""
        if self._reading >= 0:
            self._loop.remove_reader(self._reading)
            os.close(self._reading)
            self._reading = -1

    def _read(self) -> bool:
        if self._reading < 0:
            return False
        try:
            chunk = os.read(self._reading, _CHUNK_BYTES)
        except BlockingIOError:
            return False
        except OSError:
            chunk = b""
        if not chunk:
            self.close()
            return False
        self._on_output(chunk)
        return True


class ServerProcess:
    """``RunningServer``; ``on_exit`` runs once, before the first awaiter hears of the exit."""

    def __init__(
        self, process: Process, pipe: OutputPipe, on_exit: Callable[[], None] = lambda: None
    ) -> None:
        self._process = process
        self._pipe = pipe
        self._on_exit = on_exit
        self._exit: asyncio.Task[ExitStatus] = asyncio.ensure_future(self._until_exit())

    @property
    def pid(self) -> int:
        """Process id; also the id of its session."""
        return self._process.pid

    async def wait(self) -> ExitStatus:
        """The same status to all awaiters; cancelling one does not disturb the others."""
        return await asyncio.shield(self._exit)

    async def signal(self, signal: StopSignal) -> None:
        """Send to this process only; one that is gone is no error."""
        # Not reaped before asyncio has its exit code: the pid cannot be somebody else's.
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(NUMBERS[signal])

    async def _until_exit(self) -> ExitStatus:
        code = await self._process.wait()
        self._pipe.drain()
        self._on_exit()
        return ExitStatus(None, -code) if code < 0 else ExitStatus(code)

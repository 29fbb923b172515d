"""One running ``wsl.exe``: started without a window, ended with all that belongs to it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from asyncio.subprocess import Process
from collections.abc import Callable, Mapping, Sequence

from twinrig.hosts.wsl.outcome import cannot_start, no_wsl

_CHUNK_BYTES = 65536
_POLL_S = 0.01


class Client:
    """A started ``wsl.exe``. ``close`` must be called; it ends what still runs."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._tree = _Tree(process)

    @property
    def returncode(self) -> int | None:
        """None while it runs."""
        return self._process.returncode

    @property
    def stdout(self) -> asyncio.StreamReader:
        """What Linux and ``wsl.exe`` write."""
        assert self._process.stdout is not None
        return self._process.stdout

    @property
    def stderr(self) -> asyncio.StreamReader:
        """Likewise."""
        assert self._process.stderr is not None
        return self._process.stderr

    async def ended(self) -> int:
        """Exit code. Not ``wait()``, which waits for the pipes too before Python 3.13."""
        while self._process.returncode is None:
            await asyncio.sleep(_POLL_S)
        return self._process.returncode

    async def feed(self, data: bytes) -> None:
        """Standard input to its end; a reader that leaves early is no fault of ours."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._process.stdin.write(data)
            await self._process.stdin.drain()
            self._process.stdin.close()

    def kill(self) -> None:
        """End it, and a real ``wsl.exe`` behind the one that was started."""
        if self._process.returncode is not None:
            return
        self._tree.kill()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            self._process.kill()

    def close(self) -> None:
        """Give everything back; safe to call twice."""
        self.kill()
        transport = getattr(self._process, "_transport", None)
        if transport is not None:
            transport.close()
        self._tree.close()


async def start(argv: Sequence[str], environ: Mapping[str, str]) -> Client:
    """Raises HostError when there is no such program or Windows refuses it."""
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=dict(environ),
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
            start_new_session=sys.platform != "win32",
        )
    except FileNotFoundError as error:
        raise no_wsl() from error
    except OSError as error:
        raise cannot_start(error.strerror or str(error)) from error
    return Client(process)


async def collect(stream: asyncio.StreamReader, take: Callable[[bytes], None]) -> None:
    """Hand on what comes, to the end."""
    while chunk := await stream.read(_CHUNK_BYTES):
        take(chunk)


if sys.platform == "win32":
    from twinrig.hosts.windows.job import KillOnCloseJob

    class _Tree:
        """The program and what it starts; without a job only the program itself can be ended."""

        def __init__(self, process: Process) -> None:
            self._job: KillOnCloseJob | None = None
            transport = getattr(process, "_transport", None)
            popen = transport.get_extra_info("subprocess") if transport is not None else None
            if popen is None:
                return
            with contextlib.suppress(OSError, AttributeError):
                job = KillOnCloseJob()
                job.assign(int(popen._handle))
                self._job = job

        def kill(self) -> None:
            if self._job is not None:
                self._job.terminate()

        def close(self) -> None:
            if self._job is not None:
                self._job.close()

else:

    class _Tree:
        """Here the session of the program stands for the job."""

        def __init__(self, process: Process) -> None:
            self._session = process.pid

        def kill(self) -> None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._session, signal.SIGKILL)

        def close(self) -> None:
            return

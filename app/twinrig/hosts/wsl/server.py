"""One server behind one ``wsl.exe`` that we own: its first words, its output, its end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from twinrig.domain.errors import HostError
from twinrig.domain.launch import StopSignal
from twinrig.domain.ports import ExitStatus
from twinrig.hosts.wsl import client
from twinrig.hosts.wsl.client import Client
from twinrig.hosts.wsl.framing import FrameReader

_FIRST_LINE_LIMIT_BYTES = 8192
_ERRORS_LIMIT_BYTES = 65536
_SIGNALS = range(1, 65)
_KILL_NUMBER = 9
_END_S = 5.0

Send = Callable[[int, int, StopSignal], Awaitable[None]]
"""Signals the process of this id and start time. Raises HostError when WSL does not answer."""


class WslConnection:
    """The streams of one launch. The first line of the payload is the launcher's, the rest goes
    to ``on_output``; ``first_line`` is None when the launch ended without one."""

    def __init__(
        self, started: Client, nonce: str, request: bytes, on_output: Callable[[bytes], None]
    ) -> None:
        self.client = started
        self.reader = FrameReader(nonce)
        self.errors = bytearray()
        self._on_output = on_output
        self._head = bytearray()
        self._first: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self._tasks = [
            asyncio.ensure_future(client.collect(started.stderr, self._keep_errors)),
            asyncio.ensure_future(started.feed(request)),
        ]
        self.over: asyncio.Task[None] = asyncio.ensure_future(self._read())

    async def first_line(self, limit_s: float) -> tuple[bool, str | None]:
        """Whether it came, or the launch ended, in this time; and the line."""
        done, _ = await asyncio.wait([self._first], timeout=limit_s)
        return (True, self._first.result()) if done else (False, None)

    async def close(self) -> None:
        """End ``wsl.exe`` if it still runs, and stop reading, also when cancelled meanwhile."""
        self.client.kill()
        tasks = [*self._tasks, self.over]
        try:
            await asyncio.wait([self.over, self._tasks[0]], timeout=1.0)
        finally:
            self.client.close()
            for task in tasks:
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _read(self) -> None:
        """Until the END line or the end of the stream: then the server has ended."""
        while self.reader.status is None:
            chunk = await self.client.stdout.read(65536)
            if not chunk:
                self._take(self.reader.rest())
                break
            self._take(self.reader.feed(chunk))
        if not self._first.done():
            self._first.set_result(None)

    def _take(self, payload: bytes) -> None:
        if not payload:
            return
        if self._first.done():
            self._on_output(payload)
            return
        self._head += payload
        line, newline, rest = bytes(self._head).partition(b"\n")
        if newline or len(line) > _FIRST_LINE_LIMIT_BYTES:
            self._first.set_result(line.decode("utf-8", "replace"))
            if rest:
                self._on_output(rest)

    def _keep_errors(self, chunk: bytes) -> None:
        if len(self.errors) < _ERRORS_LIMIT_BYTES:
            self.errors += chunk


class WslServer:
    """``RunningServer``. ``pid`` and ``start_ticks`` are of the Linux side."""

    def __init__(
        self,
        connection: WslConnection,
        pid: int,
        start_ticks: int,
        send: Send,
        on_exit: Callable[[], None],
    ) -> None:
        self._connection = connection
        self._pid = pid
        self._start_ticks = start_ticks
        self._send = send
        self._on_exit = on_exit
        self._cut = False
        self._exit: asyncio.Task[ExitStatus] = asyncio.ensure_future(self._until_exit())

    @property
    def pid(self) -> int:
        """Process id on the Linux side."""
        return self._pid

    async def wait(self) -> ExitStatus:
        """The same status to all awaiters; cancelling one does not disturb the others."""
        return await asyncio.shield(self._exit)

    async def signal(self, signal: StopSignal) -> None:
        """By a second ``wsl.exe``. Where that cannot be had, KILL cuts the first one off: its
        Linux side gets a hang-up, and the sweep ends what ignores that."""
        if self._exit.done():
            return
        try:
            await self._send(self._pid, self._start_ticks, signal)
        except HostError:
            if signal is not StopSignal.KILL:
                return
            self._cut_off()
        if signal is StopSignal.KILL:
            done, _ = await asyncio.wait([self._exit], timeout=2.0)
            if not done:
                self._cut_off()

    def _cut_off(self) -> None:
        self._cut = True
        self._connection.client.kill()

    async def _until_exit(self) -> ExitStatus:
        await asyncio.wait([self._connection.over])
        status = self._connection.reader.status
        if status is not None:  # ended from here, it would hang up on what the server left
            await asyncio.wait(
                [asyncio.ensure_future(self._connection.client.ended())], timeout=_END_S
            )
        await self._connection.close()
        self._on_exit()
        return exit_status(status, cut=self._cut)


def exit_status(status: int | None, *, cut: bool = False) -> ExitStatus:
    """What the shell said of the server; a shell reports a signal as 128 and its number.

    None: it said nothing, since WSL went away, or since we had ``cut`` it off.
    """
    if status is None:
        return ExitStatus(None, _KILL_NUMBER) if cut else ExitStatus(None, machine_gone=True)
    if status - 128 in _SIGNALS:
        return ExitStatus(None, status - 128)
    return ExitStatus(status)

"""One framed call from start to end: time-outs and what they mean, and nothing left behind."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import AsyncGenerator, Mapping, Sequence

from twinrig.domain.errors import HostError
from twinrig.domain.ports import CommandResult, Script, WslDistros
from twinrig.hosts.linux_scripts import KILL_MARKED
from twinrig.hosts.wsl import client
from twinrig.hosts.wsl.call import WslCall, wsl_environment
from twinrig.hosts.wsl.client import Client
from twinrig.hosts.wsl.decoding import decode_own
from twinrig.hosts.wsl.framing import CALL_VARIABLE, Frame, FrameReader, call_mark, read_frame
from twinrig.hosts.wsl.outcome import cannot_carry, failure, hangs, slow_start
from twinrig.hosts.wsl.times import WslTimes
from twinrig.messages import message


class Exchange:
    """Calls into one distribution. Raises HostError whenever there is no result."""

    def __init__(
        self,
        call: WslCall,
        environ: Mapping[str, str],
        distros: WslDistros,
        times: WslTimes,
        oem: str = "cp437",
    ) -> None:
        self.call = call
        self._environ = wsl_environment(environ)
        self._distros = distros
        self._times = times
        self._oem = oem

    async def run(
        self, command: Sequence[str] | Script, *, root: bool, timeout_s: float, stdin: bytes | None
    ) -> CommandResult:
        """Result of a command. Its time starts when Linux has started."""
        frame = Frame(secrets.token_hex(16), command, stdin)
        running = await self._started(frame, root)
        ended = False
        try:
            await self._until_begun(running)
            began_s = time.monotonic()
            timed_out = not await running.ends_within(timeout_s, self._times.linger_s)
            ended = not timed_out
        finally:
            await running.close()
            if not ended:
                await self._sweep(frame.nonce, root, running)
        framed = read_frame(frame.nonce, bytes(running.out), bytes(running.err))
        if framed.status is None and not timed_out:
            raise self._failure(running, framed.began)
        return CommandResult(
            frame.words(),
            None if timed_out else framed.status,
            framed.stdout,
            framed.stderr,
            time.monotonic() - began_s,
            timed_out,
        )

    async def stream(
        self, command: Sequence[str] | Script, *, root: bool
    ) -> AsyncGenerator[bytes, None]:
        """Merged output as it comes; leaving early ends the command and what it started."""
        frame = Frame(secrets.token_hex(16), command, merged=True)
        running = await self._started(frame, root)
        try:
            await self._until_begun(running)
            async for chunk in running.chunks():
                yield chunk
            if running.reader.status is None:
                raise self._failure(running, running.reader.began)
            if running.reader.absent:
                raise HostError(
                    message(
                        "{program} cannot be started: {reason}.",
                        program=frame.words()[0],
                        reason="No such file or directory",
                    ),
                    message("Install the program, then try again."),
                )
        finally:
            await running.close()
            if running.reader.status is None:
                await self._sweep(frame.nonce, root, running)

    async def _started(self, frame: Frame, root: bool) -> Running:
        try:
            request = frame.request()
        except ValueError as error:
            raise cannot_carry(str(error)) from error
        started = await client.start(self.call.argv(root=root), self._environ)
        return Running(started, frame, request)

    async def _until_begun(self, running: Running) -> None:
        """Returns also when the program ended. Raises HostError when neither comes."""
        if await running.begins_within(self._times.doubt_s):
            return
        await self._distros.running()  # raises when WSL as a whole hangs
        if await running.begins_within(self._times.start_s - self._times.doubt_s):
            return
        raise slow_start(self.call.distro, self._times.start_s)

    def _failure(self, running: Running, began: bool) -> HostError:
        code = running.client.returncode
        if code is None:
            return hangs()
        text = "\n".join(decode_own(bytes(part), self._oem) for part in (running.out, running.err))
        return failure(self.call.distro, code, began, text, user="root")

    async def _sweep(self, nonce: str, root: bool, running: Running) -> None:
        """End what the command started; some of it may have left its session."""
        if not running.reader.began:
            return
        script = Script("sweep", KILL_MARKED, (f"{CALL_VARIABLE}={call_mark(nonce)}",))
        frame = Frame(secrets.token_hex(16), script)
        with contextlib.suppress(HostError, TimeoutError):
            async with asyncio.timeout(self._times.sweep_s):
                names = {name.casefold() for name in await self._distros.running()}
                if self.call.distro.casefold() not in names:
                    return  # it would only be started again for this
                sweeper = await self._started(frame, root)
                try:
                    await sweeper.ends_within(self._times.sweep_s, 0.0)
                finally:
                    await sweeper.close()


class Running:
    """A call that runs: its streams are read all the time. What a merged one writes is handed on
    by ``chunks`` and not kept; of others ``out`` holds all."""

    def __init__(self, started: Client, frame: Frame, request: bytes) -> None:
        self.client = started
        self.reader = FrameReader(frame.nonce)
        self._kept = not frame.merged
        self.out = bytearray()
        self.err = bytearray()
        self._begun = asyncio.Event()
        self._chunks: asyncio.Queue[bytes] = asyncio.Queue()
        self._reading = [
            asyncio.ensure_future(client.collect(started.stdout, self._take)),
            asyncio.ensure_future(client.collect(started.stderr, self.err.extend)),
        ]
        self._feeding = asyncio.ensure_future(started.feed(request))
        self._ending = asyncio.ensure_future(started.ended())

    async def begins_within(self, limit_s: float) -> bool:
        """Whether Linux started, or the program ended, in this time."""
        begun = asyncio.ensure_future(self._begun.wait())
        try:
            await asyncio.wait(
                [begun, self._ending], timeout=limit_s, return_when=asyncio.FIRST_COMPLETED
            )
            return begun.done() or self._ending.done()
        finally:
            begun.cancel()

    async def ends_within(self, limit_s: float, linger_s: float) -> bool:
        """Whether it ended in time; then its output gets a moment to arrive."""
        done, _ = await asyncio.wait([self._ending], timeout=limit_s)
        if not done:
            return False
        await asyncio.wait(self._reading, timeout=linger_s)
        return True

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """The payload as it comes, until its END line or the end of the stream."""
        reading = self._reading[0]
        while self.reader.status is None or not self._chunks.empty():
            following = asyncio.ensure_future(self._chunks.get())
            await asyncio.wait([following, reading], return_when=asyncio.FIRST_COMPLETED)
            if following.done():
                if chunk := following.result():
                    yield chunk
                continue
            following.cancel()
            if self._chunks.empty():
                break
        if rest := self.reader.rest():
            yield rest
        await asyncio.wait([self._ending], timeout=1.0)

    async def close(self) -> None:
        """End it if it still runs, and stop reading; nothing stays when this is cancelled too."""
        tasks = [*self._reading, self._feeding, self._ending]
        self.client.kill()
        try:
            await asyncio.wait([*self._reading, self._ending], timeout=1.0)
        finally:
            self.client.close()
            for task in tasks:
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _take(self, chunk: bytes) -> None:
        if self._kept or not self.reader.began:
            self.out += chunk
        payload = self.reader.feed(chunk)
        if self.reader.began:
            self._begun.set()
        if not self._kept and (payload or self.reader.status is not None):
            self._chunks.put_nowait(payload)

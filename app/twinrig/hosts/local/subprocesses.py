"""Runs one program to its end with everything it started, and no longer than allowed."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from asyncio.subprocess import Process
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass

from twinrig.domain.ports import CommandResult
from twinrig.hosts.local import proc_table, signals

_CHUNK_BYTES = 65536
_LINGER_S = 0.5
_NOT_FOUND = 127
_NOT_EXECUTABLE = 126


@dataclass(frozen=True)
class Invocation:
    """Exact argv, standard input (None = nothing to read) and environment.

    ``kill_prefix`` is what must stand before ``kill`` to end processes of another user.
    """

    argv: tuple[str, ...]
    stdin: bytes | None
    env: Mapping[str, str]
    kill_prefix: tuple[str, ...] = ()


async def run_to_end(invocation: Invocation, timeout_s: float) -> CommandResult:
    """Output is kept also when time ran out. A program that is missing gives 127, as in a shell.

    A background process that keeps the output open does not delay the answer.
    """
    began_s = time.monotonic()
    try:
        process = await _start(invocation, asyncio.subprocess.PIPE)
    except (FileNotFoundError, NotADirectoryError, PermissionError) as error:
        code = _NOT_EXECUTABLE if isinstance(error, PermissionError) else _NOT_FOUND
        return CommandResult(
            invocation.argv, code, b"", str(error).encode(), time.monotonic() - began_s
        )
    buffers = bytearray(), bytearray()
    tasks = [
        asyncio.ensure_future(_collect(process.stdout, buffers[0])),
        asyncio.ensure_future(_collect(process.stderr, buffers[1])),
        asyncio.ensure_future(_feed(process, invocation.stdin)),
    ]
    try:
        timed_out = not await _ends_within(process, tasks, timeout_s)
    finally:
        await _wind_up(process, tasks, invocation.kill_prefix)
    return CommandResult(
        invocation.argv,
        None if timed_out else process.returncode,
        bytes(buffers[0]),
        bytes(buffers[1]),
        time.monotonic() - began_s,
        timed_out,
    )


async def stream_output(invocation: Invocation) -> AsyncGenerator[bytes, None]:
    """Standard output and error, merged, as they come; leaving early kills the tree.

    Raises OSError when the program cannot be started.
    """
    process = await _start(invocation, asyncio.subprocess.STDOUT)
    feeding = asyncio.ensure_future(_feed(process, invocation.stdin))
    try:
        assert process.stdout is not None
        while chunk := await process.stdout.read(_CHUNK_BYTES):
            yield chunk
        await process.wait()
    finally:
        await _wind_up(process, [feeding], invocation.kill_prefix)


async def _wind_up(
    process: Process, tasks: Sequence[asyncio.Task[None]], prefix: Sequence[str]
) -> None:
    """Nothing of it stays, also when this is cancelled in its turn."""
    try:
        if process.returncode is None:
            await kill_tree(process.pid, prefix)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LINGER_S):
                    await _returncode(process)
        await _settle(tasks)
    finally:
        _close(process)


async def kill_tree(pid: int, prefix: Sequence[str] = ()) -> None:
    """KILL a process, its session and all its descendants.

    Two rounds: a fork between look and kill is caught by the second. Processes of another user
    (root, under sudo) cannot be signalled by us; ``prefix`` runs ``kill`` as that user.
    """
    for _ in range(2):
        table = proc_table.read_table()
        tree = proc_table.descendants(table, [pid])
        tree |= {entry.pid for entry in table.values() if entry.session == pid}
        refused = [m for m in tree if not signals.send(m, table[m].start_ticks, signal.SIGKILL)]
        living = [str(m) for m in refused if proc_table.read_entry(m) == table[m]]
        if living and prefix:
            killer = await asyncio.create_subprocess_exec(
                *prefix, "kill", "-KILL", *living, stderr=asyncio.subprocess.DEVNULL
            )
            await killer.wait()
        await asyncio.sleep(0)


async def _start(invocation: Invocation, stderr: int) -> Process:
    return await asyncio.create_subprocess_exec(
        *invocation.argv,
        stdin=asyncio.subprocess.DEVNULL if invocation.stdin is None else asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=stderr,
        env=dict(invocation.env),
        cwd="/",
        start_new_session=True,
    )


async def _ends_within(
    process: Process, tasks: Sequence[asyncio.Task[None]], timeout_s: float
) -> bool:
    """Whether the program ended in time; then its output gets a moment to arrive."""
    ended = asyncio.ensure_future(_returncode(process))
    done, _ = await asyncio.wait([ended], timeout=timeout_s)
    ended.cancel()
    if not done:
        return False
    await asyncio.wait(tasks, timeout=_LINGER_S)
    return True


async def _returncode(process: Process) -> None:
    # Not process.wait(): before Python 3.13 that waits for the pipes too, which a background
    # child may keep open for ever.
    pause_s = 0.001
    while process.returncode is None:
        await asyncio.sleep(pause_s)
        pause_s = min(0.02, pause_s * 2)


async def _collect(stream: asyncio.StreamReader | None, buffer: bytearray) -> None:
    while stream is not None and (chunk := await stream.read(_CHUNK_BYTES)):
        buffer += chunk


async def _feed(process: Process, data: bytes | None) -> None:
    if data is None or process.stdin is None:
        return
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        process.stdin.write(data)
        await process.stdin.drain()
        process.stdin.close()


async def _settle(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        if not task.done():
            task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _close(process: Process) -> None:
    transport = getattr(process, "_transport", None)
    if transport is not None:
        transport.close()

"""The supervisor as a whole: lock, signals, heartbeat, and a clean end."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import Iterator

from twinrig.domain.errors import HostError
from twinrig.domain.server import ServerState
from twinrig.domain.supervision import Failure
from twinrig.messages import message
from twinrig.supervisor.context import Context, build_context
from twinrig.supervisor.intent import Intent
from twinrig.supervisor.keeper import Keeper
from twinrig.supervisor.parts import LOCK_NAME, SupervisorParts
from twinrig.supervisor.previous_run import load_previous
from twinrig.supervisor.waiting import cancel

EXIT_STOPPED = 0
EXIT_FAILED = 1
EXIT_COULD_NOT = 3
EXIT_BUG = 70

_KEEPING = frozenset(
    {
        ServerState.STARTING,
        ServerState.LOADING,
        ServerState.READY,
        ServerState.DEGRADED,
        ServerState.SLEEPING,
    }
)
"""States in which another wish to run is met already, or is being met."""


async def supervise(profile_id: str, parts: SupervisorParts) -> int:
    """Own the server of ``profile_id`` until it is STOPPED (0) or FAILED (1).

    3: another supervisor owns this target, or its folder cannot be written. 70: a fault of
    Twinrig itself; the service manager may start it again.
    """
    while True:
        if not parts.lock.acquire(LOCK_NAME):
            return EXIT_COULD_NOT
        context = build_context(profile_id, parts)
        try:
            code = await _supervise_locked(context)
        finally:
            context.writer.close()
            parts.lock.release()
        if not _asked_again(context):
            return code


def _asked_again(context: Context) -> bool:
    """A start that came while we were ending found the lock held and relies on us."""
    intent = context.intent
    intent.read()
    if intent.stop_wanted or intent.problem is not None:
        return False
    stopped = context.store.record.state is ServerState.STOPPED
    return stopped or intent.request_id != intent.carried_id


async def _supervise_locked(context: Context) -> int:
    context.intent.read()
    try:
        previous = load_previous(
            context.layout.state(context.profile_id), context.parts.clock.now()
        )
        boot_at_s = context.parts.boot_at_s()
        request_id = context.intent.carry()
        context.store.write_first(
            state=ServerState.STOPPING if context.intent.stop_wanted else ServerState.STARTING,
            run_id=previous.run_id,
            request_id=request_id,
            boot_at_s=boot_at_s,
            back_after_reboot=previous.back_after_reboot(request_id, boot_at_s),
        )
    except OSError as error:
        context.log.say(f"the state cannot be kept: {error}")
        sys.stderr.write(f"twinrig: the state cannot be kept: {error}\n")
        return EXIT_COULD_NOT
    if previous.moved_to is not None:
        context.log.say(f"damaged state file kept as {previous.moved_to}")
    beat = asyncio.ensure_future(_beat(context))
    try:
        with _signals(context.intent):
            state = await Keeper(context).keep(previous)
    except Exception as error:  # noqa: BLE001 whatever it is, the server must not be left alone
        await _after_bug(context, error)
        return EXIT_BUG
    finally:
        await cancel(beat)
        context.store.tick()
    return EXIT_STOPPED if state is ServerState.STOPPED else EXIT_FAILED


async def _beat(context: Context) -> None:
    """Look at the wish, write what was marked, keep the record fresh."""
    while True:
        await context.parts.clock.sleep(context.parts.timing.desired_poll_s)
        try:
            context.intent.read()
            context.store.mark(dropped_log_lines=context.writer.dropped_lines)
            if context.store.record.state in _KEEPING and not context.intent.stop_wanted:
                context.store.mark(request_id=context.intent.carry())
            context.store.tick()
        except Exception as error:  # noqa: BLE001 the heart must not stop
            context.log.say(f"heartbeat: {error!r}")


async def _after_bug(context: Context, error: Exception) -> None:
    context.log.say(f"fault in Twinrig itself: {error!r}")
    record = context.store.record
    with contextlib.suppress(HostError):  # the next supervisor sweeps
        await context.sweeper.sweep(
            record.run_id, record.shared_memory, context.parts.timing.orphan_grace_s
        )
    failure = Failure(
        message("Twinrig itself failed: {reason}.", reason=repr(error)),
        message("Start again. If it happens again, report it with supervisor.log."),
    )
    context.store.update(state=ServerState.FAILED, failure=failure, server_pid=None)


@contextlib.contextmanager
def _signals(intent: Intent) -> Iterator[None]:
    """TERM and INT end the server and us; HUP (a closed terminal) means nothing."""
    loop = asyncio.get_running_loop()
    installed: list[int] = []
    actions = {"SIGTERM": intent.quit, "SIGINT": intent.quit, "SIGHUP": lambda: None}
    for name, action in actions.items():
        number = getattr(signal, name, None)
        # Not on Windows, and not outside the main thread.
        with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
            if number is not None:
                loop.add_signal_handler(number, action)
                installed.append(number)
    try:
        yield
    finally:
        for number in installed:
            loop.remove_signal_handler(number)

"""``twinrig free`` and ``twinrig load``: give the memory of the cards back, and take it again."""

from __future__ import annotations

from twinrig.cli.phases import PhaseFollower
from twinrig.cli.server import STOP_WAIT_S, follow_start, show_failure
from twinrig.cli.session import FINDINGS, FINE, REQUESTED_BY, Session, pick_id
from twinrig.domain.errors import HostError
from twinrig.domain.quantities import gib
from twinrig.domain.server import ServerState
from twinrig.domain.supervision import ServerRecord
from twinrig.messages import message
from twinrig.services.freed_memory import LEAST_BYTES
from twinrig.services.workbench import Workbench

SLEEP_WAIT_S = 180.0
LOOKS, LOOK_EVERY_S = 10, 0.5


async def free(session: Session) -> int:
    """Sleep where the server can, else stop; tells how much memory came back."""
    terminal = session.terminal
    async with session.bench() as bench:
        profile_id = await pick_id(bench, session.args.profile)
        before = await _used_bytes(bench)
        asked = await bench.controller.free(profile_id, REQUESTED_BY)
        follower = PhaseFollower(terminal, bench.clock.now)
        try:
            record = await bench.controller.wait_for(
                profile_id,
                {asked, ServerState.STOPPED, ServerState.FAILED},
                SLEEP_WAIT_S if asked is ServerState.SLEEPING else STOP_WAIT_S,
                _raise_refusal,
            )
        finally:
            follower.done()
        freed = None if before is None else await _freed_bytes(bench, before)
        terminal.data({"state": record.state, "freed_bytes": freed, "record": record})
        if record.state is ServerState.FAILED and record.failure is not None:
            show_failure(terminal, record.failure)
            return FINDINGS
        if record.state is ServerState.SLEEPING:
            terminal.say(message("The server sleeps; its cards are free."), "good")
        else:
            terminal.say(message("The server was stopped; its cards are free."), "good")
        if freed is not None:
            terminal.say(message("Given back: {size} GiB of video memory.", size=gib(freed)))
        terminal.say(message('"twinrig load" loads the model again.'))
        return FINE


async def load(session: Session) -> int:
    """Wake the server up, or start it; followed until it is ready."""
    terminal, args = session.terminal, session.args
    async with session.bench() as bench:
        profile_id = await pick_id(bench, args.profile)
        began_s = bench.clock.now()
        await bench.controller.start(profile_id, REQUESTED_BY)
        record = await follow_start(terminal, bench, profile_id, args.timeout, began_s)
        terminal.data(record)
        return FINE if record.state is ServerState.READY else FINDINGS


def _raise_refusal(record: ServerRecord) -> None:
    if record.sleep_fault is not None:
        raise HostError(
            record.sleep_fault, message('It goes on as before; "twinrig stop" frees the cards.')
        )


async def _freed_bytes(bench: Workbench, before: int) -> int | None:
    """What came back; the driver may tell it a moment later than the server."""
    freed: int | None = None
    for _ in range(LOOKS):
        after = await _used_bytes(bench)
        freed = None if after is None else max(0, before - after)
        if freed is None or freed >= LEAST_BYTES:
            break
        await bench.clock.sleep(LOOK_EVERY_S)
    return freed


async def _used_bytes(bench: Workbench) -> int | None:
    _gpus, samples = await bench.estimating().gpus()
    values = [sample.memory_used_bytes for sample in samples]
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None

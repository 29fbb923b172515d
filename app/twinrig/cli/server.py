"""``twinrig start``, ``stop`` and ``status``."""

from __future__ import annotations

from twinrig.cli.format import duration
from twinrig.cli.going_back import offer_last_good
from twinrig.cli.phases import PhaseFollower, phase_line
from twinrig.cli.prove import prove
from twinrig.cli.session import (
    FINDINGS,
    FINE,
    REQUESTED_BY,
    UNKNOWN,
    Session,
    known_id,
    pick_id,
    pick_profile,
    profiles_of,
)
from twinrig.cli.terminal import Terminal
from twinrig.domain.server import ServerState
from twinrig.domain.supervision import Failure, ServerRecord
from twinrig.domain.wording import STATE_WORDS
from twinrig.messages import Message, message
from twinrig.services.controller import ServerStatus
from twinrig.services.workbench import Workbench

STOP_WAIT_S = 120.0
_AT_REST = frozenset({ServerState.STOPPED, ServerState.FAILED})


async def start(session: Session) -> int:
    """Start and follow the phases until READY (0) or FAILED (1)."""
    terminal, args = session.terminal, session.args
    async with session.bench() as bench:
        profile = await pick_profile(bench, args.profile)
        await _make_room(terminal, bench, profile.id)
        terminal.say(message("Starting {name}", name=profile.name), "bold")
        await bench.controller.start(profile.id, REQUESTED_BY)
        if args.no_wait:
            terminal.data(await bench.controller.status(profile.id))
            terminal.say(message("The supervisor is at work; the server loads by itself."))
            return FINE
        record = await follow_start(terminal, bench, profile.id, args.timeout)
        if args.prove is not None and record.state is ServerState.READY:
            proof = await prove(terminal, bench, profile.id, args.prove)
            terminal.data({"record": record, "proof": proof})
            return FINE if proof.kept else FINDINGS
        terminal.data(record)
        if record.state is ServerState.FAILED:
            await offer_last_good(terminal, bench, profile.id)
        return FINE if record.state is ServerState.READY else FINDINGS


async def _make_room(terminal: Terminal, bench: Workbench, profile_id: str) -> None:
    """Stop another profile's server when the user says so; else the start is refused and says
    why."""
    other = await bench.switching().running(profile_id)
    question = message(
        "Stop the server of {running} and start {wanted}?", running=other, wanted=profile_id
    )
    if other and terminal.ask(question):
        await bench.controller.stop(other, REQUESTED_BY)
        ends = {ServerState.STOPPED, ServerState.FAILED}
        await bench.controller.wait_for(other, ends, STOP_WAIT_S)


async def follow_start(
    terminal: Terminal, bench: Workbench, profile_id: str, timeout_s: float, began_s: float = 0.0
) -> ServerRecord:
    """Show the phases until READY or FAILED, and then the endpoint or the cause.

    ``began_s``: when a process that lived already was asked to load its model again.
    """
    follower = PhaseFollower(terminal, bench.clock.now)
    try:
        record = await bench.controller.wait_for(
            profile_id,
            {ServerState.READY, ServerState.FAILED, ServerState.STOPPED},
            timeout_s,
            None if terminal.json_mode else follower,
        )
    finally:
        follower.done()
    if record.state is ServerState.READY:
        took = (record.ready_at_s or 0) - max(record.started_at_s or 0, began_s)
        terminal.say(message("Ready after {time}.", time=duration(took)), "good")
        terminal.say(message("Base URL: {url}", url=record.base_url + "/v1"))
        terminal.say(message("Model: {model}", model=record.model_id))
        await bench.estimating().collect(bench.profiles)
    elif record.failure is not None:
        show_failure(terminal, record.failure)
    else:
        terminal.say(message("The server was stopped meanwhile."), "warn")
    return record


def show_failure(terminal: Terminal, failure: Failure) -> None:
    """Cause, the decisive log line, next step."""
    terminal.paragraph(failure.text, style="bad")
    if failure.root_cause_line:
        terminal.line(terminal.style(f"    {failure.root_cause_line}", "dim"))
    terminal.next_step(failure.next_step)


async def stop(session: Session) -> int:
    """Stop and wait until nothing is left."""
    terminal, args = session.terminal, session.args
    async with session.bench() as bench:
        choice = not args.profile and len(profiles_of(bench)) > 1
        if choice and await _any_status(bench) is None:
            terminal.say(message("No server runs on this target."))
            terminal.data({"profile_id": None, "record": None})
            return FINE
        profile_id = await pick_id(bench, args.profile)
        began_s = bench.clock.now()
        await bench.controller.stop(profile_id, REQUESTED_BY)
        if args.no_wait:
            terminal.data(await bench.controller.status(profile_id))
            terminal.say(message("The server was asked to stop."))
            return FINE
        return await wait_stopped(terminal, bench, profile_id, began_s)


async def wait_stopped(
    terminal: Terminal, bench: Workbench, profile_id: str, began_s: float
) -> int:
    """Follow a stop to its end. 1 when it failed since ``began_s``: something cannot be ended."""
    status = await bench.controller.status(profile_id)
    if status.record is None and status.problem is None:
        terminal.say(message("{profile} was not running.", profile=profile_id))
        terminal.data(status)
        return FINE
    follower = PhaseFollower(terminal, bench.clock.now)

    def follow(record: ServerRecord) -> None:
        if record.updated_at_s >= began_s and not terminal.json_mode:
            follower(record)

    try:
        record = await bench.controller.wait_for(profile_id, _AT_REST, STOP_WAIT_S, follow)
    finally:
        follower.done()
    terminal.data(record)
    if record.updated_at_s < began_s:  # it lay there before; nothing was left to stop
        terminal.say(message("{profile} was not running.", profile=profile_id))
        return FINE
    if record.failure is None or record.state is not ServerState.FAILED:
        return FINE
    show_failure(terminal, record.failure)
    return FINDINGS


async def status(session: Session) -> int:
    """One look. Exit code: 1 failed or not answering, 3 when the state cannot be read."""
    terminal, args = session.terminal, session.args
    async with session.bench() as bench:
        if args.profile:
            seen: ServerStatus | None = await bench.controller.status(
                await known_id(bench, args.profile)
            )
        else:
            seen = await _any_status(bench)
        terminal.data({"target": bench.target, "demo": bench.demo, "status": seen})
        if seen is None:
            terminal.say(message("No server runs on this target."))
            return FINE
        show_status(terminal, seen, bench.clock.now())
        return _status_code(seen)


async def _any_status(bench: Workbench) -> ServerStatus | None:
    active = await bench.controller.active()
    if active is not None:
        return active
    record = await bench.controller.active_record()
    if record is not None:
        return await bench.controller.status(record.profile_id)
    for profile in profiles_of(bench):  # "nothing runs" must not be said of an unreadable record
        seen = await bench.controller.status(profile.id)
        if seen.problem is not None:
            return seen
    return None


def show_status(terminal: Terminal, seen: ServerStatus, now_s: float) -> None:
    """State, phase, endpoint, uptime, restarts and what is wrong."""
    record = seen.record
    rows: list[tuple[str, str]] = [(terminal.text(message("Profile")), seen.profile_id)]
    if record is None:
        never = message("Never started") if seen.problem is None else message("Unknown")
        rows.append((terminal.text(message("State")), terminal.text(never)))
    else:
        rows += _record_rows(terminal, record, now_s)
    if seen.autostart:
        rows.append((terminal.text(message("At logon")), terminal.text(message("starts"))))
    terminal.table(rows)
    if seen.problem is not None:
        terminal.paragraph(seen.problem, style="warn")
    if record is not None and record.degraded_reason is not None:
        terminal.paragraph(record.degraded_reason, style="warn")
    if record is not None and record.failure is not None:
        show_failure(terminal, record.failure)


def _record_rows(terminal: Terminal, record: ServerRecord, now_s: float) -> list[tuple[str, str]]:
    state = terminal.text(Message(STATE_WORDS[record.state]))
    style = {ServerState.READY: "good", ServerState.FAILED: "bad"}.get(record.state, "")
    rows = [(terminal.text(message("State")), terminal.style(state, style))]
    loading = record.state in (ServerState.STARTING, ServerState.LOADING)
    if loading and record.phases:
        line = phase_line(terminal, record.phases[-1], now_s)
        rows.append((terminal.text(message("Phase")), line))
    if record.state in (ServerState.READY, ServerState.DEGRADED):
        if record.ready_at_s is not None:
            up = duration(now_s - record.ready_at_s)
            rows.append((terminal.text(message("Ready for")), up))
        rows.append((terminal.text(message("Base URL")), record.base_url + "/v1"))
        rows.append((terminal.text(message("Model")), record.model_id))
    if record.back_after_reboot:
        since = terminal.text(message("back by itself since the computer's restart"))
        rows.append((terminal.text(message("Start")), since))
    if record.restarts:
        rows.append((terminal.text(message("Restarts")), str(record.restarts)))
    if record.environment_mismatch:
        names = ", ".join(record.environment_mismatch)
        rows.append((terminal.text(message("Not in effect")), names))
    if record.log_path:
        rows.append((terminal.text(message("Log")), record.log_path))
    return rows


def _status_code(seen: ServerStatus) -> int:
    if seen.record is None:
        return FINE if seen.problem is None else UNKNOWN
    bad = seen.record.state in (ServerState.FAILED, ServerState.DEGRADED)
    return FINDINGS if bad or seen.problem is not None else FINE

"""What the Server page shows: state, phases, failure and which buttons may be pressed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from twinrig.diagnosis.next_probe import finding_of_failure
from twinrig.domain.checks import Finding
from twinrig.domain.server import ACTIVE_STATES, ANSWERING_STATES, Phase, ServerState
from twinrig.domain.supervision import Failure, PhaseTime, ServerRecord
from twinrig.domain.wording import PHASE_WORDS, STATE_WORDS
from twinrig.messages import Message, message

if TYPE_CHECKING:
    from twinrig.services.controller import ServerStatus

STARTABLE = frozenset({ServerState.STOPPED, ServerState.FAILED, ServerState.BACKOFF})
"""Start in BACKOFF ends the waiting."""

CONFIDENCE_WORDS = {
    "certain": message("Certain"),
    "high": message("Very likely"),
    "medium": message("Likely"),
    "low": message("A guess"),
}


class PhaseState(StrEnum):
    """How a phase of the load stands; STUCK: the server failed in it, ENDED: it was stopped."""

    DONE = "done"
    RUNNING = "running"
    STUCK = "stuck"
    ENDED = "ended"


def finding_of(failure: Failure | None) -> Finding | None:
    """What fixes are offered for; None where nothing is known to help. For an unknown cause
    these make the next start tell more."""
    return None if failure is None else finding_of_failure(failure)


@dataclass(frozen=True)
class PhaseRow:
    """One phase: seconds so far or in all, seconds it took last time, progress 0 to 1."""

    phase: Phase
    state: PhaseState
    elapsed_s: float
    expected_s: float | None
    progress: float | None

    @property
    def word(self) -> str:
        """Marked sentence."""
        return PHASE_WORDS[self.phase]

    @property
    def fraction(self) -> float | None:
        """0 to 1 for a bar: what the engine says, else time against last time; None = unknown."""
        if self.state is PhaseState.DONE:
            return 1.0
        if self.progress is not None:
            return max(0.0, min(1.0, self.progress))
        if self.state is PhaseState.RUNNING and self.expected_s:
            return min(0.99, self.elapsed_s / self.expected_s)
        return None


@dataclass(frozen=True)
class ServerView:
    """All of the page's state for one profile at one instant."""

    state: ServerState
    headline: Message
    detail: Message | None
    phases: tuple[PhaseRow, ...]
    failure: Failure | None
    base_url: str
    uptime_s: float | None
    can_start: bool
    can_stop: bool
    can_restart: bool
    autostart: bool | None
    warning: Message | None

    @property
    def answering(self) -> bool:
        """Clients get replies."""
        return self.state in ANSWERING_STATES

    @property
    def at_work(self) -> bool:
        """A supervisor is at work on it, or something is left of it."""
        return self.state in ACTIVE_STATES

    @property
    def moving(self) -> bool:
        """Something is on its way; elapsed times tick."""
        return self.state in ACTIVE_STATES and self.state is not ServerState.READY


NEVER_STARTED = ServerView(
    state=ServerState.STOPPED,
    headline=message("Stopped"),
    detail=None,
    phases=(),
    failure=None,
    base_url="",
    uptime_s=None,
    can_start=True,
    can_stop=False,
    can_restart=False,
    autostart=None,
    warning=None,
)


def server_view(status: ServerStatus, now_s: float, other: str = "") -> ServerView:
    """What to show for ``status``. ``other`` names the profile that holds the cards instead."""
    record = status.record
    if record is None:
        return _without_record(status, other)
    state = record.state
    alive = status.supervisor_alive
    lost = state in ACTIVE_STATES and not alive
    return ServerView(
        state=state,
        headline=Message(STATE_WORDS[state]),
        detail=_detail(record, now_s),
        phases=phase_rows(record, now_s),
        failure=record.failure if state in (ServerState.FAILED, ServerState.BACKOFF) else None,
        base_url=record.base_url if state in ANSWERING_STATES else "",
        uptime_s=_uptime(record, now_s),
        can_start=not other and (lost or state in STARTABLE),
        can_stop=(state in ACTIVE_STATES and state is not ServerState.STOPPING) or lost,
        can_restart=not other and state in ACTIVE_STATES and state is not ServerState.STOPPING,
        autostart=status.autostart,
        warning=_warning(status, record, lost, other),
    )


def _without_record(status: ServerStatus, other: str) -> ServerView:
    damaged = status.problem is not None
    return ServerView(
        state=ServerState.STOPPED,
        headline=message("State unknown") if damaged else message("Stopped"),
        detail=None,
        phases=(),
        failure=None,
        base_url="",
        uptime_s=None,
        can_start=not other and not status.supervisor_alive,
        can_stop=damaged or status.supervisor_alive,
        can_restart=False,
        autostart=status.autostart,
        warning=status.problem or (_other(other) if other else None),
    )


def _other(name: str) -> Message:
    return message(
        "The profile {name} uses the cards now. Stop it first: one server runs at a time.",
        name=name,
    )


def _uptime(record: ServerRecord, now_s: float) -> float | None:
    if record.state not in ANSWERING_STATES or record.ready_at_s is None:
        return None
    return max(0.0, now_s - record.ready_at_s)


def _detail(record: ServerRecord, now_s: float) -> Message | None:
    state = record.state
    if state is ServerState.READY and record.model_id:
        return message("Serving {model}", model=record.model_id)
    if state is ServerState.DEGRADED:
        return record.degraded_reason
    if state is ServerState.BACKOFF and record.next_restart_at_s is not None:
        seconds = max(0, round(record.next_restart_at_s - now_s))
        return message(
            "It ended by itself ({exit}). Next try in {seconds} s. Restarts so far: {restarts}",
            exit=record.last_exit or "?",
            seconds=seconds,
            restarts=record.restarts,
        )
    return None


def _warning(status: ServerStatus, record: ServerRecord, lost: bool, other: str) -> Message | None:
    if status.problem is not None:
        return status.problem
    if lost:
        return message(
            "The process that kept this server is gone. Start begins anew, Stop cleans up."
        )
    if record.state is ServerState.READY and status.answering is False:
        return message("The server said that it is ready, but it does not answer now.")
    if record.environment_mismatch:
        return message(
            "These variables did not reach the server as set: {names}",
            names=", ".join(record.environment_mismatch),
        )
    return _other(other) if other else None


def phase_rows(record: ServerRecord, now_s: float) -> tuple[PhaseRow, ...]:
    """Rows of the load: a phase lasts until the next begins; READY ends the last one."""
    rows = []
    times = record.phases
    for i, time in enumerate(times):
        if time.phase not in (Phase.SERVE, Phase.STOP):
            following = times[i + 1] if i + 1 < len(times) else None
            rows.append(_phase_row(time, following, record, now_s))
    return tuple(rows)


def _phase_row(
    time: PhaseTime, following: PhaseTime | None, record: ServerRecord, now_s: float
) -> PhaseRow:
    ready_at_s = record.ready_at_s
    if following is not None:
        state, end = PhaseState.DONE, following.started_at_s
    elif ready_at_s is not None and ready_at_s >= time.started_at_s:
        state, end = PhaseState.DONE, ready_at_s
    elif record.state in (ServerState.STARTING, ServerState.LOADING):
        state, end = PhaseState.RUNNING, now_s
    elif record.state in (ServerState.FAILED, ServerState.BACKOFF):
        state, end = PhaseState.STUCK, record.updated_at_s
    else:
        state, end = PhaseState.ENDED, record.updated_at_s
    return PhaseRow(
        time.phase, state, max(0.0, end - time.started_at_s), time.expected_s, time.progress
    )


def remaining_s(rows: Sequence[PhaseRow]) -> float | None:
    """Seconds the running phase still needs by last time's measure; None = never measured."""
    for row in rows:
        if row.state is PhaseState.RUNNING and row.expected_s is not None:
            return max(0.0, row.expected_s - row.elapsed_s)
    return None

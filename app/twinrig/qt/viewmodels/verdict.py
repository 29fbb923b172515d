"""One sentence: do both cards work? Plain and honest; "cannot tell" is an answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from twinrig.domain.metrics import Snapshot
from twinrig.domain.quantities import duration, number
from twinrig.domain.server import ANSWERING_STATES, ServerState
from twinrig.domain.supervision import ServerRecord, is_silent
from twinrig.messages import Message, message
from twinrig.qt.viewmodels.overview import Verdict, loads

WINDOW = 10
"""Snapshots that a verdict looks at."""

ENOUGH = 4
"""Busy snapshots needed before anything is said about the cards."""

WORKING_PERCENT = 25.0
IDLE_PERCENT = 8.0

_BEFORE_READY: Mapping[ServerState, Verdict] = MappingProxyType(
    {
        ServerState.STOPPED: Verdict(message("No server is running."), "muted"),
        ServerState.STARTING: Verdict(
            message("The server is starting; there is nothing to judge yet."), "busy"
        ),
        ServerState.LOADING: Verdict(
            message("The server is loading; there is nothing to judge yet."), "busy"
        ),
        ServerState.BACKOFF: Verdict(
            message("The server ended unexpectedly and is started again soon."), "warn"
        ),
        ServerState.SLEEPING: Verdict(
            message("The server sleeps: it has given the memory of the cards back."), "muted"
        ),
        ServerState.STOPPING: Verdict(message("The server is stopping."), "busy"),
        ServerState.FAILED: Verdict(
            message("The server failed. The Server page shows the reason."), "fail"
        ),
        ServerState.DEGRADED: Verdict(
            message("The server runs, but does not answer as it should."), "warn"
        ),
    }
)


def verdict(recent: Sequence[Snapshot]) -> Verdict:
    """Judge the last snapshots, oldest first. Facts that are missing are named as missing."""
    if not recent:
        return Verdict(message("Waiting for the first reading."), "muted")
    newest = recent[-1]
    record = newest.server
    if record is None:
        return _BEFORE_READY[ServerState.STOPPED]
    if is_silent(record, newest.taken_at_s):
        return _silent(record, newest.taken_at_s)
    if record.state is not ServerState.READY:
        return _not_ready(record)
    busy = [s for s in recent[-WINDOW:] if _is_busy(s)]
    if not _is_busy(newest):
        return _idle(newest)
    if len(busy) < ENOUGH:
        return Verdict(message("The server generates; the cards are being watched."), "busy")
    return _both_cards(busy)


def _silent(record: ServerRecord, now_s: float) -> Verdict:
    age = duration(now_s - record.updated_at_s)
    text = message("Cannot tell: the supervisor has not reported for {time}.", time=age)
    return Verdict(text, "warn")


def _not_ready(record: ServerRecord) -> Verdict:
    if record.state is ServerState.FAILED and record.failure is not None:
        return Verdict(record.failure.text, "fail")
    if record.state in ANSWERING_STATES and record.degraded_reason is not None:
        return Verdict(record.degraded_reason, "warn")
    return _BEFORE_READY[record.state]


def _is_busy(snapshot: Snapshot) -> bool:
    speed = snapshot.throughput
    return bool(speed.generation_tps) or bool(speed.prompt_tps) or bool(speed.requests_running)


def _idle(newest: Snapshot) -> Verdict:
    speed = newest.throughput
    if speed.generation_tps is None and speed.requests_running is None:
        return Verdict(
            message("Ready. Cannot tell how busy: the server gives no figures."), "muted"
        )
    return Verdict(message("Ready and idle: no request is running."), "ok")


def _both_cards(busy: Sequence[Snapshot]) -> Verdict:
    means = loads(busy)
    if len(means) < 2:
        text = message("The server generates; fewer than two cards can be seen.")
        return Verdict(text, "warn")
    if any(mean is None for mean in means):
        text = message(
            "The server generates. Cannot tell whether both cards work: "
            "the load of a card is not available."
        )
        return Verdict(text, "muted")
    known = [mean for mean in means if mean is not None]
    return _judge(known, [info.index for info in busy[-1].gpus])


def _judge(means: Sequence[float], indices: Sequence[int]) -> Verdict:
    listed = {"loads": _listed(means)}
    if min(means) >= WORKING_PERCENT:
        return Verdict(Message(_ALL_WORK.msgid, listed), "ok")
    working = [i for i, mean in enumerate(means) if mean >= WORKING_PERCENT]
    resting = [i for i, mean in enumerate(means) if mean < IDLE_PERCENT]
    if len(working) == 1 and len(resting) == len(means) - 1:
        return Verdict(Message(_ONE_WORKS.msgid, {"index": indices[working[0]], **listed}), "warn")
    return Verdict(Message(_UNCLEAR.msgid, listed), "muted")


def _listed(means: Sequence[float]) -> str:
    return ", ".join(f"{number(round(mean))} %" for mean in means)


_ALL_WORK = message("All cards work (load {loads}).")
_ONE_WORKS = message("Only GPU {index} works; the others are idle (load {loads}).")
_UNCLEAR = message(
    "The server generates, but the loads are low or uneven ({loads}). Cannot tell why from this."
)

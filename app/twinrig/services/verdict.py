"""One honest sentence: do both cards work, and what limits them? Pure rules, no clock, no I/O.

NVML averages over 1/6 to 1 s while a layer split alternates every 25 ms or so: at 1 Hz both ways
of splitting show two loaded cards. With a single request they differ in the *sum* of the loads:
a layer split cannot exceed 100 %, tensor parallel of a model worth splitting does (67 + 70 %).
Where the figures cannot decide, the verdict says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from twinrig.domain.metrics import Snapshot
from twinrig.domain.quantities import duration, number
from twinrig.domain.server import ANSWERING_STATES, ServerState
from twinrig.domain.supervision import ServerRecord, is_silent
from twinrig.messages import Message, message
from twinrig.services.situation import WINDOW_S, is_busy, situation, steady, within
from twinrig.services.verdict_rules import judge_busy, stalled
from twinrig.services.verdict_words import (
    CHECK_CARDS,
    SERVER_LOG,
    Verdict,
    card_evidence,
    listed,
)

KEPT = 64
"""Snapshots worth keeping for a verdict."""

ENOUGH = 4
"""Steady busy snapshots needed before anything is said about the cards."""

FOREIGN_PERCENT = 40.0
"""Load without a request that is no longer a desktop at rest."""

_NOT_READY: Mapping[ServerState, Verdict] = MappingProxyType(
    {
        ServerState.STOPPED: Verdict("stopped", message("No server is running."), "muted"),
        ServerState.STARTING: Verdict(
            "starting", message("The server is starting; there is nothing to judge yet."), "busy"
        ),
        ServerState.LOADING: Verdict(
            "loading", message("The server is loading; there is nothing to judge yet."), "busy"
        ),
        ServerState.BACKOFF: Verdict(
            "backoff",
            message("The server ended unexpectedly and is started again soon."),
            "warn",
            link=SERVER_LOG,
        ),
        ServerState.SLEEPING: Verdict(
            "sleeping",
            message("The server sleeps: it has given the memory of the cards back."),
            "muted",
        ),
        ServerState.STOPPING: Verdict("stopping", message("The server is stopping."), "busy"),
        ServerState.FAILED: Verdict(
            "failed",
            message("The server failed. The Server page shows the reason."),
            "fail",
            link=SERVER_LOG,
        ),
        ServerState.DEGRADED: Verdict(
            "degraded",
            message("The server runs, but does not answer as it should."),
            "warn",
            link=SERVER_LOG,
        ),
    }
)


def verdict(recent: Sequence[Snapshot]) -> Verdict:
    """Judge the last snapshots, oldest first; ``KEPT`` of them are enough."""
    if not recent:
        return Verdict("waiting", message("Waiting for the first reading."), "muted")
    newest = recent[-1]
    record = newest.server
    if record is None:
        return _NOT_READY[ServerState.STOPPED]
    if is_silent(record, newest.taken_at_s):
        return _silent(record, newest.taken_at_s)
    if record.state is not ServerState.READY:
        return _not_ready(record)
    same = [s for s in recent if s.server is not None and s.server.run_id == record.run_id]
    return _lost_cards(newest) or _ready(same)


def _ready(recent: Sequence[Snapshot]) -> Verdict:
    if not is_busy(recent[-1]):
        return _idle(recent)
    stuck = stalled(recent)
    if stuck is not None:
        return stuck
    stretch = steady(within(recent, WINDOW_S))
    if len(stretch) < ENOUGH:
        text = message("The server works on a request; the cards are being watched.")
        return Verdict("watching", text, "busy", sure=False)
    return judge_busy(situation(stretch))


def _silent(record: ServerRecord, now_s: float) -> Verdict:
    age = duration(now_s - record.updated_at_s)
    text = message("Cannot tell: the supervisor has not reported for {time}.", time=age)
    return Verdict("silent", text, "warn", link=SERVER_LOG, sure=False)


def _not_ready(record: ServerRecord) -> Verdict:
    usual = _NOT_READY[record.state]
    if record.state is ServerState.FAILED and record.failure is not None:
        return Verdict("failed", record.failure.text, "fail", link=SERVER_LOG)
    if record.state in ANSWERING_STATES and record.degraded_reason is not None:
        return Verdict("degraded", record.degraded_reason, "warn", link=SERVER_LOG)
    return usual


def _lost_cards(newest: Snapshot) -> Verdict | None:
    """Cards that gave values before and do not answer now."""
    stale = {sample.uuid for sample in newest.samples if sample.stale}
    lost = [info.index for info in newest.gpus if info.uuid in stale]
    if not lost:
        return None
    if len(lost) == len(newest.gpus):
        text = message("Cannot tell: the graphics cards do not answer.")
        reason = (Message(newest.gpu_error),) if newest.gpu_error else ()
        return Verdict("cards-lost", text, "warn", reason, CHECK_CARDS, sure=False)
    text = message(
        "GPU {index} does not answer; its last known values are shown.",
        index=", ".join(str(index) for index in lost),
    )
    return Verdict("card-lost", text, "fail", (), CHECK_CARDS)


def _idle(recent: Sequence[Snapshot]) -> Verdict:
    speed = recent[-1].throughput
    resting: list[Snapshot] = []
    for snapshot in reversed(within(recent, WINDOW_S)):
        if is_busy(snapshot):
            break
        resting.append(snapshot)
    silent = speed.generation_tps is None and speed.requests_running is None
    mute = silent and not speed.told_at_end
    # The first reading after a request still averages over the request.
    cards = situation(resting[:-1] or resting).cards
    loaded = [card for card in cards if card.load is not None and card.load >= FOREIGN_PERCENT]
    loads = listed([card.load for card in cards])
    evidence = card_evidence(cards)
    if mute:
        if len(resting) >= ENOUGH and loaded:
            text = message(
                "Ready. The cards work (load {loads}), but the server gives no figures.",
                loads=loads,
            )
            return Verdict("no-figures", text, "muted", evidence, sure=False)
        text = message("Ready. Cannot tell how busy: the server gives no figures.")
        return Verdict("no-figures", text, "muted", sure=False)
    if len(resting) >= ENOUGH and loaded:
        text = message(
            "No request is running, but GPU {index} works for another program (load {load} %).",
            index=", ".join(str(card.index) for card in loaded),
            load=number(round(max(card.load or 0.0 for card in loaded))),
        )
        return Verdict("foreign-load", text, "warn", evidence)
    return Verdict("idle", message("Ready and idle: no request is running."), "ok", evidence)

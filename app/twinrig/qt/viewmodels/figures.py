"""What the row below the graphs says: room in the KV cache, latency, hits, energy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from twinrig.domain.metrics import Snapshot, Throughput
from twinrig.domain.quantities import NOT_AVAILABLE, number
from twinrig.domain.server import ANSWERING_STATES
from twinrig.messages import Message, message
from twinrig.services.situation import is_busy

WH_J = 3600.0
SHOWN_STEPS = 200
"""Shares are rounded to half a percent: a bar that twitches costs a paint."""


@dataclass(frozen=True)
class FiguresView:
    """``used_share`` is 0 to 1; None is shown as unknown, never as empty."""

    used_share: float | None
    room: Message
    facts: tuple[Message, ...] = ()


class LastKnown:
    """Keeps figures that hold for single intervals until the next one tells another."""

    def __init__(self) -> None:
        self._run = ""
        self.first_token_s: float | None = None
        self.prefix_hit_ratio: float | None = None
        self.draft_acceptance: float | None = None
        self.reply: tuple[float, float] | None = None

    def take(self, snapshot: Snapshot) -> None:
        """Another snapshot; another run of the server forgets all."""
        run = snapshot.server.run_id if snapshot.server else ""
        if run != self._run:
            self.__init__()  # type: ignore[misc]
            self._run = run
        speed = snapshot.throughput
        told = speed.last_reply_tps
        if told is not None and (self.reply is None or speed.ended or told != self.reply[0]):
            self.reply = (told, snapshot.taken_at_s)
        for name in ("first_token_s", "prefix_hit_ratio", "draft_acceptance"):
            value = getattr(speed, name)
            if value is not None:
                setattr(self, name, value)


def figures_view(
    snapshot: Snapshot | None, last: LastKnown, energy_j: float | None, tokens: float | None
) -> FiguresView | None:
    """None while no server answers. Energy and tokens are those of the remembered readings."""
    if snapshot is None or snapshot.server is None:
        return None
    if snapshot.server.state not in ANSWERING_STATES:
        return None
    speed = snapshot.throughput
    usage = speed.kv_cache_usage
    share = None if usage is None else round(usage * SHOWN_STEPS) / SHOWN_STEPS
    replies = _replies(snapshot, last)
    return FiguresView(share, _room(speed, share), (*replies, *_facts(last, energy_j, tokens)))


def _replies(snapshot: Snapshot, last: LastKnown) -> tuple[Message, ...]:
    """For engines that tell a speed only when a request has ended: the last one and its age."""
    if not snapshot.throughput.told_at_end:
        return ()
    told = () if last.reply is None else (_last_reply(snapshot, last.reply),)
    return (message("Generating"), *told) if is_busy(snapshot) else told


def _last_reply(snapshot: Snapshot, reply: tuple[float, float]) -> Message:
    rate, at_s = reply
    age_s = snapshot.taken_at_s - at_s
    age = message("just now") if age_s < 60 else message("{n} min ago", n=int(age_s // 60))
    return message("Last reply {rate} T/s ({age})", rate=number(rate), age=age)


def speed_words(snapshot: Snapshot, last: LastKnown) -> tuple[Message, ...]:
    """What small places say of the speed; empty = not known. Never a zero that nobody told."""
    speed = snapshot.throughput.generation_tps
    if speed is not None:
        return (message("{rate} T/s", rate=number(speed)),)
    return _replies(snapshot, last)


def _room(speed: Throughput, share: float | None) -> Message:
    if share is None:
        return NOT_AVAILABLE
    free = max(0.0, 1.0 - share)
    percent = number(round(free * 100))
    size = speed.kv_cache_size_tokens
    if size is None:
        return message(
            "KV cache: {used} % in use, {percent} % free",
            used=number(100 - round(free * 100)),
            percent=percent,
        )
    return message(
        "KV cache: {free} of {size} tokens free ({percent} %)",
        free=f"{round(free * size):,}",
        size=f"{size:,}",
        percent=percent,
    )


def _facts(last: LastKnown, energy_j: float | None, tokens: float | None) -> Sequence[Message]:
    facts = []
    if last.first_token_s is not None:
        seconds = f"{last.first_token_s:.2f}" if last.first_token_s < 10 else None
        shown = seconds or number(round(last.first_token_s))
        facts.append(message("First token after {seconds} s", seconds=shown))
    if last.prefix_hit_ratio is not None:
        percent = number(round(last.prefix_hit_ratio * 100))
        facts.append(message("Prefix hits {percent} %", percent=percent))
    if last.draft_acceptance is not None:
        percent = number(round(last.draft_acceptance * 100))
        facts.append(message("Drafts accepted {percent} %", percent=percent))
    if energy_j is not None and energy_j > 0:
        energy = f"{energy_j / WH_J:.1f}"
        if tokens and tokens >= 1:
            facts.append(
                message(
                    "{energy} Wh in 15 min, {joule} J per token",
                    energy=energy,
                    joule=number(round(energy_j / tokens, 1)),
                )
            )
        else:
            facts.append(message("{energy} Wh in 15 min", energy=energy))
    return facts

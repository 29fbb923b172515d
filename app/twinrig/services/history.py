"""What happened: the last quarter of an hour by the second, and minutes to be kept on disk."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from twinrig.domain.gpu import GpuSample
from twinrig.domain.metrics import Ended, Snapshot
from twinrig.domain.server import ServerState
from twinrig.domain.supervision import ServerRecord
from twinrig.messages import N_

RING_S = 900.0
MINUTE_S = 60.0
LONGEST_STEP_S = 10.0
"""A longer pause between two snapshots (sleep, suspended computer) counts as unknown."""
PENDING_MINUTES = 120
KEPT_EVENTS = 500

EVENT_WORDS = {
    "start": N_("Start"),
    "ready": N_("Ready"),
    "stop": N_("Stop"),
    "crash": N_("Crash"),
    "failed": N_("Failed"),
    "fix": N_("Fix applied"),
}


@dataclass(frozen=True)
class CardPoint:
    """One card at one instant, or its means over a minute. None = not available."""

    uuid: str
    load: float | None = None
    memory_bytes: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None


@dataclass(frozen=True)
class Point:
    """One reading. ``step_s`` is the time since the one before, 0 when that is unknown."""

    at_s: float
    step_s: float
    cards: tuple[CardPoint, ...]
    generation_tps: float | None = None
    prompt_tps: float | None = None
    kv_cache_usage: float | None = None
    generation_tokens: float | None = None
    prompt_tokens: float | None = None


@dataclass(frozen=True)
class Minute:
    """One minute: ``start_s`` is a multiple of 60, ``seconds`` of it were seen; tokens are sums."""

    start_s: float
    seconds: float
    cards: tuple[CardPoint, ...]
    generation_tokens: float | None = None
    prompt_tokens: float | None = None
    kv_cache_usage: float | None = None


@dataclass(frozen=True)
class Event:
    """Something worth a mark on the time axis. ``kind`` as in EVENT_WORDS; ``text`` may be ""."""

    at_s: float
    kind: str
    text: str = ""


class History:
    """Fed by one stream of snapshots. Nothing here touches a disk."""

    def __init__(self, ring_s: float = RING_S) -> None:
        self._ring_s = ring_s
        self._points: deque[Point] = deque()
        self._events: deque[Event] = deque(maxlen=KEPT_EVENTS)
        self._open: list[Point] = []
        self._done: deque[Minute] = deque(maxlen=PENDING_MINUTES)
        self._new_events: deque[Event] = deque(maxlen=KEPT_EVENTS)
        self._record: ServerRecord | None = None
        self._seen = False
        self._forget()

    def take(self, snapshot: Snapshot) -> Point | None:
        """Remember a snapshot; one that is not newer than the last is left out (None)."""
        last = self._points[-1] if self._points else None
        if last is not None and snapshot.taken_at_s <= last.at_s:
            if last.at_s - snapshot.taken_at_s < LONGEST_STEP_S:
                return None
            self._forget()  # the clock was set back: what is there would never leave
            last = None
        self._note_state(snapshot)
        point = point_of(snapshot, last)
        self._points.append(point)
        self._count(point, 1)
        while self._points[0].at_s < point.at_s - self._ring_s:
            self._count(self._points.popleft(), -1)
        self._add_to_minute(point)
        if (ended := snapshot.throughput.ended) is not None:
            self._spread(ended, point.at_s)
        return point

    def _spread(self, ended: Ended, at_s: float) -> None:
        """A reply that is told at its end was written before: over as long as it took."""
        begin_s = at_s - ended.seconds
        closed: dict[float, float] = {}
        for place in range(len(self._points) - 1, -1, -1):
            old = self._points[place]
            if old.at_s <= begin_s:
                break
            share_s = old.at_s - max(old.at_s - old.step_s, begin_s)
            if share_s <= 0:
                continue
            tokens = ended.tps * share_s
            new = replace(
                old,
                generation_tps=(old.generation_tps or 0.0) + tokens / old.step_s,
                generation_tokens=(old.generation_tokens or 0.0) + tokens,
            )
            self._points[place] = new
            self._tokens += tokens
            if not self._amended(old, new):
                start_s = old.at_s // MINUTE_S * MINUTE_S
                closed[start_s] = closed.get(start_s, 0.0) + tokens
        # The store adds parts of the same minute up.
        self._done.extend(Minute(s, 0.0, (), generation_tokens=n) for s, n in closed.items())

    def _amended(self, old: Point, new: Point) -> bool:
        """Whether the point belongs to the minute that is open."""
        for place, point in enumerate(self._open):
            if point is old:
                self._open[place] = new
                return True
        return False

    def add_event(self, event: Event, *, store: bool = True) -> None:
        """Remember something that snapshots do not tell, such as a fix. Twice is once."""
        if event in self._events:
            return
        self._events.append(event)
        if store:
            self._new_events.append(event)

    def points(self, since_s: float = 0.0) -> list[Point]:
        """Readings of the last quarter of an hour, oldest first."""
        return [point for point in self._points if point.at_s >= since_s]

    def events(self, since_s: float = 0.0) -> list[Event]:
        """In order of time."""
        return sorted((e for e in self._events if e.at_s >= since_s), key=lambda e: e.at_s)

    @property
    def energy_j(self) -> float | None:
        """Energy of all cards over the remembered readings; None when no card tells its power."""
        return max(self._energy_j, 0.0) if self._with_power else None

    @property
    def generated_tokens(self) -> float:
        """Tokens generated over the remembered readings, as far as the server told."""
        return max(self._tokens, 0.0)

    @property
    def has_pending(self) -> bool:
        """Whether something waits to be written."""
        return bool(self._done or self._new_events)

    def take_pending(self, *, all_of_it: bool = False) -> tuple[list[Minute], list[Event]]:
        """What is to be written now; ``all_of_it`` ends the present minute early (at the end)."""
        if all_of_it:
            self._close_minute()
        minutes, events = list(self._done), list(self._new_events)
        self._done.clear()
        self._new_events.clear()
        return minutes, events

    def give_back(self, minutes: Sequence[Minute], events: Sequence[Event]) -> None:
        """Keep what could not be written for the next time."""
        self._done.extendleft(reversed(minutes))
        self._new_events.extendleft(reversed(events))

    def _forget(self) -> None:
        self._points.clear()
        self._open = []
        self._energy_j = self._tokens = 0.0
        self._with_power = 0

    def _count(self, point: Point, sign: int) -> None:
        """Running sums, so that nobody adds up a quarter of an hour each second."""
        powers = [card.power_w for card in point.cards if card.power_w is not None]
        self._energy_j += sign * sum(powers) * point.step_s
        self._tokens += sign * (point.generation_tokens or 0.0)
        self._with_power += sign * bool(powers)

    def _add_to_minute(self, point: Point) -> None:
        start_s = point.at_s // MINUTE_S
        if self._open and self._open[0].at_s // MINUTE_S != start_s:
            self._close_minute()
        self._open.append(point)

    def _close_minute(self) -> None:
        if self._open:
            self._done.append(minute_of(self._open))
            self._open = []

    def _note_state(self, snapshot: Snapshot) -> None:
        before, self._record = self._record, snapshot.server
        seen, self._seen = self._seen, True
        if seen:
            for kind in events_between(before, snapshot.server):
                text = snapshot.server.profile_id if snapshot.server else ""
                self.add_event(Event(snapshot.taken_at_s, kind, text))


def events_between(before: ServerRecord | None, now: ServerRecord | None) -> tuple[str, ...]:
    """Kinds of events that lead from one record to the next; what was so at first is no event."""
    old = before.state if before else ServerState.STOPPED
    new = now.state if now else ServerState.STOPPED
    if old is new or (old, new) == (ServerState.STARTING, ServerState.LOADING):
        return ()
    if new in (ServerState.STARTING, ServerState.LOADING):
        return ("start",)
    if new is ServerState.READY and old is not ServerState.DEGRADED:
        return ("ready",)
    if new is ServerState.BACKOFF:
        return ("crash",)
    if new is ServerState.FAILED:
        return ("failed",)
    if new is ServerState.STOPPED and old is not ServerState.FAILED:
        return ("stop",)
    return ()


def point_of(snapshot: Snapshot, last: Point | None) -> Point:
    """The figures of a snapshot. Stale readings of cards are unknown, not repeated."""
    step_s = snapshot.taken_at_s - last.at_s if last is not None else 0.0
    speed = snapshot.throughput
    span_s = speed.interval_s
    samples = {s.uuid: s for s in snapshot.samples if not s.stale}
    return Point(
        at_s=snapshot.taken_at_s,
        step_s=step_s if 0 < step_s <= LONGEST_STEP_S else 0.0,
        cards=tuple(_card_point(info.uuid, samples.get(info.uuid)) for info in snapshot.gpus),
        generation_tps=speed.generation_tps,
        prompt_tps=speed.prompt_tps,
        kv_cache_usage=speed.kv_cache_usage,
        generation_tokens=_times(speed.generation_tps, span_s),
        prompt_tokens=_times(speed.prompt_tps, span_s),
    )


def minute_of(points: Sequence[Point]) -> Minute:
    """Means and sums over points of one minute; means are weighted by the time they cover."""
    uuids = list(dict.fromkeys(card.uuid for point in points for card in point.cards))
    usage = [p.kv_cache_usage for p in points if p.kv_cache_usage is not None]
    return Minute(
        start_s=points[0].at_s // MINUTE_S * MINUTE_S,
        seconds=min(sum(p.step_s for p in points), MINUTE_S),
        cards=tuple(_card_mean(uuid, points) for uuid in uuids),
        generation_tokens=_sum([p.generation_tokens for p in points]),
        prompt_tokens=_sum([p.prompt_tokens for p in points]),
        kv_cache_usage=sum(usage) / len(usage) if usage else None,
    )


def merged(one: Minute, other: Minute) -> Minute:
    """Two parts of the same minute, as seen before and after a restart of the panel."""
    seconds = one.seconds + other.seconds
    mine = {card.uuid: card for card in one.cards}
    theirs = {card.uuid: card for card in other.cards}
    share = one.seconds / seconds if seconds else 0.5
    return Minute(
        one.start_s,
        min(seconds, MINUTE_S),
        tuple(
            _blend(mine.get(uuid), theirs.get(uuid), share) for uuid in dict.fromkeys(mine | theirs)
        ),
        _sum([one.generation_tokens, other.generation_tokens]),
        _sum([one.prompt_tokens, other.prompt_tokens]),
        _mix(one.kv_cache_usage, other.kv_cache_usage, share),
    )


def _card_point(uuid: str, sample: GpuSample | None) -> CardPoint:
    if sample is None:
        return CardPoint(uuid)
    return CardPoint(
        uuid,
        sample.utilisation_percent,
        sample.memory_used_bytes,
        sample.power_w,
        sample.temperature_c,
    )


def _card_mean(uuid: str, points: Sequence[Point]) -> CardPoint:
    cards = [card for point in points for card in point.cards if card.uuid == uuid]

    def mean(value: Callable[[CardPoint], float | None]) -> float | None:
        known = [v for v in map(value, cards) if v is not None]
        return sum(known) / len(known) if known else None

    return CardPoint(
        uuid,
        mean(lambda c: c.load),
        mean(lambda c: c.memory_bytes),
        mean(lambda c: c.power_w),
        mean(lambda c: c.temperature_c),
    )


def _blend(one: CardPoint | None, other: CardPoint | None, share: float) -> CardPoint:
    if one is None or other is None:
        return one or other or CardPoint("")
    return CardPoint(
        one.uuid,
        _mix(one.load, other.load, share),
        _mix(one.memory_bytes, other.memory_bytes, share),
        _mix(one.power_w, other.power_w, share),
        _mix(one.temperature_c, other.temperature_c, share),
    )


def _mix(one: float | None, other: float | None, share: float) -> float | None:
    if one is None or other is None:
        return other if one is None else one
    return one * share + other * (1 - share)


def _sum(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _times(rate: float | None, seconds: float | None) -> float | None:
    return None if rate is None or seconds is None else rate * seconds

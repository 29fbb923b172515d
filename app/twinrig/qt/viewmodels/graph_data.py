"""Rows for the graphs from remembered readings and stored minutes: pure, no window."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from twinrig.messages import Message, message
from twinrig.qt.widgets.ring import Row
from twinrig.services.history import CardPoint, Minute, Point

Samples = Sequence[tuple[float, Row]]

RANGES_S = (0.0, 900.0, 86400.0)
"""Live (one reading a slot), the last quarter of an hour, the last day (stored minutes)."""


def slot_s(range_s: float, slots: int, interval_s: float) -> float:
    """Seconds per slot so that the range fits into so many slots; whole seconds or minutes."""
    if range_s <= 0:
        return interval_s
    needed = range_s / max(slots, 1)
    unit = 60.0 if range_s > 3600 else 1.0
    return max(math.ceil(needed / unit) * unit, interval_s)


def rows(samples: Samples, width_s: float, count: int) -> tuple[list[Row], float]:
    """The newest ``count`` slots as means of what is known; a slot without a value is None.

    Returns the rows and the time of the newest slot (0 without samples).
    """
    if not samples:
        return [], 0.0
    last = samples[-1][0] // width_s
    first = max(last - count + 1, samples[0][0] // width_s)
    slots: list[list[Row]] = [[] for _ in range(int(last - first) + 1)]
    for at_s, row in samples:
        place = int(at_s // width_s - first)
        if 0 <= place < len(slots):
            slots[place].append(row)
    series = len(samples[-1][1])
    return [_mean(slot, series) for slot in slots], last * width_s


def load_samples(points: Sequence[Point | Minute], uuids: Sequence[str]) -> list[tuple[float, Row]]:
    """Load of each card in percent."""
    return [(_time(p), _of_cards(p.cards, uuids, lambda card: card.load)) for p in points]


def speed_samples(points: Sequence[Point | Minute]) -> list[tuple[float, Row]]:
    """Generation and prompt T/s; of a minute: its tokens over the seconds that were seen."""
    return [(_time(p), _speeds(p)) for p in points]


def range_words(range_s: float) -> Message:
    """Name of a range, for the list of ranges."""
    return _WORDS[range_s]


_WORDS = {
    0.0: message("Live"),
    900.0: message("15 minutes"),
    86400.0: message("24 hours"),
}


def _mean(slot: Sequence[Row], series: int) -> Row:
    result: list[float | None] = []
    for index in range(series):
        known = [v for row in slot if index < len(row) and (v := row[index]) is not None]
        result.append(sum(known) / len(known) if known else None)
    return tuple(result)


def _time(point: Point | Minute) -> float:
    return point.at_s if isinstance(point, Point) else point.start_s


def _of_cards(
    cards: Sequence[CardPoint], uuids: Sequence[str], value: Callable[[CardPoint], float | None]
) -> Row:
    found = {card.uuid: value(card) for card in cards}
    return tuple(found.get(uuid) for uuid in uuids)


def _speeds(point: Point | Minute) -> Row:
    if isinstance(point, Point):
        return point.generation_tps, point.prompt_tps
    if point.seconds <= 0:
        return None, None
    return tuple(
        None if tokens is None else tokens / point.seconds
        for tokens in (point.generation_tokens, point.prompt_tokens)
    )

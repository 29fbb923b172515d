"""Samples of several series on an even time grid; a gap is ``None``, never zero."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

Row = tuple[float | None, ...]

MAX_BRIDGED_SLOTS = 3


class SampleRing:
    """The last ``capacity`` slots of ``interval_s`` seconds each.

    Up to two missing slots (the panel samples at half rate while hidden) are bridged by a straight
    line between two known values; a longer silence stays a gap.
    """

    def __init__(self, series: int, capacity: int, interval_s: float) -> None:
        self.series = series
        self.interval_s = interval_s
        self._rows: deque[Row] = deque(maxlen=capacity)
        self._last_s: float | None = None

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def newest_s(self) -> float | None:
        """Time of the newest slot; None while there is none."""
        return self._last_s

    def row(self, back: int) -> Row | None:
        """The slot so many before the newest; None when there is no such slot."""
        return self._rows[-1 - back] if 0 <= back < len(self._rows) else None

    def fill(self, rows: Sequence[Row], newest_s: float) -> None:
        """Replace everything; the last row belongs to ``newest_s``."""
        self._rows.clear()
        self._rows.extend(rows)
        self._last_s = newest_s if rows else None

    def clear(self) -> None:
        self._rows.clear()
        self._last_s = None

    def append(self, taken_at_s: float, values: Sequence[float | None]) -> int:
        """Add a reading; returns by how many slots time went on (at least 1)."""
        row = tuple(values[i] if i < len(values) else None for i in range(self.series))
        slots = 1
        if self._last_s is not None:
            passed = round((taken_at_s - self._last_s) / self.interval_s)
            slots = min(max(passed, 1), self._rows.maxlen or 1)
        if slots > 1:
            self._fill(slots - 1, row, bridge=slots <= MAX_BRIDGED_SLOTS)
        self._rows.append(row)
        self._last_s = taken_at_s
        return slots

    def last(self, count: int) -> list[Row]:
        """The newest ``count`` rows at most, oldest first."""
        length = len(self._rows)
        return [self._rows[i] for i in range(max(0, length - count), length)]

    def _fill(self, count: int, row: Row, *, bridge: bool) -> None:
        before = self._rows[-1]
        for step in range(1, count + 1):
            share = step / (count + 1)
            self._rows.append(
                tuple(
                    a + (b - a) * share if bridge and a is not None and b is not None else None
                    for a, b in zip(before, row, strict=True)
                )
            )


def nice_maximum(value: float) -> float:
    """The smallest of 1, 2, 5 times a power of ten that holds ``value`` (at least 10)."""
    top = 10.0
    factors = (2.0, 2.5, 2.0)
    step = 0
    while top < value:
        top *= factors[step % 3]
        step += 1
    return top

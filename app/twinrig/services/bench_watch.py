"""What the cards and the KV cache do during a benchmark, from the monitor's own snapshots."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import cast

from twinrig.domain.benchmark import CardUse
from twinrig.domain.gpu import GpuSample
from twinrig.domain.metrics import Snapshot
from twinrig.services.monitor import Monitor

KEPT = 1800
"""Half an hour at one snapshot a second; a round is shorter."""


class LoadWatch:
    """Snapshots of the last while. ``use`` tells what happened between two epoch times."""

    def __init__(self) -> None:
        self._seen: deque[Snapshot] = deque(maxlen=KEPT)

    @asynccontextmanager
    async def running(self, monitor: Monitor) -> AsyncIterator[LoadWatch]:
        """Collects as long as the block runs."""
        task = asyncio.create_task(self._collect(monitor))
        try:
            yield self
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _collect(self, monitor: Monitor) -> None:
        stream = cast(AsyncGenerator[Snapshot, None], monitor.snapshots())
        async with aclosing(stream) as snapshots:
            async for snapshot in snapshots:
                self._seen.append(snapshot)

    def use(self, begun_s: float, ended_s: float) -> tuple[tuple[CardUse, ...], float | None]:
        """Means of each card, and the fullest the KV cache was (0 to 1); epoch seconds.

        Empty for a round too short for a single snapshot.
        """
        inside = [s for s in self._seen if begun_s <= s.taken_at_s <= ended_s]
        usages = [
            s.throughput.kv_cache_usage for s in inside if s.throughput.kv_cache_usage is not None
        ]
        return cards_of(inside), max(usages, default=None)


def cards_of(snapshots: Sequence[Snapshot]) -> tuple[CardUse, ...]:
    """Means over fresh readings, in the order of the cards."""
    if not snapshots:
        return ()
    found = []
    for info in snapshots[-1].gpus:
        readings = [
            sample
            for snapshot in snapshots
            for sample in snapshot.samples
            if sample.uuid == info.uuid and not sample.stale
        ]
        found.append(
            CardUse(
                info.name,
                _mean(readings, lambda s: s.utilisation_percent),
                _mean(readings, lambda s: s.power_w),
                _mean(readings, lambda s: s.memory_used_bytes),
            )
        )
    return tuple(found)


def mean_of_cards(rounds: Sequence[tuple[CardUse, ...]]) -> tuple[CardUse, ...]:
    """Cards of several rounds together; rounds that saw none are left out."""
    known = [cards for cards in rounds if cards]
    if not known:
        return ()

    def mean(index: int, value: Callable[[CardUse], float | None]) -> float | None:
        values = [value(cards[index]) for cards in known if index < len(cards)]
        there = [v for v in values if v is not None]
        return sum(there) / len(there) if there else None

    return tuple(
        CardUse(
            card.name,
            mean(index, lambda c: c.load),
            mean(index, lambda c: c.power_w),
            mean(index, lambda c: c.memory_bytes),
        )
        for index, card in enumerate(known[-1])
    )


def _mean(samples: Sequence[GpuSample], value: Callable[[GpuSample], float | None]) -> float | None:
    known = [v for v in map(value, samples) if v is not None]
    return sum(known) / len(known) if known else None

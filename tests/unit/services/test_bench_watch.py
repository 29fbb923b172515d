from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace

import pytest

from twinrig.domain.benchmark import CardUse, Figure
from twinrig.domain.gpu import GpuInfo, GpuSample
from twinrig.domain.metrics import Snapshot, Throughput
from twinrig.services.bench_watch import LoadWatch, mean_of_cards

CARDS = (GpuInfo(0, "a", "Card", 12), GpuInfo(1, "b", "Card", 12))


def snapshot(at_s: float, loads: tuple[int | None, int | None], kv: float | None) -> Snapshot:
    samples = tuple(
        GpuSample(card.uuid, at_s, utilisation_percent=load, power_w=100.0 + at_s, stale=at_s == 4)
        for card, load in zip(CARDS, loads, strict=True)
    )
    return Snapshot(at_s, False, CARDS, samples, None, Throughput(kv_cache_usage=kv))


async def watched(*snapshots: Snapshot) -> LoadWatch:
    async def stream() -> AsyncIterator[Snapshot]:
        for one in snapshots:
            yield one
        await asyncio.sleep(3600)

    async with LoadWatch().running(SimpleNamespace(snapshots=stream)) as watch:
        await asyncio.sleep(0.01)
    return watch


async def test_means_of_what_lies_between_two_times() -> None:
    watch = await watched(
        snapshot(1, (99, 99), 0.9),
        snapshot(2, (60, 70), 0.1),
        snapshot(3, (80, None), 0.3),
        snapshot(4, (0, 0), None),
        snapshot(9, (1, 1), 0.9),
    )
    cards, usage = watch.use(2, 5)
    assert [(card.load, card.power_w) for card in cards] == [(70.0, 102.5), (70.0, 102.5)]
    assert usage == 0.3
    assert watch.use(20, 30) == ((), None)


def test_rounds_together() -> None:
    rounds = [(CardUse("C", 60.0, None), CardUse("C", 70.0, 10.0)), (), (CardUse("C", 80.0),)]
    assert mean_of_cards(rounds) == (CardUse("C", 70.0),)
    assert mean_of_cards([()]) == ()


def test_a_figure_states_a_spread_of_at_least_two_percent() -> None:
    figure = Figure.of([50.0, 50.0, 50.0])
    assert figure is not None and figure.spread == pytest.approx(1.0)
    wide = Figure.of([40.0, 48.0, 50.0, 51.0, 52.0])
    assert wide is not None and (wide.median, wide.spread) == (50.0, 10.0)
    few = Figure.of([40.0, 50.0, 52.0])
    assert few is not None and (few.median, few.spread) == (50.0, 16.0)
    assert Figure.of([]) is None
    assert figure.differs_from(Figure(53.1, 53, 53.2, 3))
    assert not figure.differs_from(wide)

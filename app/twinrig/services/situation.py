"""What a stretch of snapshots amounts to: means of each card and of the server. Pure arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from twinrig.domain.gpu import GpuInfo, GpuSample
from twinrig.domain.metrics import ServerSetup, Snapshot

WINDOW_S = 12.0
"""Stretch that is averaged: long enough to smooth NVML's windows, short enough to follow."""

LANE_GB_S = (0.0, 0.25, 0.5, 0.985, 1.97, 3.94, 7.56)
"""Payload of one PCIe lane by generation (encoding subtracted)."""

MUTE_WORKING_PERCENT = 25.0

HOT_WORDS = frozenset(
    {"hardware slowdown", "software thermal slowdown", "hardware thermal slowdown"}
)
BRAKE_WORDS = frozenset({"hardware power brake"})
CAP_WORDS = frozenset({"software power cap"})


@dataclass(frozen=True)
class CardMeans:
    """One card over the stretch. None = not available. ``*_share`` is the share of readings
    (0 to 1) in which the driver named such a reason for lower clocks."""

    index: int
    load: float | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    temperature_c: float | None = None
    link_generation: int | None = None
    link_width: int | None = None
    shared_bytes: float | None = None
    hot_share: float = 0.0
    brake_share: float = 0.0
    cap_share: float = 0.0

    @property
    def link_gb_s(self) -> float | None:
        """Bandwidth of the PCIe link, one direction."""
        generation, width = self.link_generation, self.link_width
        if generation is None or width is None or not 0 < generation < len(LANE_GB_S):
            return None
        return LANE_GB_S[generation] * width

    @property
    def power_share(self) -> float | None:
        """Power as a share of the limit."""
        if self.power_w is None or not self.power_limit_w:
            return None
        return self.power_w / self.power_limit_w


@dataclass(frozen=True)
class Situation:
    """The stretch as a whole. Tokens are sums; ``seconds`` is what it covers.

    ``running`` and ``waiting`` are the highest and the lowest number seen. ``mute``: the engine
    tells nothing before a request has ended; its rates read 0 here and mean nothing.
    """

    cards: tuple[CardMeans, ...]
    setup: ServerSetup
    seconds: float
    readings: int
    generation_tps: float
    prompt_tps: float
    running: int | None
    waiting: int | None
    kv_cache_usage: float | None
    mute: bool = False
    unplaced_shared_bytes: float | None = None


def is_busy(snapshot: Snapshot) -> bool:
    """Whether the server works on a request, as far as it tells.

    An engine that tells only of ended requests is judged by the cards, from its first request on.
    """
    speed = snapshot.throughput
    if speed.told_at_end:
        loads = [s.utilisation_percent or 0 for s in snapshot.samples if not s.stale]
        return max(loads, default=0) >= MUTE_WORKING_PERCENT
    return bool(speed.generation_tps) or bool(speed.prompt_tps) or bool(speed.requests_running)


def is_mute(snapshot: Snapshot) -> bool:
    """Whether the server tells nothing of what it does at this moment."""
    speed = snapshot.throughput
    return speed.generation_tps is None and speed.requests_running is None


def within(recent: Sequence[Snapshot], seconds: float) -> list[Snapshot]:
    """The newest snapshots that lie within so many seconds, oldest first."""
    if not recent:
        return []
    limit_s = recent[-1].taken_at_s - seconds
    return [snapshot for snapshot in recent if snapshot.taken_at_s > limit_s]


def steady(recent: Sequence[Snapshot]) -> list[Snapshot]:
    """Busy snapshots since the last pause. The first of them still averages over the pause."""
    run: list[Snapshot] = []
    for snapshot in reversed(recent):
        if not is_busy(snapshot):
            return list(reversed(run[:-1]))
        run.append(snapshot)
    return list(reversed(run))


def situation(stretch: Sequence[Snapshot]) -> Situation:
    """Means over ``stretch``, which must not be empty."""
    speeds = [snapshot.throughput for snapshot in stretch]
    running = [s.requests_running for s in speeds if s.requests_running is not None]
    waiting = [s.requests_waiting for s in speeds if s.requests_waiting is not None]
    usage = [s.kv_cache_usage for s in speeds if s.kv_cache_usage is not None]
    newest = stretch[-1]
    return Situation(
        cards=tuple(_card(info, stretch) for info in newest.gpus),
        setup=newest.setup or ServerSetup(),
        seconds=newest.taken_at_s - stretch[0].taken_at_s,
        readings=len(stretch),
        generation_tps=_mean([s.generation_tps or 0.0 for s in speeds]) or 0.0,
        prompt_tps=_mean([s.prompt_tps or 0.0 for s in speeds]) or 0.0,
        running=max(running, default=None),
        waiting=min(waiting, default=None),
        kv_cache_usage=usage[-1] if usage else None,
        mute=all(is_mute(snapshot) for snapshot in stretch),
        unplaced_shared_bytes=_mean(
            [s.unplaced_shared_bytes for s in stretch if s.unplaced_shared_bytes is not None]
        ),
    )


def _card(info: GpuInfo, stretch: Sequence[Snapshot]) -> CardMeans:
    fresh = [
        sample
        for snapshot in stretch
        for sample in snapshot.samples
        if sample.uuid == info.uuid and not sample.stale
    ]

    def mean(value: Callable[[GpuSample], float | None]) -> float | None:
        return _mean([v for v in map(value, fresh) if v is not None])

    last = fresh[-1] if fresh else None
    return CardMeans(
        index=info.index,
        load=mean(lambda s: s.utilisation_percent),
        power_w=mean(lambda s: s.power_w),
        power_limit_w=(last.power_limit_w if last else None) or info.power_limit_w,
        temperature_c=mean(lambda s: s.temperature_c),
        link_generation=last.pcie_generation if last else None,
        link_width=last.pcie_width if last else None,
        shared_bytes=mean(lambda s: s.shared_used_bytes),
        hot_share=_share(fresh, HOT_WORDS),
        brake_share=_share(fresh, BRAKE_WORDS),
        cap_share=_share(fresh, CAP_WORDS),
    )


def _share(samples: Sequence[GpuSample], words: frozenset[str]) -> float:
    if not samples:
        return 0.0
    hits = sum(1 for s in samples if not words.isdisjoint(s.throttle_reasons or ()))
    return hits / len(samples)


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None

"""Two simulated cards that show the load of the demo server, or idle."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from twinrig.domain.gpu import DriverInfo, GpuInfo, GpuSample
from twinrig.hosts.demo.load import DemoLoad, load_files, newest_load
from twinrig.hosts.demo.physics import (
    CARD_TOTAL_BYTES,
    IDLE_USED_BYTES,
    MIB,
    NVML_WINDOW_S,
    POWER_LIMIT_W,
    Card,
    alternating_percent,
)

DRIVER_VERSION = "591.86"
CUDA_VERSION = (13, 1)
CARD_NAME = "NVIDIA GeForce RTX 5070"
UUIDS = ("GPU-demo5070-0000-4000-8000-000000000000", "GPU-demo5070-0000-4000-8000-000000000001")
COMPUTE_CAPABILITY = (12, 0)
PCIE_GENERATION, PCIE_WIDTH = 5, 8
TRAFFIC_PER_PERCENT = 12_000_000
"""Bytes per second; about 0.8 GB/s of all-reduce traffic at a single stream."""


class DemoGpuProbe:
    """``domain.ports.GpuProbe`` without a card.

    ``state_root`` is the demo target's state folder; the run folder of each server below it may
    hold a load file. ``clock`` gives epoch seconds.
    """

    def __init__(
        self, state_root: Path, clock: Callable[[], float] = time.time, seed: int = 5070
    ) -> None:
        self._state_root = state_root
        self._now = clock
        self._seed = seed
        self._cards = (Card(0, seed), Card(1, seed))
        self._energy: dict[int, tuple[float, float]] = {}

    def devices(self) -> tuple[GpuInfo, ...]:
        """Always the same two cards, marked as simulated."""
        return tuple(
            GpuInfo(
                index=index,
                uuid=uuid,
                name=CARD_NAME,
                memory_total_bytes=CARD_TOTAL_BYTES,
                compute_capability=COMPUTE_CAPABILITY,
                pcie_generation_max=PCIE_GENERATION,
                pcie_width_max=PCIE_WIDTH,
                power_limit_w=POWER_LIMIT_W,
                simulated=True,
            )
            for index, uuid in enumerate(UUIDS)
        )

    def driver(self) -> DriverInfo:
        """A driver that suits the cards."""
        return DriverInfo(DRIVER_VERSION, CUDA_VERSION)

    def sample(self) -> tuple[GpuSample, ...]:
        """Both cards now."""
        now_s = self._now()
        load = newest_load(load_files(self._state_root), now_s)
        percent = self._percent(load, now_s)
        used = load.used_bytes if load is not None else IDLE_USED_BYTES
        warm_s = load.busy_s if load is not None else 0.0
        return tuple(
            self._sample(card, now_s, percent[card.index], used[card.index], warm_s)
            for card in self._cards
        )

    def detailed(self, samples: tuple[GpuSample, ...]) -> tuple[GpuSample, ...]:
        """Traffic grows with the load, as activations cross the bus; energy adds power up."""
        told = []
        for place, sample in enumerate(samples):
            last_s, joules = self._energy.get(place, (sample.taken_at_s, 0.0))
            joules += (sample.power_w or 0.0) * max(0.0, sample.taken_at_s - last_s)
            self._energy[place] = (sample.taken_at_s, joules)
            traffic = (sample.utilisation_percent or 0) * TRAFFIC_PER_PERCENT
            told.append(
                replace(
                    sample,
                    pcie_in_bytes_s=traffic,
                    pcie_out_bytes_s=traffic * 9 // 10,
                    energy_j=round(joules, 3),
                )
            )
        return tuple(told)

    def close(self) -> None:
        """Nothing to give back."""

    def _percent(self, load: DemoLoad | None, now_s: float) -> tuple[float, float]:
        """Utilisation as NVML would tell it; a sum over 100 never comes of a layer split."""
        first, second = load.busy_percent if load is not None else (0.0, 0.0)
        if load is not None and load.alternating:
            window_s = random.Random(f"{self._seed}/{now_s:.1f}").uniform(*NVML_WINDOW_S)
            return alternating_percent(first + second, now_s, window_s)
        display = 1.5 + self._cards[0].noise(now_s, "display", 1.5)
        noise = [
            self._cards[i].noise(now_s, "busy", 1.5) if p else 0.0
            for i, p in enumerate((first, second))
        ]
        return max(first + noise[0], display), max(second + noise[1], 0.0)

    def _sample(
        self, card: Card, now_s: float, percent: float, used_bytes: int, warm_s: float
    ) -> GpuSample:
        card.advance(now_s, percent, warm_s)
        idle = percent < 5
        power_w = card.power_w + card.noise(now_s, "power", 0.4 if idle else 2.5)
        wobble = int(card.noise(now_s, "memory", 3)) * MIB if card.index == 0 else 0
        return GpuSample(
            uuid=UUIDS[card.index],
            taken_at_s=now_s,
            utilisation_percent=min(100, round(percent)),
            memory_used_bytes=used_bytes + wobble,
            memory_total_bytes=CARD_TOTAL_BYTES,
            power_w=round(power_w, 1),
            power_limit_w=POWER_LIMIT_W,
            temperature_c=round(card.temperature_c),
            clock_sm_mhz=card.clock_mhz(percent),
            pcie_generation=1 if idle else PCIE_GENERATION,
            pcie_width=PCIE_WIDTH,
            throttle_reasons=("idle",) if idle else (),
        )

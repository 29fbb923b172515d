"""What a graphics card is (static) and what it does now (a sample). N/A is ``None``, never zero."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class GpuInfo:
    """Facts of a card that do not change while it runs. Identity is ``uuid``."""

    index: int
    uuid: str
    name: str
    memory_total_bytes: int | None
    compute_capability: tuple[int, int] | None = None
    pcie_generation_max: int | None = None
    pcie_width_max: int | None = None
    power_limit_w: float | None = None
    simulated: bool = False


@dataclass(frozen=True)
class GpuSample:
    """One reading of one card. Every ``None`` means: not available on this card or driver.

    ``stale`` marks the last good reading, repeated because the card does not answer now.
    ``utilisation_percent`` is NVML's own average over 1/6 to 1 s. ``shared_used_bytes`` is system
    RAM used in place of the card's own (Windows performance counters; NVML cannot tell it).
    ``pcie_*_bytes_s`` (into and out of the card) and ``energy_j`` (since the driver was loaded)
    are read on request only: they cost the driver far more than all the rest.
    """

    uuid: str
    taken_at_s: float
    utilisation_percent: int | None = None
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    temperature_c: int | None = None
    clock_sm_mhz: int | None = None
    pcie_generation: int | None = None
    pcie_width: int | None = None
    throttle_reasons: tuple[str, ...] | None = None
    stale: bool = False
    shared_used_bytes: int | None = None
    pcie_in_bytes_s: int | None = None
    pcie_out_bytes_s: int | None = None
    energy_j: float | None = None


@dataclass(frozen=True)
class DriverInfo:
    """Driver version as text and the CUDA version it supports, ``(13, 2)``; None = unknown."""

    driver_version: str | None
    cuda_version: tuple[int, int] | None

"""How two mid-range cards behave under a language model: pure functions of load and time.

Numbers are those people report for a 24B model at about 4 bits on two 12 GB cards: one stream
makes about 41 tokens/s under tensor parallel with 67 and 70 % utilisation. A layer split works
on one card at a time, about 25 ms each; NVML averages over 1/6 to 1 s and so reads about 50/50.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from enum import StrEnum

from twinrig.hosts.demo.models import DemoModel

GIB = 1024**3
MIB = 1024**2
CARD_TOTAL_BYTES = 12227 * MIB
IDLE_USED_BYTES = (921 * MIB, 262 * MIB)
"""Used with nothing loaded; the first card drives the display."""

RUNTIME_BYTES = 1075 * MIB
"""Per card: CUDA context, communicators, activations, captured graphs."""

ALTERNATION_S = 0.025
NVML_WINDOW_S = (1 / 6, 1.0)
POWER_LIMIT_W = 250.0


class Split(StrEnum):
    """How the model lies on the cards."""

    SINGLE = "single"
    TENSOR = "tensor"
    LAYER = "layer"


@dataclass(frozen=True)
class Speed:
    """A decode step of ``n`` sequences takes ``base_s + n * per_sequence_s``."""

    base_s: float
    per_sequence_s: float
    prefill_tps: float


SPEEDS = {
    Split.TENSOR: Speed(0.0228, 0.0016, 2400.0),
    Split.LAYER: Speed(0.0408, 0.0026, 1450.0),
    Split.SINGLE: Speed(0.0392, 0.0024, 1500.0),
}
_DECODE_PERCENT = {Split.TENSOR: (67.0, 70.0), Split.SINGLE: (96.0, 0.0)}


def split_of(tensor_parallel_size: int, pipeline_parallel_size: int) -> Split:
    """The split of a configuration."""
    if tensor_parallel_size > 1:
        return Split.TENSOR
    return Split.LAYER if pipeline_parallel_size > 1 else Split.SINGLE


def step_s(split: Split, decoding: int, prefill_tokens: int, weight: float = 1.0) -> float:
    """Duration of one engine step: so many sequences decode, so many prompt tokens are read.

    ``weight`` is the size of the model's weights, the large demo model being 1.
    """
    speed = SPEEDS[split]
    decode_s = speed.base_s + speed.per_sequence_s * decoding if decoding else 0.0
    return (decode_s + prefill_tokens / speed.prefill_tps) * weight


def busy_percent(split: Split, decoding: int, prefill: bool) -> tuple[float, float]:
    """Utilisation of both cards during such a step, averaged over many alternations."""
    if split is Split.LAYER:
        return (49.0, 48.0)
    if prefill:
        return (97.0, 96.0) if split is Split.TENSOR else (99.0, 0.0)
    if not decoding:
        return (0.0, 0.0)
    fill = 1 - math.exp(-(decoding - 1) / 6)
    first, second = (
        base + (97.0 - base) * fill if base else 0.0 for base in _DECODE_PERCENT[split]
    )
    return first, second


def alternating_percent(total_percent: float, at_s: float, window_s: float) -> tuple[float, float]:
    """What NVML reads of two cards that take turns: the exact mean over the window before now.

    ``total_percent`` is the sum over both cards; it stays the sum.
    """
    share = _first_turn_s(at_s) - _first_turn_s(at_s - window_s)
    first = total_percent * share / window_s
    return first, total_percent - first


def _first_turn_s(at_s: float) -> float:
    """Time up to ``at_s`` in which the first card had its turn."""
    periods, rest_s = divmod(at_s, 2 * ALTERNATION_S)
    return periods * ALTERNATION_S + min(rest_s, ALTERNATION_S)


@dataclass(frozen=True)
class Memory:
    """Bytes on each card once loaded. ``kv_tokens`` is what the KV cache holds in all."""

    weights_bytes: tuple[int, int]
    kv_bytes: tuple[int, int]
    runtime_bytes: tuple[int, int]
    kv_tokens: int


def memory_of(
    model: DemoModel, cards: int, gpu_memory_utilization: float, kv_cache_dtype: str
) -> Memory:
    """The KV cache takes what the share of GPU memory leaves, as vLLM does it.

    A negative KV cache means that the weights do not fit.
    """
    share = model.weights_bytes // cards
    kv_each = int(CARD_TOTAL_BYTES * gpu_memory_utilization) - share - RUNTIME_BYTES
    per_token = kv_bytes_per_token(model, kv_cache_dtype)

    def both(value: int) -> tuple[int, int]:
        return value, value if cards > 1 else 0

    return Memory(both(share), both(kv_each), both(RUNTIME_BYTES), kv_each * cards // per_token)


def kv_bytes_per_token(model: DemoModel, kv_cache_dtype: str) -> int:
    """On all cards together; the fp8 types halve it."""
    return model.kv_bytes_per_token // (2 if kv_cache_dtype.startswith("fp8") else 1)


@dataclass
class Card:
    """Power, temperature and clock of one card, which follow the load with inertia.

    ``advance`` must be called with growing times (seconds).
    """

    index: int
    seed: int
    power_w: float = 0.0
    temperature_c: float = 0.0
    at_s: float | None = None

    def advance(self, at_s: float, percent: float, warm_s: float = 0.0) -> None:
        """Follow the load up to ``at_s``; the first call assumes it lasted for ``warm_s``."""
        target_w = self.idle_power_w + (232.0 - self.idle_power_w) * (percent / 100) ** 1.1
        if self.at_s is None:
            self.power_w = self.idle_power_w
            self.temperature_c = _steady_c(self.power_w)
            elapsed_s = warm_s
        else:
            elapsed_s = max(0.0, at_s - self.at_s)
        self.power_w += (target_w - self.power_w) * (1 - math.exp(-elapsed_s / 0.8))
        steady_c = _steady_c(self.power_w)
        self.temperature_c += (steady_c - self.temperature_c) * (1 - math.exp(-elapsed_s / 40))
        self.at_s = at_s

    @property
    def idle_power_w(self) -> float:
        """The display card idles a little higher."""
        return 17.0 if self.index == 0 else 11.0

    def clock_mhz(self, percent: float) -> int:
        """SM clock: low when idle, boost under load, some 15 MHz steps lower when hot."""
        if percent < 5:
            return 360 if self.index == 0 else 210
        hot_steps = max(0, int((self.temperature_c - 50) // 5))
        return 2805 - 15 * (hot_steps + self.index)

    def noise(self, at_s: float, name: str, amplitude: float) -> float:
        """A value within +-``amplitude``; the same for the same seed, second and name."""
        key = f"{self.seed}/{self.index}/{name}/{int(at_s * 10)}"
        return random.Random(key).uniform(-amplitude, amplitude)


def _steady_c(power_w: float) -> float:
    return 32.0 + 0.165 * power_w

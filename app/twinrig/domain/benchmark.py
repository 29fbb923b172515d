"""What a benchmark asks, and what came of it: loads, rounds, figures with their spread.

T/s of generation and of reading a prompt are never added up. Times in seconds.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from twinrig.messages import Message

LEAST_SPREAD = 0.02
"""Share of a median that is taken as spread in any case: clocks and heat do not repeat better."""
ONCE_SPREAD = 0.1
"""The same for a single round, which says nothing of how much rounds differ."""
FEW_ROUNDS = {2: 3.0, 3: 1.6, 4: 1.2}
"""What fewer than five rounds show is stated so many times as wide: they miss the extremes."""


class Prompt(StrEnum):
    """LONG: so many tokens that reading them takes longer than writing one."""

    SHORT = "short"
    LONG = "long"


class Sampling(StrEnum):
    """GREEDY always takes the likeliest token; some faults of engines show with SAMPLED only."""

    GREEDY = "greedy"
    SAMPLED = "sampled"


@dataclass(frozen=True)
class Load:
    """What is asked of the server at once: so many streams, each with a prompt of its own."""

    streams: int
    prompt: Prompt = Prompt.SHORT
    sampling: Sampling = Sampling.SAMPLED

    @property
    def key(self) -> str:
        """Stable name, as in "8-short-sampled"."""
        return f"{self.streams}-{self.prompt.value}-{self.sampling.value}"


@dataclass(frozen=True)
class Figure:
    """Several rounds of one quantity: the median, the lowest and the highest, and their number.

    With five rounds the true median lies between lowest and highest with 94 % certainty, whatever
    the distribution (each side is missed with 2 ** -5). With fewer it does not: what they show is
    widened, the more the fewer they are, and a single round is taken for a rough figure.
    """

    median: float
    low: float
    high: float
    count: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Figure | None:
        """None without a value."""
        if not values:
            return None
        return cls(statistics.median(values), min(values), max(values), len(values))

    @property
    def spread(self) -> float:
        """Half the width of what is stated as certain; the stated figure is median +- spread."""
        widest = max(self.median - self.low, self.high - self.median)
        least = ONCE_SPREAD if self.count == 1 else LEAST_SPREAD
        return max(widest * FEW_ROUNDS.get(self.count, 1.0), abs(self.median) * least)

    def differs_from(self, other: Figure) -> bool:
        """Whether the two cannot be the same: what is stated of them does not overlap."""
        return abs(self.median - other.median) > self.spread + other.spread


@dataclass(frozen=True)
class CardUse:
    """Means of one card during a load; None = not available."""

    name: str
    load: float | None = None
    power_w: float | None = None
    memory_bytes: float | None = None


@dataclass(frozen=True)
class Round:
    """One go of a load. ``generation_tps`` is of all streams together, ``stream_tps`` of one.

    ``server_*`` is what the server itself counted in the same time, None where it does not say.
    ``stagger``: how far the ends of streams of equal length lie apart, as a share of the whole
    time. ``disturbed``: the server worked for others meanwhile, so that the round counts for
    nothing.
    """

    generation_tps: float | None
    stream_tps: float | None
    first_token_s: float | None
    prompt_tps: float | None
    prompt_tokens: int
    generation_tokens: int
    requests: int
    failures: int = 0
    loops: int = 0
    stagger: float | None = None
    server_generation_tokens: float | None = None
    server_generation_tps: float | None = None
    server_first_token_s: float | None = None
    draft_acceptance: float | None = None
    kv_cache_usage: float | None = None
    cards: tuple[CardUse, ...] = ()
    disturbed: bool = False


FIGURES = (
    "generation_tps",
    "stream_tps",
    "first_token_s",
    "prompt_tps",
    "stagger",
    "server_generation_tps",
    "server_first_token_s",
    "draft_acceptance",
    "kv_cache_usage",
)
"""Quantities of a round that are stated as figures."""


@dataclass(frozen=True)
class LoadResult:
    """All rounds of one load. ``figures`` are named as in ``FIGURES``; a missing one is unknown.

    ``generation_tokens`` were written in undisturbed rounds, ``server_generation_tokens`` is what
    the server counted then (None: it does not count). ``fault`` says why a request failed, None
    when none did.
    """

    load: Load
    figures: Mapping[str, Figure]
    requests: int
    failures: int = 0
    loops: int = 0
    disturbed: int = 0
    prompt_tokens: int = 0
    generation_tokens: int = 0
    server_generation_tokens: int | None = None
    cards: tuple[CardUse, ...] = ()
    fault: Message | None = None

    def figure(self, name: str) -> Figure | None:
        """One figure, None when it is unknown."""
        return self.figures.get(name)


@dataclass(frozen=True)
class BenchmarkResult:
    """One profile as measured. ``settings`` is the whole profile by dotted names, without
    anything secret. ``group`` is the same for profiles measured in turns."""

    id: str
    group: str
    taken_at_s: float
    profile_id: str
    profile_name: str
    engine_id: str
    engine_version: str
    model: str
    machine: str
    twinrig_version: str
    settings: Mapping[str, object]
    loads: tuple[LoadResult, ...]
    visits: int = 1
    demo: bool = False
    state_bytes_per_slot: int | None = None
    card_names: tuple[str, ...] = field(default=())

    def at(self, load: Load) -> LoadResult | None:
        """The result of one load, None when it was not measured."""
        return next((found for found in self.loads if found.load == load), None)

    def main_load(self, streams: int) -> LoadResult | None:
        """The load that stands for so many streams: short and sampled, else the next best."""
        for prompt in Prompt:
            for sampling in (Sampling.SAMPLED, Sampling.GREEDY):
                found = self.at(Load(streams, prompt, sampling))
                if found is not None and found.figure("generation_tps") is not None:
                    return found
        return None

    def figure_at(self, streams: int, name: str = "generation_tps") -> Figure | None:
        """A figure of the main load; ``generation_tps`` is of all streams together."""
        load = self.main_load(streams)
        return None if load is None else load.figure(name)

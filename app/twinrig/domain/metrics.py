"""Counters and gauges of a server at one instant, and the whole picture at one instant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from twinrig.domain.gpu import GpuInfo, GpuSample
from twinrig.domain.supervision import ServerRecord


@dataclass(frozen=True)
class EngineMetrics:
    """What an engine's metrics say. Counters only grow, except when the server restarts.

    ``kv_cache_usage`` and ``prefix_hit_ratio`` are 0 to 1. None = the engine does not say.
    ``process_start_s`` (epoch) tells a restart. ``first_token_seconds`` is the sum of all times to
    the first token, ``first_tokens`` their number; ``inter_token_seconds`` and ``inter_tokens`` the
    same for the time from one token to the next. ``counted_at_end``: the counters grow only when
    a request ends, so their growth is no rate; ``last_*_tps`` are those of the last such request,
    ``generation_seconds`` is the sum of the times in which ``generation_tokens`` were written.
    """

    generation_tokens: float | None = None
    prompt_tokens: float | None = None
    requests_running: float | None = None
    requests_waiting: float | None = None
    kv_cache_usage: float | None = None
    kv_cache_size_tokens: int | None = None
    prefix_queries: float | None = None
    prefix_hits: float | None = None
    preemptions: float | None = None
    process_start_s: float | None = None
    draft_tokens: float | None = None
    accepted_tokens: float | None = None
    first_token_seconds: float | None = None
    first_tokens: float | None = None
    inter_token_seconds: float | None = None
    inter_tokens: float | None = None
    requests_finished: float | None = None
    last_generation_tps: float | None = None
    last_prompt_tps: float | None = None
    generation_seconds: float | None = None
    counted_at_end: bool = False

    def to_counters(self) -> dict[str, float]:
        """What is known, as plain numbers for the record of a server."""
        return {
            f.name: float(value)
            for f in fields(self)
            if (value := getattr(self, f.name)) is not None
        }

    @classmethod
    def from_counters(cls, counters: Mapping[str, float]) -> EngineMetrics:
        """Inverse of ``to_counters``; unknown names are ignored."""
        names = {f.name for f in fields(cls)} - {"kv_cache_size_tokens", "counted_at_end"}
        values: dict[str, float] = {k: v for k, v in counters.items() if k in names}
        size = counters.get("kv_cache_size_tokens")
        return cls(
            **values,
            kv_cache_size_tokens=None if size is None else int(size),
            counted_at_end=bool(counters.get("counted_at_end")),
        )


@dataclass(frozen=True)
class Ended:
    """Requests that ended in one interval, of an engine that tells nothing before: ``requests`` of
    them wrote ``tokens`` together, each in ``seconds`` (mean) up to now."""

    requests: int
    tokens: float
    seconds: float

    @property
    def tps(self) -> float:
        """Rate while they were written, those at the same time added up."""
        return self.tokens / self.seconds


@dataclass(frozen=True)
class Throughput:
    """Tokens per second over the last interval, probe tokens subtracted. None = unknown.

    The rates hold for ``interval_s``, which is longer than usual after scrapes that failed:
    the sum of rate times ``interval_s`` is what the server's counters grew by.
    ``prefix_hit_ratio`` and ``draft_acceptance`` (0 to 1) and ``first_token_s`` hold for what
    happened in the interval, None when nothing did. ``last_*`` are the rates of the request that
    ended last, from engines that tell nothing before; the other rates are unknown then, and
    ``told_at_end`` is set. ``ended`` is what ended in the interval.
    """

    generation_tps: float | None = None
    prompt_tps: float | None = None
    requests_running: int | None = None
    requests_waiting: int | None = None
    kv_cache_usage: float | None = None
    interval_s: float | None = None
    kv_cache_size_tokens: int | None = None
    prefix_hit_ratio: float | None = None
    draft_acceptance: float | None = None
    first_token_s: float | None = None
    last_reply_tps: float | None = None
    last_prompt_tps: float | None = None
    told_at_end: bool = False
    ended: Ended | None = None


@dataclass(frozen=True)
class ServerSetup:
    """What the running profile asks for, as far as a judgement of the load needs it.

    ``*_setting`` are the option ids of its engine, for whoever wants to change something;
    ``context_setting`` is the one that takes the memory of a longer context.
    ``kv_bytes_per_token`` are estimated, one for each card in its order; empty = not known.
    """

    tensor_parallel_size: int | None = None
    pipeline_parallel_size: int | None = None
    max_num_seqs: int | None = None
    split_setting: str = "tensor_parallel_size"
    context_setting: str = "context_length"
    slots_setting: str = "max_num_seqs"
    pool_setting: str = "gpu_memory_utilization"
    kv_bytes_per_token: tuple[float, ...] = ()

    @classmethod
    def from_sizes(cls, settings: Mapping[str, object]) -> ServerSetup:
        """From settings that carry these very names; what they leave out is the default of 1."""

        def size(name: str, default: int | None) -> int | None:
            value = settings.get(name, default)
            return value if isinstance(value, int) and not isinstance(value, bool) else default

        return cls(
            size("tensor_parallel_size", 1),
            size("pipeline_parallel_size", 1),
            size("max_num_seqs", None),
        )


@dataclass(frozen=True)
class Snapshot:
    """Both cards and the server at one instant; what page, tray and terminal view show.

    ``demo`` marks simulated data, ``recorded`` what comes from a recording and not from this
    machine now: both must be labelled wherever they are shown.
    ``gpu_error`` says why there are no (fresh) samples, ``gpu_next_step`` what to do; both are
    marked sentences, to be translated at the edge. ``unplaced_shared_bytes`` is system RAM that
    stands in for video memory of cards which Windows could not name; None = not known.
    """

    taken_at_s: float
    demo: bool
    gpus: tuple[GpuInfo, ...]
    samples: tuple[GpuSample, ...]
    server: ServerRecord | None
    throughput: Throughput
    gpu_error: str = ""
    gpu_next_step: str = ""
    setup: ServerSetup | None = None
    recorded: bool = False
    unplaced_shared_bytes: int | None = None

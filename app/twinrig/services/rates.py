"""Tokens per second from counters that only grow: pure arithmetic, no clock, no network."""

from __future__ import annotations

from dataclasses import dataclass, replace

from twinrig.domain.metrics import Ended, EngineMetrics, Throughput


@dataclass(frozen=True)
class ProbeTokens:
    """Tokens that the supervisor's own probes have used since the server started."""

    generation: int = 0
    prompt: int = 0


class _Counter:
    """One counter, probe tokens subtracted.

    The probe's tokens reach the server's counter before they reach the supervisor's record. The
    net value can therefore fall by a few; such a fall is carried into the next intervals instead
    of being shown as a negative rate, so that sums stay right.
    """

    def __init__(self) -> None:
        self._last: float | None = None
        self._debt = 0.0

    def reset(self) -> None:
        self._last, self._debt = None, 0.0

    def grown(self, raw: float | None, probe: int) -> float | None:
        """Growth since the last call, never negative; None while unknown."""
        if raw is None:
            self.reset()
            return None
        net = raw - probe
        last, self._last = self._last, net
        if last is None:
            return None
        growth = net - last + self._debt
        self._debt = min(growth, 0.0)
        return max(growth, 0.0)


class _Ratio:
    """Growth of one counter per growth of another; None when the second did not grow."""

    def __init__(self) -> None:
        self._last: tuple[float, float] | None = None

    def reset(self) -> None:
        self._last = None

    def grown(self, part: float | None, whole: float | None) -> float | None:
        """The quotient over the last interval."""
        last = self._last
        self._last = None if part is None or whole is None else (part, whole)
        if last is None or self._last is None:
            return None
        grown = self._last[1] - last[1]
        more = self._last[0] - last[0]
        return more / grown if grown > 0 and more >= 0 else None


class _Ended:
    """Requests that ended since the last call; those of the supervisor's probes alone are none."""

    def __init__(self) -> None:
        self._last: tuple[float, float] | None = None

    def reset(self) -> None:
        self._last = None

    def grown(self, metrics: EngineMetrics, tokens: float | None) -> Ended | None:
        """``tokens`` is the growth of what was written, probe tokens subtracted."""
        finished, seconds = metrics.requests_finished, metrics.generation_seconds
        last, self._last = self._last, None
        if not metrics.counted_at_end or finished is None or seconds is None:
            return None
        self._last = (finished, seconds)
        if last is None or not tokens:
            return None
        requests, spent_s = round(finished - last[0]), seconds - last[1]
        if requests <= 0 or spent_s <= 0:
            return None
        return Ended(requests, tokens, spent_s / requests)


class RateMeter:
    """Turns successive scrapes of one server into rates. Feed it in order of time.

    The first scrape of a server, and the first after a restart, have no rate: None, never zero.
    A restart is a changed ``run`` or process start time, or a counter that fell.
    """

    def __init__(self) -> None:
        self._generation = _Counter()
        self._prompt = _Counter()
        self._prefix, self._drafts, self._first = _Ratio(), _Ratio(), _Ratio()
        self._ended = _Ended()
        self._metrics: EngineMetrics | None = None
        self._probe = ProbeTokens()
        self._run = ""
        self._at_s = 0.0

    def reset(self) -> None:
        """Forget the server; the next scrape is a first one."""
        self._metrics = None
        self._ended.reset()
        for part in (self._generation, self._prompt, self._prefix, self._drafts, self._first):
            part.reset()

    def update(
        self, metrics: EngineMetrics, at_s: float, *, probe: ProbeTokens, run: str = ""
    ) -> Throughput:
        """Rates since the last scrape. ``at_s`` is a monotonic time; ``run`` names the server run.

        A scrape that is not later than the last one has no rate and changes nothing.
        """
        if self._metrics is not None and self._restarted(metrics, probe, run):
            self.reset()
        previous_s = self._at_s if self._metrics is not None else None
        if previous_s is not None and at_s <= previous_s:
            return _throughput(metrics, None, None, None)
        generation = self._generation.grown(metrics.generation_tokens, probe.generation)
        prompt = self._prompt.grown(metrics.prompt_tokens, probe.prompt)
        self._metrics, self._probe, self._run, self._at_s = metrics, probe, run, at_s
        hits = self._prefix.grown(metrics.prefix_hits, metrics.prefix_queries)
        accepted = self._drafts.grown(metrics.accepted_tokens, metrics.draft_tokens)
        first_s = self._first.grown(metrics.first_token_seconds, metrics.first_tokens)
        ended = self._ended.grown(metrics, generation)
        if previous_s is None or metrics.counted_at_end:
            return replace(_throughput(metrics, None, None, None), ended=ended)
        return replace(
            _throughput(metrics, generation, prompt, at_s - previous_s),
            prefix_hit_ratio=hits,
            draft_acceptance=accepted,
            first_token_s=first_s,
        )

    def _restarted(self, metrics: EngineMetrics, probe: ProbeTokens, run: str) -> bool:
        last = self._metrics
        assert last is not None
        return (
            run != self._run
            or _changed(last.process_start_s, metrics.process_start_s)
            or _fell(last.generation_tokens, metrics.generation_tokens)
            or _fell(last.prompt_tokens, metrics.prompt_tokens)
            or probe.generation < self._probe.generation
            or probe.prompt < self._probe.prompt
        )


def _changed(before: float | None, after: float | None) -> bool:
    return before is not None and after is not None and before != after


def _fell(before: float | None, after: float | None) -> bool:
    return before is not None and after is not None and after < before


def _throughput(
    metrics: EngineMetrics, generation: float | None, prompt: float | None, interval_s: float | None
) -> Throughput:
    known = generation is not None or prompt is not None
    return Throughput(
        generation_tps=_rate(generation, interval_s),
        prompt_tps=_rate(prompt, interval_s),
        requests_running=_whole(metrics.requests_running),
        requests_waiting=_whole(metrics.requests_waiting),
        kv_cache_usage=metrics.kv_cache_usage,
        interval_s=interval_s if known else None,
        kv_cache_size_tokens=metrics.kv_cache_size_tokens,
        last_reply_tps=metrics.last_generation_tps,
        last_prompt_tps=metrics.last_prompt_tps,
        told_at_end=metrics.counted_at_end,
    )


def _rate(growth: float | None, interval_s: float | None) -> float | None:
    return None if growth is None or not interval_s else growth / interval_s


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)

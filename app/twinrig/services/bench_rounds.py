"""One round of a benchmark: so many streams at once, timed here and counted by the server."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import cast

from twinrig.domain.benchmark import Load, Prompt, Round, Sampling
from twinrig.domain.metrics import EngineMetrics
from twinrig.domain.ports import Clock, HttpClient
from twinrig.services.bench_prompts import PromptMaker
from twinrig.services.bench_stream import Stream, StreamTally
from twinrig.services.completions import (
    ChatEndpoint,
    ChatMessage,
    Piece,
    ReplyError,
    chat_body,
    stream_reply,
)
from twinrig.services.repetition import find_loop

SAMPLED_VALUES: Mapping[str, object] = {"temperature": 1.0, "top_k": 20, "top_p": 0.95}
"""Where the model recommends nothing of its own."""
GREEDY_VALUES: Mapping[str, object] = {"temperature": 0.0}
FOREIGN_SHARE = 0.05
"""The server may have written so much more than we asked for before a round counts for nothing."""
FOREIGN_TOKENS = 16
"""A question of a health check writes a few tokens."""

LATE_COUNT_S = 5.0

FATAL = frozenset({"reply-key-refused", "reply-model-unknown", "reply-unreachable"})
"""Faults that no further request can escape."""

CountersNow = Callable[[], Awaitable[EngineMetrics | None]]


@dataclass(frozen=True)
class RoundOutcome:
    """A round, and the fault of a request that failed in it."""

    round: Round
    error: ReplyError | None = None


class RoundRunner:
    """Rounds against one server. ``counters`` gives what the server counts itself, or None."""

    def __init__(
        self,
        http: HttpClient,
        clock: Clock,
        endpoint: ChatEndpoint,
        prompts: PromptMaker,
        counters: CountersNow,
        sampled: Mapping[str, object],
    ) -> None:
        self._http = http
        self._clock = clock
        self._endpoint = endpoint
        self._prompts = prompts
        self._counters = counters
        self._sampled = dict(sampled) or dict(SAMPLED_VALUES)

    async def warm_up(self, reply_tokens: int) -> float | None:
        """The first two requests after a start, which count for nothing: communicators and
        kernels are set up then. Tokens per second of the second one, roughly.

        Raises ReplyError: a server that cannot do this cannot go on.
        """
        tps: float | None = None
        for length in (Prompt.SHORT, Prompt.LONG):
            prompt = self._new_prompt(length, reply_tokens)
            before, started_s = await self._counters(), self._clock.monotonic()
            done = await self._stream(prompt, Sampling.SAMPLED, reply_tokens)
            if done.error is not None:
                raise done.error
            self._prompts.learn(len(prompt), done.prompt_tokens)
            tps = done.tps(_late_s((done,), started_s, before, await self._counters()))
        return tps

    async def run(self, load: Load, reply_tokens: int) -> RoundOutcome:
        """One go. Raises ReplyError for what no further request can escape."""
        prompts = [self._new_prompt(load.prompt, reply_tokens) for _ in range(load.streams)]
        before = await self._counters()
        started_s = self._clock.monotonic()
        streams = await asyncio.gather(
            *(self._stream(prompt, load.sampling, reply_tokens) for prompt in prompts)
        )
        after = await self._counters_after(before, streams)
        error = next((s.error for s in streams if s.error is not None), None)
        if error is not None and error.finding_id in FATAL:
            raise error
        return RoundOutcome(_round(load, streams, started_s, before, after), error)

    async def _counters_after(
        self, before: EngineMetrics | None, streams: Sequence[Stream]
    ) -> EngineMetrics | None:
        """Once everything is counted: some servers count a reply a moment after its end."""
        after = await self._counters()
        deadline_s = self._clock.monotonic() + LATE_COUNT_S
        while not _all_counted(before, after, streams) and self._clock.monotonic() < deadline_s:
            await self._clock.sleep(0.2)
            after = await self._counters()
        return after

    def _new_prompt(self, length: Prompt, reply_tokens: int) -> str:
        return self._prompts.prompt(length, self._endpoint.context_tokens, reply_tokens)

    async def _stream(self, prompt: str, sampling: Sampling, reply_tokens: int) -> Stream:
        values = GREEDY_VALUES if sampling is Sampling.GREEDY else self._sampled
        options = {**values, "max_tokens": reply_tokens, "ignore_eos": True}
        body = chat_body(self._endpoint.model_id, (ChatMessage("user", prompt),), options)
        tally = StreamTally(self._clock.monotonic())
        error: ReplyError | None = None
        pieces = stream_reply(self._http, self._endpoint, body)
        try:
            async with aclosing(cast(AsyncGenerator[Piece, None], pieces)) as stream:
                async for piece in stream:
                    tally.note(piece, self._clock.monotonic())
        except ReplyError as fault:
            error = fault
        return tally.stream(error)


def _all_counted(
    before: EngineMetrics | None, after: EngineMetrics | None, streams: Sequence[Stream]
) -> bool:
    """Whether the server has counted these replies, as far as it counts at all."""
    if before is None or after is None:
        return True
    if before.counted_at_end:
        return (_grown(before, after, "requests_finished") or 0) >= len(streams)
    grown = _grown(before, after, "generation_tokens")
    return grown is None or grown >= sum(s.tokens for s in streams)


def _round(
    load: Load,
    streams: Sequence[Stream],
    started_s: float,
    before: EngineMetrics | None,
    after: EngineMetrics | None,
) -> Round:
    good = [s for s in streams if s.error is None and s.first_s is not None]
    firsts = [s.first_s for s in good if s.first_s is not None]
    lasts = [s.last_s for s in good]
    tokens = sum(s.tokens for s in good)
    counted = _grown(before, after, "generation_tokens")
    whole = len(good) == len(streams)
    disturbed = whole and counted is not None and _foreign(counted, tokens)
    late_s = 0.0 if disturbed or not whole else _late_s(good, started_s, before, after)
    span_s = max(lasts) - min(firsts) + late_s if good else 0.0
    return Round(
        generation_tps=_together_tps(good, span_s, late_s) if whole else None,
        stream_tps=_median([tps for s in good if (tps := s.tps(late_s)) is not None]),
        first_token_s=_median([first - started_s for first in firsts]),
        prompt_tps=_prompt_tps(load, good, started_s + late_s),
        prompt_tokens=sum(s.prompt_tokens for s in good),
        generation_tokens=tokens,
        requests=len(streams),
        failures=len(streams) - len(good),
        loops=sum(find_loop(s.text) is not None for s in good),
        stagger=_stagger(lasts, started_s) if whole and len(good) > 1 else None,
        server_generation_tokens=counted,
        server_generation_tps=_server_tps(load, before, after),
        server_first_token_s=_quotient(before, after, "first_token_seconds", "first_tokens"),
        draft_acceptance=_quotient(before, after, "accepted_tokens", "draft_tokens"),
        disturbed=disturbed,
    )


def _late_s(
    streams: Sequence[Stream],
    started_s: float,
    before: EngineMetrics | None,
    after: EngineMetrics | None,
) -> float:
    """How long first pieces were on their way on average, by the server's own times to the first
    token. A server that is short of processor time makes tokens, but hands them out in a burst."""
    firsts = [s.first_s for s in streams if s.first_s is not None]
    made_s = _quotient(before, after, "first_token_seconds", "first_tokens")
    if made_s is None or not firsts or _grown(before, after, "first_tokens") != len(firsts):
        return 0.0
    return max(0.0, statistics.fmean(firsts) - started_s - made_s)


def _together_tps(streams: Sequence[Stream], span_s: float, late_s: float) -> float | None:
    """All streams together, from the first token of all to the last piece."""
    tokens = sum(s.after_first(late_s) for s in streams)
    return tokens / span_s if span_s > 0 and tokens > 0 else None


def _foreign(counted: float, ours: int) -> bool:
    """Whether the server wrote for others. What is counted at the end of a request may be late,
    so that too little says nothing."""
    return counted - ours > max(FOREIGN_TOKENS, FOREIGN_SHARE * ours)


def _prompt_tps(load: Load, streams: Sequence[Stream], started_s: float) -> float | None:
    """Of long prompts only: with short ones the time is not spent on reading."""
    firsts = [s.first_s for s in streams if s.first_s is not None]
    if load.prompt is not Prompt.LONG or not firsts or max(firsts) <= started_s:
        return None
    return sum(s.prompt_tokens for s in streams) / (max(firsts) - started_s)


def _stagger(lasts: Sequence[float], started_s: float) -> float | None:
    whole_s = max(lasts) - started_s
    return (max(lasts) - min(lasts)) / whole_s if whole_s > 0 else None


def _server_tps(
    load: Load, before: EngineMetrics | None, after: EngineMetrics | None
) -> float | None:
    """By the server's own clock, for one stream: tokens after the first, over the time between
    tokens. Engines that tell a rate for each request are taken by their word."""
    if load.streams != 1 or after is None:
        return None
    if after.counted_at_end:
        ended = _grown(before, after, "requests_finished")
        return after.last_generation_tps if ended == 1 else None
    tokens = _grown(before, after, "generation_tokens")
    seconds = _grown(before, after, "inter_token_seconds")
    if tokens is None or not seconds or seconds <= 0:
        return None
    return (tokens - 1) / seconds


def _grown(before: EngineMetrics | None, after: EngineMetrics | None, name: str) -> float | None:
    if before is None or after is None:
        return None
    old, new = getattr(before, name), getattr(after, name)
    return new - old if old is not None and new is not None and new >= old else None


def _quotient(
    before: EngineMetrics | None, after: EngineMetrics | None, part: str, whole: str
) -> float | None:
    grown, base = _grown(before, after, part), _grown(before, after, whole)
    return grown / base if grown is not None and base else None


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None

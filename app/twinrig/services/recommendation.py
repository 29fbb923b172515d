"""From measured setups to advice in words, with the figures it stands on. Pure.

The fastest single stream is not the best server: one user and several are judged apart, and a
setup whose replies fail or fall into loops is not recommended for its speed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from twinrig.domain.benchmark import BenchmarkResult, LoadResult
from twinrig.messages import Message
from twinrig.services.recommendation_words import evidence_of, headline

LOOP_SHARE = 0.05
"""So large a part of the replies, above what the model does anyway, makes a setup unfit."""
STAGGER_GAP = 0.15
"""Ends of equal replies that lie so much further apart (share of the whole time) are felt."""
SOONER = 0.8
"""A first token after so small a part of the other's time is felt."""
CHEAPER = 0.8
"""The same for the memory of a slot."""


class Use(StrEnum):
    """Who uses the server."""

    ALONE = "alone"
    SEVERAL = "several"


class Reason(StrEnum):
    """Why the best is the best. ``TIED``: it cannot be told; ``NONE``: none is fit."""

    ONLY = "only"
    FASTER = "faster"
    STEADIER = "steadier"
    SOONER = "sooner"
    CHEAPER = "cheaper"
    TIED = "tied"
    NONE = "none"


@dataclass(frozen=True)
class Recommendation:
    """``best`` None: not sure between ``rivals``, or none is fit. ``streams`` is the load it
    was judged by."""

    use: Use
    streams: int
    best: BenchmarkResult | None
    reason: Reason
    text: Message
    evidence: tuple[Message, ...]
    rivals: tuple[BenchmarkResult, ...] = ()


def recommend(results: Sequence[BenchmarkResult], use: Use) -> Recommendation | None:
    """The best setup for a use; None when the results have no load in common to judge it by."""
    streams = streams_for(results, use)
    if streams is None:
        return None
    fit = [r for r in results if r.figure_at(streams) is not None and not _fails(r, streams)]
    sound = _without_loops(fit, streams)
    best, reason, rivals = _choose(sound, streams, use)
    return Recommendation(
        use,
        streams,
        best,
        reason,
        headline(results, use is Use.ALONE, streams, best, reason.value, rivals),
        tuple(line for r in results for line in evidence_of(r, streams)),
        tuple(rivals),
    )


def streams_for(results: Sequence[BenchmarkResult], use: Use) -> int | None:
    """Streams by which a use is judged: one, or the most that every setup was asked for."""
    if not results:
        return None
    common = set.intersection(*({f.load.streams for f in r.loads} for r in results))
    if use is Use.ALONE:
        return 1 if 1 in common else None
    most = max(common, default=1)
    return most if most > 1 else None


def _fails(result: BenchmarkResult, streams: int) -> bool:
    return any(f.failures or f.fault is not None for f in _loads(result, streams))


def loop_share(result: BenchmarkResult, streams: int) -> float:
    """Share of the replies that ended in a loop."""
    loads = _loads(result, streams)
    requests = sum(f.requests for f in loads)
    return sum(f.loops for f in loads) / requests if requests else 0.0


def _loads(result: BenchmarkResult, streams: int) -> list[LoadResult]:
    return [f for f in result.loads if f.load.streams == streams]


def _without_loops(results: list[BenchmarkResult], streams: int) -> list[BenchmarkResult]:
    """Loops that all have are the model's own; those that only some have are their setup's."""
    if not results:
        return []
    least = min(loop_share(r, streams) for r in results)
    return [r for r in results if loop_share(r, streams) - least < LOOP_SHARE]


def _choose(
    sound: list[BenchmarkResult], streams: int, use: Use
) -> tuple[BenchmarkResult | None, Reason, list[BenchmarkResult]]:
    if not sound:
        return None, Reason.NONE, []
    speeds = {r.id: figure for r in sound if (figure := r.figure_at(streams)) is not None}
    fastest = max(sound, key=lambda r: speeds[r.id].median)
    alike = [r for r in sound if not speeds[fastest.id].differs_from(speeds[r.id])]
    if len(alike) == 1:
        return fastest, Reason.ONLY if len(sound) == 1 else Reason.FASTER, []
    chosen, reason = _break_tie(alike, streams, use)
    return (chosen, reason, []) if chosen is not None else (None, Reason.TIED, alike)


def _break_tie(
    alike: list[BenchmarkResult], streams: int, use: Use
) -> tuple[BenchmarkResult | None, Reason]:
    """Equally fast: the one that is better in one respect and worse in none."""
    tests: list[tuple[Reason, Callable[[BenchmarkResult, BenchmarkResult], bool]]] = [
        (Reason.SOONER, lambda a, b: _sooner(a, b, streams)),
        (Reason.CHEAPER, _cheaper),
    ]
    if use is Use.SEVERAL:
        tests.insert(0, (Reason.STEADIER, lambda a, b: _steadier(a, b, streams)))
    for one in alike:
        others = [r for r in alike if r is not one]
        worse = any(test(other, one) for _, test in tests for other in others)
        won = [reason for reason, test in tests if all(test(one, other) for other in others)]
        if won and not worse:
            return one, won[0]
    return None, Reason.TIED


def _steadier(one: BenchmarkResult, other: BenchmarkResult, streams: int) -> bool:
    mine, theirs = one.figure_at(streams, "stagger"), other.figure_at(streams, "stagger")
    return mine is not None and theirs is not None and theirs.median - mine.median >= STAGGER_GAP


def _sooner(one: BenchmarkResult, other: BenchmarkResult, streams: int) -> bool:
    mine, theirs = (r.figure_at(streams, "first_token_s") for r in (one, other))
    if mine is None or theirs is None or not mine.differs_from(theirs):
        return False
    return mine.median <= theirs.median * SOONER


def _cheaper(one: BenchmarkResult, other: BenchmarkResult) -> bool:
    mine, theirs = one.state_bytes_per_slot, other.state_bytes_per_slot
    return mine is not None and theirs is not None and mine <= theirs * CHEAPER

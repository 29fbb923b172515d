"""Sentences of a recommendation. Every number in them is one of the results'."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from twinrig.domain.benchmark import BenchmarkResult, Figure, LoadResult
from twinrig.domain.quantities import number
from twinrig.messages import Message, message
from twinrig.services.setup_axes import Change, change_between

_MIB = 2**20
_STAGGER_TOLD = 0.15


def headline(
    results: Sequence[BenchmarkResult],
    alone: bool,
    streams: int,
    best: BenchmarkResult | None,
    reason: str,
    rivals: Sequence[BenchmarkResult],
) -> Message:
    """The advice in a sentence or two; with two setups that differ in one thing, about that."""
    advice = _advice(best, reason, alone, rivals)
    change = change_between(*results) if len(results) == 2 else None
    if change is None:
        return advice
    ratios = _ratios(change, results)
    advice = _change_advice(change, best, alone, reason) or advice
    if ratios is None:
        return advice
    return message("{ratios} {advice}", ratios=ratios, advice=advice)


def _ratios(change: Change, results: Sequence[BenchmarkResult]) -> Message | None:
    """How many times as fast, for one stream and for several, as far as measured."""
    counts = sorted({f.load.streams for r in results for f in r.loads})
    most = counts[-1] if counts else 1
    one, several = _ratio(change, 1), _ratio(change, most) if most > 1 else None
    if one is not None and several is not None:
        return message(
            "{what} makes {one} times the speed for one stream and {several} times for {streams} "
            "at once.",
            what=change.what,
            one=one,
            several=several,
            streams=most,
        )
    if one is not None:
        return message(
            "{what} makes {one} times the speed for one stream.", what=change.what, one=one
        )
    if several is not None:
        return message(
            "{what} makes {several} times the speed for {streams} at once.",
            what=change.what,
            several=several,
            streams=most,
        )
    return None


def _ratio(change: Change, streams: int) -> str | None:
    on, off = change.on.figure_at(streams), change.off.figure_at(streams)
    if on is None or off is None or off.median <= 0:
        return None
    return f"{on.median / off.median:.1f}"


def _change_advice(
    change: Change, best: BenchmarkResult | None, alone: bool, reason: str
) -> Message | None:
    if best is None:
        return None
    if best is change.on:
        if alone:
            return message("On, if you use the server alone.")
        return message("On, if several people use the server.")
    looping = reason in ("only", "faster") and _loops_more(change)
    if alone:
        return message("Off, if you use the server alone.")
    if looping:
        return message("Off, if several people use the server: replies fall into loops with it.")
    return message("Off, if several people use the server.")


def _loops_more(change: Change) -> bool:
    return _loops(change.on) > _loops(change.off)


def _loops(result: BenchmarkResult) -> int:
    return sum(f.loops for f in result.loads)


def _advice(
    best: BenchmarkResult | None, reason: str, alone: bool, rivals: Sequence[BenchmarkResult]
) -> Message:
    if best is None:
        return _no_advice(reason, rivals)
    use = message("if you use the server alone")
    if not alone:
        use = message("if several people use the server")
    name = best.profile_name
    if reason == "steadier":
        return message(
            "{profile}, {use}: as fast as the others, but nobody waits longer than the rest.",
            profile=name,
            use=use,
        )
    if reason == "sooner":
        return message(
            "{profile}, {use}: as fast as the others, but replies begin sooner.",
            profile=name,
            use=use,
        )
    if reason == "cheaper":
        return message(
            "{profile}, {use}: as fast as the others, and each request takes less memory.",
            profile=name,
            use=use,
        )
    if reason == "only":
        return message(
            "{profile}, {use}: the only one that served this load soundly.", profile=name, use=use
        )
    return message("{profile}, {use}: it is the fastest.", profile=name, use=use)


def _no_advice(reason: str, rivals: Sequence[BenchmarkResult]) -> Message:
    if reason == "none":
        return message("None of the measured setups served this load without a fault.")
    return message(
        "Not sure: {profiles} differ by less than the spread of the rounds. Keep what you have.",
        profiles=", ".join(r.profile_name for r in rivals),
    )


def evidence_of(result: BenchmarkResult, streams: int) -> Iterator[Message]:
    """What was measured of one setup under this load, a sentence a fact."""
    name = result.profile_name
    load = result.main_load(streams)
    speed = load.figure("generation_tps") if load else None
    if load is not None and speed is not None:
        yield _speed_line(name, streams, speed, load)
    found = [f for f in result.loads if f.load.streams == streams]
    yield from _fault_lines(name, streams, found)
    if load is not None:
        yield from _more_lines(name, load)
    if result.state_bytes_per_slot:
        yield message(
            "{profile}: each parallel request takes {mib} MiB of GPU memory for its state.",
            profile=name,
            mib=round(result.state_bytes_per_slot / _MIB),
        )


def _speed_line(name: str, streams: int, speed: Figure, load: LoadResult) -> Message:
    first = load.figure("first_token_s")
    wait = "-" if first is None else f"{first.median:.2f}"
    if streams == 1:
        return message(
            "{profile}: {tps} ± {spread} T/s for one stream, first token after {wait} s.",
            profile=name,
            tps=number(speed.median),
            spread=number(speed.spread),
            wait=wait,
        )
    return message(
        "{profile}: {tps} ± {spread} T/s for {streams} at once, first token after {wait} s.",
        profile=name,
        tps=number(speed.median),
        spread=number(speed.spread),
        streams=streams,
        wait=wait,
    )


def _fault_lines(name: str, streams: int, loads: Sequence[LoadResult]) -> Iterator[Message]:
    requests = sum(f.requests for f in loads)
    failures, loops = sum(f.failures for f in loads), sum(f.loops for f in loads)
    fault = next((f.fault for f in loads if f.fault is not None), None)
    if failures:
        yield message(
            "{profile}: {failures} of {requests} requests failed.",
            profile=name,
            failures=failures,
            requests=requests,
        )
    if fault is not None:
        yield message("{profile}: {fault}", profile=name, fault=fault)
    if loops:
        yield message(
            "{profile}: {loops} of {requests} replies fell into a loop, {streams} at once.",
            profile=name,
            loops=loops,
            requests=requests,
            streams=streams,
        )


def _more_lines(name: str, load: LoadResult) -> Iterator[Message]:
    stagger, accepted = load.figure("stagger"), load.figure("draft_acceptance")
    if stagger is not None and stagger.median >= _STAGGER_TOLD:
        yield message(
            "{profile}: equally long replies ended {percent} % of the time apart.",
            profile=name,
            percent=round(stagger.median * 100),
        )
    if accepted is not None:
        yield message(
            "{profile}: {percent} % of the guessed tokens were right.",
            profile=name,
            percent=round(accepted.median * 100),
        )

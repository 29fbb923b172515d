"""What the page shows of a benchmark: rows of figures, advice, and the course of a run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from twinrig.domain.benchmark import BenchmarkResult, Figure, LoadResult
from twinrig.domain.errors import TwinrigError
from twinrig.domain.fixes import FixPlan
from twinrig.domain.profile import Profile
from twinrig.domain.quantities import number
from twinrig.messages import N_, Message, message
from twinrig.services.bench_choice import choice_finding, choice_plan
from twinrig.services.bench_results import words_of_load
from twinrig.services.bench_server import Touch
from twinrig.services.bench_store import difference, last_like
from twinrig.services.benchmark import Benchmark, BenchmarkPlan, Progress
from twinrig.services.fixer import FixOutcome
from twinrig.services.recommendation import Recommendation, Use, recommend

if TYPE_CHECKING:
    from twinrig.services.workbench import Workbench

COLUMNS = (
    N_("Requests"),
    N_("Profile"),
    N_("T/s, all"),
    N_("T/s, each"),
    N_("First token"),
    N_("Prompt T/s"),
    N_("Cards"),
    N_("KV cache"),
    N_("Notes"),
)
SPEED_COLUMN = 2
NOT_KNOWN = "-"


@dataclass(frozen=True)
class Measured:
    """The end of a run. ``before``: an earlier result to look at beside it."""

    results: tuple[BenchmarkResult, ...]
    before: BenchmarkResult | None
    problem: Message | None


@dataclass(frozen=True)
class TableRow:
    """One load of one result. ``share`` is its speed against the fastest of the same load."""

    cells: tuple[Message | str, ...]
    series: int
    share: float | None


@dataclass(frozen=True)
class Advice:
    """A recommendation, and the change that follows it: None when there is nothing to change."""

    recommendation: Recommendation
    plan: FixPlan | None
    profile: Profile | None
    measured: BenchmarkResult
    refusal: Message | None = None

    @property
    def heading(self) -> Message:
        """For whom."""
        if self.recommendation.use is Use.ALONE:
            return message("Just you")
        return message("Several users")

    @property
    def tone(self) -> str:
        """How sure it is."""
        return "ok" if self.recommendation.best is not None else "warn"


async def look_first(workbench: Workbench, ids: Sequence[str], plan: BenchmarkPlan) -> Touch:
    """What a run would do to servers; nothing is changed."""
    profiles = await _load(workbench, ids)
    return await Benchmark(workbench).touch(profiles, plan)


async def run_benchmark(
    workbench: Workbench, ids: Sequence[str], plan: BenchmarkPlan
) -> AsyncIterator[Progress | Measured]:
    """Progress as it comes, at the end what was measured. A run that is cut off puts the server
    back before it ends."""
    profiles = await _load(workbench, ids)
    steps: asyncio.Queue[Progress | None] = asyncio.Queue()
    task = asyncio.create_task(
        Benchmark(workbench).run(profiles, plan, agreed=True, on_progress=steps.put_nowait)
    )
    task.add_done_callback(lambda _done: steps.put_nowait(None))
    try:
        while (step := await steps.get()) is not None:
            yield step
        results = await task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    store = workbench.benchmark_store()
    earlier = await asyncio.to_thread(store.all)
    await asyncio.to_thread(store.add, results)
    before = last_like(earlier, results[0]) if len(results) == 1 else None
    yield Measured(results, before, store.problem())


async def last_measured(workbench: Workbench) -> Measured | None:
    """The newest results that were kept, those measured in turns together."""
    store = workbench.benchmark_store()
    kept = await asyncio.to_thread(store.all)
    if not kept:
        return None
    group = tuple(r for r in kept if r.group == kept[-1].group)
    before = last_like(kept, group[0]) if len(group) == 1 else None
    return Measured(group, before, store.problem())


async def advise(workbench: Workbench, results: Sequence[BenchmarkResult]) -> tuple[Advice, ...]:
    """Advice for each use, with the change of the first profile that follows it."""
    if len(results) < 2:
        return ()
    mine = results[0]
    try:
        profile = await asyncio.to_thread(workbench.profiles.load, mine.profile_id)
    except TwinrigError:
        profile = None
    found = []
    for use in Use:
        told = recommend(results, use)
        if told is None:
            continue
        plan, refusal = None, None
        if profile is not None and told.best is not None:
            try:
                plan = choice_plan(profile, mine, told.best)
            except TwinrigError as error:
                refusal = error.text
        found.append(Advice(told, plan, profile, mine, refusal))
    return tuple(found)


async def apply_advice(workbench: Workbench, advice: Advice) -> FixOutcome:
    """Change the profile; journalled like every fix. Raises TwinrigError."""
    best = advice.recommendation.best
    assert advice.plan is not None and best is not None
    return await workbench.fixer.apply(
        choice_finding(advice.measured, best), advice.plan, advice.profile
    )


async def _load(workbench: Workbench, ids: Sequence[str]) -> tuple[Profile, ...]:
    return tuple([await asyncio.to_thread(workbench.profiles.load, i) for i in ids])


def table_rows(measured: Measured) -> tuple[TableRow, ...]:
    """Loads in their order; below each other the results that have it."""
    rows = []
    shown = [(r, r.profile_name) for r in measured.results]
    if measured.before is not None:
        shown.append((measured.before, _dated(measured.before)))
    for load in measured.results[0].loads:
        speeds = [r.at(load.load) for r, _ in shown]
        medians = [_median(s) for s in speeds]
        fastest = max((m for m in medians if m), default=None)
        for series, (found, (_, name)) in enumerate(zip(speeds, shown, strict=True)):
            if found is not None:
                median = medians[series]
                share = median / fastest if median and fastest else None
                rows.append(TableRow(_cells(found, name, first=series == 0), series, share))
    return tuple(rows)


def _median(found: LoadResult | None) -> float | None:
    figure = found.figure("generation_tps") if found else None
    return figure.median if figure else None


def _cells(found: LoadResult, name: Message | str, *, first: bool) -> tuple[Message | str, ...]:
    usage, wait = found.figure("kv_cache_usage"), found.figure("first_token_s")
    return (
        words_of_load(found.load) if first else "",
        name,
        stated(found.figure("generation_tps")),
        stated(found.figure("stream_tps")),
        NOT_KNOWN if wait is None else message("{seconds} s", seconds=f"{wait.median:.2f}"),
        stated(found.figure("prompt_tps")),
        _cards(found),
        NOT_KNOWN if usage is None else f"{usage.median:.0%}",
        _notes(found),
    )


def stated(figure: Figure | None) -> str:
    """A figure with its spread."""
    if figure is None:
        return NOT_KNOWN
    return f"{number(figure.median)} ± {number(figure.spread)}"


def _cards(found: LoadResult) -> str:
    cards = [
        f"{NOT_KNOWN if c.load is None else round(c.load)} %"
        + ("" if c.power_w is None else f" {round(c.power_w)} W")
        for c in found.cards
    ]
    return " · ".join(cards) or NOT_KNOWN


def _notes(found: LoadResult) -> Message | str:
    if found.failures:
        return message("failed: {count}", count=found.failures)
    if found.loops:
        return message("loops: {count}", count=found.loops)
    if found.disturbed:
        return message("disturbed rounds: {count}", count=found.disturbed)
    accepted = found.figure("draft_acceptance")
    if accepted is not None:
        return message("drafts right: {percent} %", percent=round(accepted.median * 100))
    return ""


def _dated(result: BenchmarkResult) -> Message:
    day = datetime.fromtimestamp(result.taken_at_s).astimezone()
    return message(
        "{profile} ({date})", profile=result.profile_name, date=day.strftime("%Y-%m-%d %H:%M")
    )


def difference_lines(measured: Measured) -> tuple[str, ...]:
    """Settings that differ between what is shown side by side, "name: a → b"."""
    results = measured.results
    other = results[1] if len(results) > 1 else measured.before
    if other is None or len(results) > 2:
        return ()
    rows = difference(other, results[0]) if len(results) == 1 else difference(results[0], other)
    return tuple(f"{name}: {_value(a)} → {_value(b)}" for name, a, b in rows)


def _value(value: object) -> str:
    return NOT_KNOWN if value is None else str(value)

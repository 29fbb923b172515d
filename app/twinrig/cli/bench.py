"""``twinrig bench``: measure one profile, or compare several, and say which serves best."""

from __future__ import annotations

import asyncio
import errno
import os
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from twinrig.cli import cut_off, fix
from twinrig.cli.bench_tables import comparison_rows, difference_rows, result_rows
from twinrig.cli.session import FINDINGS, FINE, Session, pick_profile
from twinrig.cli.terminal import Terminal
from twinrig.domain.benchmark import BenchmarkResult
from twinrig.domain.errors import HostError, UsageError
from twinrig.domain.profile import Profile
from twinrig.files import write_atomic
from twinrig.messages import message
from twinrig.services.bench_choice import choice_finding, choice_plan
from twinrig.services.bench_store import csv_of, last_like, result_to_json
from twinrig.services.benchmark import Benchmark, BenchmarkPlan, Progress, plan_for
from twinrig.services.recommendation import Recommendation, Use, recommend
from twinrig.services.workbench import Workbench


async def run(session: Session) -> int:
    """Exit code 1 when a request failed, a reply looped, or consent was missing."""
    terminal, args = session.terminal, session.args
    async with session.bench() as bench:
        if args.list:
            return _list(terminal, bench, args.csv)
        _refuse_bad_csv(args.csv)
        await cut_off.put_back(terminal, bench)
        profiles = await _profiles(bench, args.profile, args.compare)
        plan = plan_for(args.users, profiles=len(profiles), thorough=args.thorough)
        if args.rounds:
            plan = replace(plan, rounds=args.rounds)
        benchmark = Benchmark(bench)
        agreed = await _agreed(terminal, benchmark, profiles, plan, yes=args.yes)
        if not agreed:
            return FINDINGS
        results = await benchmark.run(profiles, plan, agreed=True, on_progress=_Announcer(terminal))
        return await _finish(session, bench, profiles, results)


async def _profiles(
    bench: Workbench, profile_id: str | None, compared: Sequence[str] | None
) -> tuple[Profile, ...]:
    ids = list(dict.fromkeys([*([profile_id] if profile_id else []), *(compared or ())]))
    if compared and len(ids) < 2:
        raise UsageError(
            message("A comparison needs two profiles."),
            message('Use "twinrig bench --compare A B".'),
        )
    if not ids:
        return (await pick_profile(bench, None),)
    return tuple(bench.profiles.load(i) for i in ids)


async def _agreed(
    terminal: Terminal,
    benchmark: Benchmark,
    profiles: Sequence[Profile],
    plan: BenchmarkPlan,
    *,
    yes: bool,
) -> bool:
    touch = await benchmark.touch(profiles, plan)
    for text in touch.texts:
        terminal.paragraph(text, style="warn" if touch.asks else "dim")
    if not touch.asks or yes or terminal.ask(message("Go on?")):
        return True
    terminal.say(message("Nothing was measured."))
    if not terminal.can_ask:
        terminal.next_step(message('Repeat with "--yes" to agree.'))
    terminal.data({"measured": False, "asks": touch.texts})
    return False


async def _finish(
    session: Session,
    bench: Workbench,
    profiles: Sequence[Profile],
    results: Sequence[BenchmarkResult],
) -> int:
    terminal, args = session.terminal, session.args
    store = bench.benchmark_store()
    earlier = await asyncio.to_thread(store.all)
    stored = await asyncio.to_thread(store.add, results)
    for result in results:
        _show(terminal, result)
    if len(results) > 1:
        terminal.line()
        terminal.table(comparison_rows(terminal, results))
    elif (before := last_like(earlier, results[0])) is not None:
        _show_before(terminal, results[0], before)
    advice = [a for use in Use if (a := recommend(results, use)) is not None]
    if len(results) > 1:
        for one in advice:
            _show_advice(terminal, one)
    problem = store.problem()
    if not stored and problem is not None:
        terminal.paragraph(problem, style="warn")
    _write_csv(args.csv, results)
    change = await _apply(session, bench, profiles, results, advice)
    terminal.data(
        {
            "measured": True,
            "results": [result_to_json(r) for r in results],
            "advice": [_advice_data(a) for a in advice],
            "stored": stored,
            "change": change,
        }
    )
    bad = any(f.failures or f.loops or f.fault is not None for r in results for f in r.loads)
    return FINDINGS if bad else FINE


def _show(terminal: Terminal, result: BenchmarkResult) -> None:
    terminal.line()
    terminal.line(
        terminal.style(result.profile_name, "bold")
        + f"  {result.engine_id} {result.engine_version}".rstrip()
    )
    terminal.table(result_rows(terminal, result))
    for found in result.loads:
        if found.fault is not None:
            terminal.paragraph(found.fault, "  ", "bad")
            break
    disturbed = sum(found.disturbed for found in result.loads)
    if disturbed:
        terminal.paragraph(
            message(
                "{count} rounds count for nothing: the server worked for others meanwhile.",
                count=disturbed,
            ),
            style="warn",
        )


def _show_before(terminal: Terminal, new: BenchmarkResult, before: BenchmarkResult) -> None:
    terminal.line()
    terminal.say(message("Beside the last measurement:"), "bold")
    terminal.table(comparison_rows(terminal, (before, new)))
    rows = difference_rows(before, new)
    if rows:
        terminal.say(message("Settings that differ (before, now):"))
        terminal.table(rows, "  ")
    else:
        terminal.say(message("The settings are the same."), "dim")


def _show_advice(terminal: Terminal, advice: Recommendation) -> None:
    terminal.line()
    heading = message("Just you") if advice.use is Use.ALONE else message("Several users")
    terminal.say(heading, "bold")
    terminal.paragraph(advice.text, "  ", "good" if advice.best else "warn")
    for line in advice.evidence:
        terminal.paragraph(line, "  ", "dim")


def _advice_data(advice: Recommendation) -> dict[str, object]:
    return {
        "use": advice.use,
        "streams": advice.streams,
        "best": advice.best.profile_id if advice.best else None,
        "reason": advice.reason,
        "text": advice.text,
        "evidence": advice.evidence,
        "rivals": [rival.profile_id for rival in advice.rivals],
    }


async def _apply(
    session: Session,
    bench: Workbench,
    profiles: Sequence[Profile],
    results: Sequence[BenchmarkResult],
    advice: Sequence[Recommendation],
) -> dict[str, object] | None:
    """What became of ``--apply``; None without it."""
    terminal, args = session.terminal, session.args
    if not args.apply:
        return None
    best = next((a.best for a in advice if a.use.value == args.apply), None)
    plan = choice_plan(profiles[0], results[0], best) if best is not None else None
    if best is None or plan is None:
        terminal.say(message("Nothing needs changing in {profile}.", profile=profiles[0].name))
        return {"applied": False}
    offer = fix.Offer(choice_finding(results[0], best), plan)
    return await fix.offer_one(terminal, bench, profiles[0], offer, yes=args.yes)


def _list(terminal: Terminal, bench: Workbench, csv_file: str | None) -> int:
    store = bench.benchmark_store()
    results = store.all()
    problem = store.problem()
    if problem is not None:
        raise HostError(problem, message("Move the file away to start afresh."))
    if not results:
        terminal.say(message("Nothing was measured yet."))
    for result in results:
        _show(terminal, result)
    _write_csv(csv_file, results)
    terminal.data({"results": [result_to_json(r) for r in results]})
    return FINE


def _write_csv(name: str | None, results: Sequence[BenchmarkResult]) -> None:
    if not name:
        return
    try:
        write_atomic(Path(name), csv_of(results).encode())
    except OSError as error:
        raise _no_csv(name, error) from error


def _refuse_bad_csv(name: str | None) -> None:
    """Before minutes of measuring: a file can be made there, and what is there is a file."""
    if not name:
        return
    path = Path(name)
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise _no_csv(name, error) from error


def _no_csv(name: str, error: OSError) -> HostError:
    return HostError(
        message("{path} cannot be written: {reason}.", path=name, reason=error.strerror or ""),
        message("Check free space and the permissions of the folder."),
    )


class _Announcer:
    """A line whenever something else is done; rounds of one load are one line."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._last: object = None

    def __call__(self, progress: Progress) -> None:
        what = (progress.profile_id, progress.load or progress.text)
        if what == self._last:
            return
        self._last = what
        self._terminal.line(
            self._terminal.style(
                f"{progress.share:4.0%}  {self._terminal.text(progress.text)}", "dim"
            )
        )

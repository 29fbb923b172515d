"""``twinrig doctor``: run the preflight checks and show what was found."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Sequence

from twinrig.checks import collective
from twinrig.checks.registry import AREAS
from twinrig.cli import ranks
from twinrig.cli.session import FINDINGS, FINE, UNKNOWN, Session, profiles_of
from twinrig.cli.terminal import Terminal
from twinrig.domain.checks import Check, CheckResult, Status
from twinrig.domain.collective import CollectiveReport
from twinrig.domain.profile import Profile
from twinrig.domain.wording import STATUS_WORDS
from twinrig.messages import message
from twinrig.services.collective import PROBE
from twinrig.services.engine_comparison import Comparison, compare_engines
from twinrig.services.preflight import Preflight, is_about
from twinrig.services.workbench import Workbench

_STYLES = {
    Status.PASS: "good",
    Status.WARN: "warn",
    Status.FAIL: "bad",
    Status.SKIP: "dim",
    Status.ERROR: "warn",
}
_MARKS = {
    Status.PASS: "✓",
    Status.WARN: "!",
    Status.FAIL: "✗",
    Status.SKIP: "-",
    Status.ERROR: "?",
}
_ASCII_MARKS = {**_MARKS, Status.PASS: "+", Status.FAIL: "x"}


async def run(session: Session) -> int:
    """Exit code: 1 with a warning or problem, 3 when something could not be told, else 0."""
    terminal, args = session.terminal, session.args
    async with session.bench() as bench:
        profile = profile_for(bench, args.profile)
        ids = wanted_ids(bench.preflight.checks, profile, args)
        probe = ranks.probe_of(bench, args)
        preflight = bench.preflight.asking(**{PROBE: probe})
        results = await run_checks(preflight, profile, terminal, ids, args.verbose)
        other = await _other_engine(bench, profile, results, probe.report, terminal)
        terminal.data(
            {
                "target": bench.target,
                "demo": bench.demo,
                "profile": profile.id if profile else None,
                "results": results,
                "collective": ranks.figures(probe.report),
                "other_engine": other and {"id": other.engine_id, "able": other.able},
            }
        )
        summarise(terminal, results, bench.target)
        return exit_code(results)


async def _other_engine(
    bench: Workbench,
    profile: Profile | None,
    results: Sequence[CheckResult],
    report: CollectiveReport | None,
    terminal: Terminal,
) -> Comparison | None:
    """Where the cards cannot talk for this engine: is it the machine or the set-up?"""
    failed = any(r.check_id == collective.ID and r.status is Status.FAIL for r in results)
    if not failed or profile is None:
        return None
    found = await compare_engines(bench, profile, report)
    if found is not None:
        terminal.paragraph(found.text, style="good" if found.able else "warn")
        for difference in found.differences:
            terminal.paragraph(difference, "    ")
    return found


def profile_for(bench: Workbench, profile_id: str | None) -> Profile | None:
    """The named profile, or the only one; None when there is nothing to choose."""
    if profile_id:
        return bench.profiles.load(profile_id)
    mine = profiles_of(bench)
    return mine[0] if len(mine) == 1 else None


def wanted_ids(
    checks: Sequence[Check], profile: Profile | None, args: argparse.Namespace
) -> tuple[str, ...] | None:
    """None = all cheap checks. With the collective also every other check that takes a while."""
    if not args.collective:
        return tuple(args.check) if args.check else None
    if args.check:
        return (*args.check, collective.ID)
    return tuple(c.id for c in checks if is_about(c, profile))


async def run_checks(
    preflight: Preflight,
    profile: Profile | None,
    terminal: Terminal,
    ids: Collection[str] | None = None,
    verbose: bool = False,
) -> tuple[CheckResult, ...]:
    """Run and show each result as it comes."""
    titles = {check.id: check.title for check in preflight.checks}
    results: list[CheckResult] = []
    area = ""
    async for result in preflight.run(profile, ids):
        if AREAS.get(result.check_id, area) != area:
            area = AREAS[result.check_id]
            terminal.say(area, "accent")
        show(terminal, result, titles.get(result.check_id, result.check_id), verbose)
        results.append(result)
    return tuple(results)


def show(terminal: Terminal, result: CheckResult, title: str, verbose: bool = False) -> None:
    """One result: mark, title, summary; evidence and next step where they help."""
    marks = _MARKS if terminal.unicode else _ASCII_MARKS
    word = terminal.text(STATUS_WORDS[result.status])
    mark = terminal.style(f"{marks[result.status]} {word}", _STYLES[result.status])
    terminal.line(f"{mark}  {terminal.style(terminal.text(title), 'bold')}")
    terminal.paragraph(result.summary, "    ")
    if verbose or result.status in (Status.FAIL, Status.ERROR):
        for evidence in result.evidence:
            terminal.line(terminal.style(f"    {evidence.source}:", "dim"))
            for line in evidence.text.splitlines()[: None if verbose else 6]:
                terminal.line(terminal.style(f"      {line}", "dim"))
    terminal.next_step(result.next_step, "    ")
    if result.finding is not None and result.finding.fixes:
        terminal.line(
            "    " + terminal.text(message("Fixes: {ids}", ids=", ".join(result.finding.fixes)))
        )


def summarise(terminal: Terminal, results: Sequence[CheckResult], target: str) -> None:
    """Counts, and how to go on."""
    counts = {status: sum(r.status is status for r in results) for status in Status}
    terminal.line()
    terminal.line(
        "  ".join(f"{terminal.text(STATUS_WORDS[s])}: {n}" for s, n in counts.items() if n)
    )
    if any(r.finding is not None and r.finding.fixes for r in results):
        terminal.next_step(
            message('See what a fix would do: "twinrig --target {target} fix".', target=target)
        )


def exit_code(results: Sequence[CheckResult]) -> int:
    """1 for findings, else 3 when a check could not tell, else 0."""
    if any(r.status in (Status.WARN, Status.FAIL) for r in results):
        return FINDINGS
    return UNKNOWN if any(r.status is Status.ERROR for r in results) else FINE

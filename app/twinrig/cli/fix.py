"""``twinrig fix``: preview, ask, apply and prove a fix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from twinrig.cli import doctor, many, unfinished
from twinrig.cli.session import FINDINGS, FINE, Session
from twinrig.cli.terminal import Terminal
from twinrig.diagnosis.next_probe import finding_of_failure
from twinrig.domain.checks import CheckResult, Finding, Status
from twinrig.domain.errors import TwinrigError, UsageError
from twinrig.domain.fixes import FixPlan, Guidance
from twinrig.domain.profile import Profile
from twinrig.domain.server import ServerState
from twinrig.fixes.registry import WISHES
from twinrig.messages import message
from twinrig.services.fixer import FixPreview
from twinrig.services.workbench import Workbench

_FAILED = (ServerState.FAILED, ServerState.BACKOFF)


@dataclass(frozen=True)
class Offer:
    """A way out of one finding."""

    finding: Finding
    way: FixPlan | Guidance


async def run(session: Session) -> int:
    """Without an id: list what could be done. Exit code 1 while findings remain."""
    terminal, args = session.terminal, session.args
    if args.id in ("nccl", "nccl-experiment"):
        from twinrig.cli import nccl  # it uses this module

        return await nccl.run(session)
    if args.id in ("lan-open", "lan-close"):
        from twinrig.cli import lan  # likewise

        return await lan.run(session)
    async with session.bench() as bench:
        profile = doctor.profile_for(bench, args.profile)
        if args.finish is not None:
            return await unfinished.finish(terminal, bench, profile, args.finish)
        unfinished.tell(terminal, bench)
        results = [r async for r in bench.preflight.run(profile)]
        if args.safe:
            return await many.fix_safe(terminal, bench, profile, results, yes=args.yes)
        offers = await find_offers(bench, profile, results)
        if not args.all:
            offers += await server_offers(bench, profile)
            offers += await wished_offers(bench, profile, args.id)
        if not args.id and not args.all:
            return await _list(terminal, bench, offers)
        chosen = first_each(offers) if args.all else _named(offers, args.id)
        if not chosen:
            terminal.say(message("There is nothing to fix."), "good")
            terminal.data({"fixes": []})
            return FINE
        done = []
        for offer in chosen:
            done.append(await offer_one(terminal, bench, profile, offer, yes=args.yes))
        terminal.data({"fixes": done})
        return FINE if all(d.get("proven") for d in done) else FINDINGS


async def find_offers(
    bench: Workbench, profile: Profile | None, results: Sequence[CheckResult]
) -> list[Offer]:
    """Every way out of every finding, best first per finding."""
    offers: list[Offer] = []
    for result in results:
        if result.finding is not None and result.status in (Status.WARN, Status.FAIL):
            for way in await bench.fixer.options(result.finding, profile):
                offers.append(Offer(result.finding, way))
    return offers


async def server_offers(bench: Workbench, profile: Profile | None) -> list[Offer]:
    """Ways out of what ended the profile's server; for an unknown cause, what makes its next
    start tell more."""
    if profile is None:
        return []
    record = (await bench.controller.status(profile.id)).record
    if record is None or record.failure is None or record.state not in _FAILED:
        return []
    finding = finding_of_failure(record.failure)
    if finding is None:
        return []
    return [Offer(finding, way) for way in await bench.fixer.options(finding, profile)]


async def wished_offers(
    bench: Workbench, profile: Profile | None, fix_id: str | None
) -> list[Offer]:
    """What was asked for by name, and needs no finding."""
    wish = WISHES.get(fix_id or "")
    if wish is None:
        return []
    return [Offer(wish, way) for way in await bench.fixer.options(wish, profile)]


async def offer_one(
    terminal: Terminal, bench: Workbench, profile: Profile | None, offer: Offer, *, yes: bool
) -> dict[str, object]:
    """Preview, ask, apply, prove one fix; what happened as plain data."""
    base: dict[str, object] = {"fix_id": offer.way.fix_id, "finding": offer.finding.id}
    if isinstance(offer.way, Guidance):
        show_guidance(terminal, offer.way)
        return {**base, "applied": False, "proven": False, "instructions": offer.way.instructions}
    preview = await bench.fixer.preview(offer.way)
    show_preview(terminal, preview)
    base["preview"] = preview.steps
    if not yes and not terminal.ask(message("Apply this fix?")):
        terminal.say(message("Nothing was changed."))
        if not terminal.can_ask:
            terminal.next_step(message('Repeat with "--yes" to apply it.'))
        return {**base, "applied": False, "proven": False}
    try:
        outcome = await bench.fixer.apply(offer.finding, offer.way, profile)
    except TwinrigError as error:
        if not terminal.json_mode:
            terminal.error(error)
        return {**base, "applied": False, "proven": False, "error": error.text}
    good = outcome.applied and outcome.proven
    terminal.paragraph(outcome.text, style="good" if good else "bad")
    if outcome.applied:
        terminal.say(
            message(
                'Take it back with "twinrig --target {target} undo {entry}".',
                target=bench.target,
                entry=outcome.entry_id,
            )
        )
    return {
        **base,
        "applied": outcome.applied,
        "proven": outcome.proven,
        "entry": outcome.entry_id,
        "text": outcome.text,
        "results": outcome.results,
    }


def show_preview(terminal: Terminal, preview: FixPreview) -> None:
    """The exact commands and differences, before anything is changed."""
    plan = preview.plan
    terminal.say(plan.title, "bold")
    if plan.risk is not None:
        terminal.paragraph(message("Risk: {risk}", risk=plan.risk), "  ", "warn")
    for step in preview.steps:
        by = message("as administrator") if step.kind == "admin" else message("as root")
        suffix = f" ({terminal.text(by)})" if step.root else ""
        terminal.line(f"  {terminal.text(step.title)}{suffix}")
        for line in step.text.splitlines():
            style = "good" if line.startswith("+") else "bad" if line.startswith("-") else "dim"
            terminal.line("    " + terminal.style(line, style))
    if plan.needs_restart:
        terminal.say(message("  The server must be restarted afterwards."))
    if not plan.reversible:
        terminal.say(message("  This cannot be taken back."), "warn")


def show_guidance(terminal: Terminal, guidance: Guidance) -> None:
    """What only the user can do, step by step."""
    terminal.say(guidance.title, "bold")
    for number, instruction in enumerate(guidance.instructions, 1):
        terminal.paragraph(
            message("{number}. {text}", number=number, text=instruction), indent="  "
        )


async def _list(terminal: Terminal, bench: Workbench, offers: Sequence[Offer]) -> int:
    listed = []
    for offer in offers:
        listed.append(
            {
                "fix_id": offer.way.fix_id,
                "finding": offer.finding.id,
                "title": offer.way.title,
                "by_hand": isinstance(offer.way, Guidance),
            }
        )
        if isinstance(offer.way, Guidance):
            show_guidance(terminal, offer.way)
        else:
            terminal.line(terminal.style(offer.way.fix_id, "accent"))
            show_preview(terminal, await bench.fixer.preview(offer.way))
    terminal.data({"fixes": listed})
    if not offers:
        terminal.say(message("There is nothing to fix."), "good")
        return FINE
    terminal.next_step(
        message('Apply one with "twinrig --target {target} fix ID".', target=bench.target)
    )
    return FINDINGS


def _named(offers: Sequence[Offer], wanted: str) -> list[Offer]:
    named = [o for o in offers if wanted in (o.way.fix_id, o.finding.id)]
    if not named:
        raise UsageError(
            message("No present finding has a fix {id}.", id=wanted),
            message(
                "Fixes that apply now: {ids}",
                ids=", ".join(dict.fromkeys(o.way.fix_id for o in offers)) or "-",
            ),
        )
    return first_each(named)


def first_each(offers: Sequence[Offer]) -> list[Offer]:
    """The best way for each finding; one that Twinrig can do itself before guidance."""
    best: dict[Finding, Offer] = {}
    for offer in sorted(offers, key=lambda o: isinstance(o.way, Guidance)):
        best.setdefault(offer.finding, offer)
    return list(best.values())

"""Many changes at once: ``twinrig fix --safe`` and ``twinrig undo --all``."""

from __future__ import annotations

from collections.abc import Sequence

from twinrig.cli.session import FINDINGS, FINE
from twinrig.cli.terminal import Terminal
from twinrig.domain.checks import CheckResult
from twinrig.domain.profile import Profile
from twinrig.messages import message
from twinrig.services.safe_fixes import SafeFix, SafeFixes
from twinrig.services.workbench import Workbench


async def fix_safe(
    terminal: Terminal,
    bench: Workbench,
    profile: Profile | None,
    results: Sequence[CheckResult],
    *,
    yes: bool,
) -> int:
    """Show all, ask once, apply and prove each. Exit code 1 when one did not help."""
    safe = SafeFixes(bench.fixer, bench.profiles)
    ways = await safe.find(results, profile)
    if not ways:
        terminal.say(message("Nothing can be fixed without a look at it."), "good")
        terminal.data({"fixes": []})
        return FINE
    for _, plan in ways:
        terminal.say(plan.title, "bold")
        for step in (await bench.fixer.preview(plan)).steps:
            for line in step.text.splitlines():
                terminal.line("    " + terminal.style(line, "dim"))
    if not yes and not terminal.ask(message("Apply these fixes?")):
        terminal.say(message("Nothing was changed."))
        if not terminal.can_ask:
            terminal.next_step(message('Repeat with "--yes" to apply them.'))
        return FINDINGS
    done: list[SafeFix] = []
    async for item in safe.apply(results, profile):
        terminal.paragraph(item.text, style="good" if item.kept else "warn")
        done.append(item)
    terminal.data(
        {
            "fixes": [
                {
                    "fix_id": item.plan.fix_id,
                    "finding": item.finding.id,
                    "kept": item.kept,
                    "entry": item.entry_id,
                    "text": item.text,
                }
                for item in done
            ]
        }
    )
    return FINE if all(item.kept for item in done) else FINDINGS


async def undo_all(terminal: Terminal, bench: Workbench, *, yes: bool) -> int:
    """Newest first; what cannot be taken back is told with the reason. Exit code 1 then."""
    entries = [entry for entry in bench.journal.entries() if entry.can_undo]
    if not entries:
        terminal.say(message("There is nothing to take back."), "good")
        terminal.data({"undone": [], "kept": []})
        return FINE
    for entry in reversed(entries):
        terminal.say(entry.title)
    if not yes and not terminal.ask(message("Take all these changes back?")):
        terminal.say(message("Nothing was changed."))
        if not terminal.can_ask:
            terminal.next_step(message('Repeat with "--yes" to take them back.'))
        return FINDINGS
    found = await bench.fixer.undo_all()
    for entry, error in found:
        if error is None:
            terminal.say(message("Taken back: {title}", title=entry.title), "good")
        elif not terminal.json_mode:
            terminal.error(error)
    kept = [(entry.id, error.text) for entry, error in found if error is not None]
    undone = [entry.id for entry, error in found if error is None]
    terminal.data({"undone": undone, "kept": [{"entry": i, "reason": t} for i, t in kept]})
    return FINDINGS if kept else FINE

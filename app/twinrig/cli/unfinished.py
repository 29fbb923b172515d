"""Fixes that a crash cut off: told wherever fixes are looked at, finished on request."""

from __future__ import annotations

from twinrig.cli.session import FINDINGS, FINE
from twinrig.cli.terminal import Terminal
from twinrig.domain.errors import UsageError
from twinrig.domain.profile import Profile
from twinrig.messages import message
from twinrig.services.workbench import Workbench


def tell(terminal: Terminal, bench: Workbench) -> None:
    """One paragraph for each; nothing when there is none."""
    for entry in bench.fixer.interrupted():
        terminal.paragraph(
            message("“{fix}” was cut off before it was done.", fix=entry.title), style="warn"
        )
        terminal.next_step(
            message(
                'Finish it with "twinrig --target {target} fix --finish {entry}", or take it '
                'back with "twinrig --target {target} undo {entry}".',
                target=bench.target,
                entry=entry.id,
            )
        )


async def finish(
    terminal: Terminal, bench: Workbench, profile: Profile | None, entry_id: str
) -> int:
    """Without an id the oldest one. Exit code 1 when it is not proven afterwards."""
    entries = bench.fixer.interrupted()
    chosen = next((e for e in entries if entry_id in ("", e.id)), None)
    if chosen is None and not entry_id:
        terminal.say(message("No fix was cut off."), "good")
        terminal.data({"finished": None})
        return FINE
    if chosen is None:
        raise UsageError(
            message("There is no change {id} that was cut off.", id=entry_id),
            message("Look at the list of changes."),
        )
    terminal.say(chosen.title, "bold")
    outcome = await bench.fixer.finish(chosen.id, profile)
    terminal.paragraph(outcome.text, style="good" if outcome.proven else "warn")
    terminal.data({"finished": chosen.id, "proven": outcome.proven, "results": outcome.results})
    return FINE if outcome.proven else FINDINGS

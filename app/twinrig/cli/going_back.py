"""After a start that failed: what was changed since one that worked, and the way back."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from twinrig.cli.terminal import Terminal
from twinrig.messages import message
from twinrig.services.last_good import SettingChange
from twinrig.services.workbench import Workbench


def show_changes(terminal: Terminal, changes: Sequence[SettingChange]) -> None:
    """What worked and what it was changed to, a line each."""
    for change in changes:
        terminal.line(f"  {change.name}: {change.worked or '-'} -> {change.now or '-'}")


async def offer_last_good(terminal: Terminal, bench: Workbench, profile_id: str) -> None:
    """Ask, or tell the command; nothing when the settings are those that worked."""
    good = bench.last_good()
    changes = await asyncio.to_thread(good.changes, profile_id)
    if not changes:
        return
    terminal.say(message("Changed since the last start that worked:"))
    show_changes(terminal, changes)
    if terminal.ask(message("Go back to the settings that worked?")):
        await asyncio.to_thread(good.restore, profile_id)
        terminal.say(message("The settings that worked are back. Start it again."), "good")
        return
    terminal.next_step(
        message(
            '"twinrig profiles restore {id} --worked" goes back to the settings that worked.',
            id=profile_id,
        )
    )

"""The undo journal as shown: what was changed, when, and what Undo would take back."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from twinrig.messages import N_, Message, Translator, message

if TYPE_CHECKING:
    from twinrig.services.journal import Journal, JournalEntry

OUTCOME_WORDS: Mapping[str, str] = {
    "open": N_("Not finished"),
    "applied": N_("In place"),
    "rolled-back": N_("Failed, nothing is left of it"),
}
STEP_WORDS: Mapping[str, str] = {
    "file": N_("Changed a file"),
    "command": N_("Ran a command"),
    "profile": N_("Changed a profile"),
    "windows-file": N_("Changed a file of Windows"),
    "admin": N_("Changed Windows as administrator"),
    "wsl-restart": N_("Restarted WSL"),
}


@dataclass(frozen=True)
class ChangeRow:
    """One entry, newest first in the list."""

    entry: JournalEntry

    @property
    def word(self) -> Message:
        """How it stands now."""
        entry = self.entry
        if entry.undone_at_s is not None:
            return message("Taken back")
        if entry.outcome.value == "applied" and not entry.proven:
            return message("In place, not proven")
        return Message(OUTCOME_WORDS.get(entry.outcome.value, entry.outcome.value))

    @property
    def can_undo(self) -> bool:
        """Something of it may still be in place."""
        return bool(self.entry.can_undo)


async def read_changes(journal: Journal) -> tuple[tuple[ChangeRow, ...], Message | None]:
    """All entries, newest first, and why some cannot be read."""
    entries = await asyncio.to_thread(journal.entries)
    problem = await asyncio.to_thread(journal.problem)
    return tuple(ChangeRow(entry) for entry in reversed(entries)), problem


def when_text(at_s: float) -> str:
    """Local date and time, the same form in every language."""
    return datetime.datetime.fromtimestamp(at_s).strftime("%Y-%m-%d %H:%M")


def undo_text(entry: JournalEntry, translator: Translator) -> str:
    """What was done, step by step, and in which order Undo takes it back."""
    tr = translator.text
    parts = [tr(N_("Finding: {id}"), id=entry.finding.id), tr(N_("Fix: {id}"), id=entry.fix_id)]
    if entry.undone_at_s is not None:
        parts.append(tr(N_("Taken back: {time}"), time=when_text(entry.undone_at_s)))
    elif entry.can_undo:
        parts.append(tr(N_("Undo takes these steps back, the last one first:")))
    for number, step in enumerate(entry.steps, 1):
        head = f"{number}. {tr(STEP_WORDS.get(step.kind, step.kind))}"
        if not step.done:
            head += "  " + tr(N_("(perhaps not carried out)"))
        parts.append(head + "\n" + _indented(step.text.splitlines()))
    return "\n".join(parts)


def _indented(lines: Sequence[str]) -> str:
    return "\n".join("   " + line for line in lines)

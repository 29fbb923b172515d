"""``twinrig undo``: list the changes that fixes made, and take one back."""

from __future__ import annotations

from datetime import datetime

from twinrig.cli import many, unfinished
from twinrig.cli.session import FINDINGS, FINE, UNKNOWN, Session
from twinrig.messages import Message, message
from twinrig.services.journal import JournalEntry


async def run(session: Session) -> int:
    """Without an entry: the list. Exit code 3 when the journal has damaged lines."""
    terminal, args = session.terminal, session.args
    async with session.bench() as bench:
        problem = bench.journal.problem()
        if args.all:
            return await many.undo_all(terminal, bench, yes=args.yes)
        if not args.entry:
            unfinished.tell(terminal, bench)
            entries = bench.journal.entries()
            terminal.data({"entries": entries, "problem": problem})
            rows = [
                (
                    entry.id,
                    datetime.fromtimestamp(entry.at_s).strftime("%Y-%m-%d %H:%M"),
                    terminal.text(_state(entry)),
                    terminal.text(entry.title),
                )
                for entry in entries
            ]
            terminal.table(rows)
            if not rows:
                terminal.say(message("No fix has changed anything yet."))
            if problem is not None:
                terminal.paragraph(problem, style="warn")
            return FINE if problem is None else UNKNOWN
        entry = next((e for e in bench.journal.entries() if e.id == args.entry), None)
        if entry is not None and not args.yes:
            terminal.say(entry.title, "bold")
            if terminal.can_ask and not terminal.ask(message("Take this change back?")):
                terminal.say(message("Nothing was changed."))
                return FINDINGS
        undone = await bench.fixer.undo(args.entry)
        terminal.data({"undone": undone})
        terminal.say(message("Taken back: {title}", title=undone.title), "good")
        return FINE


def _state(entry: JournalEntry) -> Message:
    if entry.undone_at_s is not None:
        return message("undone")
    if not entry.can_undo:
        return message("failed")
    return message("not finished") if entry.interrupted else message("in effect")

"""``twinrig withdraw``: everything that must end before Twinrig is removed or replaced."""

from __future__ import annotations

from twinrig.cli.session import FINDINGS, FINE, Session
from twinrig.domain.errors import HostError, UsageError
from twinrig.messages import Message, message
from twinrig.services.withdrawal import Withdrawal
from twinrig.services.workbench import Workbench

ALL_TARGETS = ("local", "wsl", "demo")


async def run(session: Session) -> int:
    """All targets that this computer has, unless one is named. 1: something stays behind."""
    left: list[Message] = []
    targets = ALL_TARGETS if session.target == "auto" else (session.target,)
    for target in targets:
        try:
            bench = session.open_workbench(target)
        except (HostError, UsageError):  # this computer has no such target
            continue
        try:
            if bench.layout.root.is_dir():  # otherwise nothing of it was ever used
                left += await _withdraw(session, bench)
        finally:
            await bench.http.close()
    left += session.end_other_processes()
    terminal = session.terminal
    terminal.data({"left": left})
    for text in left:
        terminal.paragraph(text, style="bad")
    if not left:
        terminal.say(message("Nothing of Twinrig is running any more."), "good")
    return FINDINGS if left else FINE


async def _withdraw(session: Session, bench: Workbench) -> list[Message]:
    args = session.args
    withdrawal = Withdrawal(bench, session.terminal.say)
    left = [*await withdrawal.undo_changes()] if args.undo_changes else []
    left += await withdrawal.stop_server()
    if not args.keep_tasks:
        left += await withdrawal.unregister()
    if args.forget_keys:
        left += await withdrawal.forget_keys()
    return left

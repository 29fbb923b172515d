"""A fix that a crash cut off: finish it or take it back, wherever fixes are looked at."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFrame, QVBoxLayout, QWidget

from twinrig.domain.profile import Profile
from twinrig.messages import N_, message
from twinrig.qt.viewmodels.runs import load_or_none
from twinrig.qt.widgets.parts import Button, Label, row

if TYPE_CHECKING:
    from twinrig.qt.pages.base import PageContext
    from twinrig.services.fixer import FixOutcome
    from twinrig.services.journal import JournalEntry


class InterruptedBar(QFrame):
    """Hidden while there is nothing to decide. ``changed`` fires after one was decided."""

    changed = Signal()

    def __init__(self, context: PageContext, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._context = context
        self._entries: tuple[JournalEntry, ...] = ()
        self._busy = False
        self.setFrameShape(QFrame.Shape.StyledPanel)
        context.texts.bind(self, QWidget.setAccessibleName, N_("A fix that was cut off"))
        self._text = Label(context)
        self._trouble = Label(context, tone="muted")
        self._finish = Button(context, N_("Finish it"), self.finish, icon="fix")
        self._undo = Button(context, N_("Take it back"), self.undo, icon="undo")
        layout = QVBoxLayout(self)
        layout.addWidget(self._text)
        layout.addWidget(self._trouble)
        layout.addLayout(row(self._finish, self._undo, None))
        self._trouble.hide()
        self.hide()

    def reload(self) -> None:
        """Look into the journal."""
        if not self._busy:
            work = asyncio.to_thread(self._context.workbench.fixer.interrupted)
            self._context.bridge.submit(work, self, self._got, lambda _error: None)

    def finish(self) -> None:
        """Do what is left, exactly as it was shown, and prove it."""
        if self._entries and not self._busy:
            self._start(self._do_finish(self._entries[0]))

    def undo(self) -> None:
        """Take back what was done of it."""
        if self._entries and not self._busy:
            self._start(self._context.workbench.fixer.undo(self._entries[0].id))

    async def _do_finish(self, entry: JournalEntry) -> FixOutcome:
        bench = self._context.workbench
        profile: Profile | None = None
        for step in entry.plan:
            if "profile_id" in step:
                profile, _ = await load_or_none(bench, str(step["profile_id"]))
        if profile is None:
            profile, _ = await load_or_none(bench, self._context.settings.current_profile)
        return await bench.fixer.finish(entry.id, profile)

    def _start(self, work: object) -> None:
        self._busy = True
        self._trouble.hide()
        self._render()
        self._context.bridge.submit(work, self, self._decided, self._failed)

    def _got(self, entries: tuple[JournalEntry, ...]) -> None:
        self._entries = entries
        self._render()

    def _decided(self, _result: object) -> None:
        self._busy = False
        self._entries = self._entries[1:]
        self._render()
        self.changed.emit()

    def _failed(self, error: Exception) -> None:
        self._busy = False
        self._trouble.setText(self._context.texts.error(error))
        self._trouble.show()
        self._render()

    def _render(self) -> None:
        self.setVisible(bool(self._entries))
        if self._entries:
            self._text.show_text(
                message(
                    "“{fix}” was cut off before it was done. Finish it, or take it back.",
                    fix=self._entries[0].title,
                )
            )
        for button in (self._finish, self._undo):
            button.setEnabled(not self._busy)

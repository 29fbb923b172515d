"""Why a server failed: cause in words, what to do, and the line of the log that tells it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFrame, QVBoxLayout, QWidget

from twinrig.domain.supervision import Failure
from twinrig.messages import N_
from twinrig.qt.viewmodels.causes import Causes
from twinrig.qt.viewmodels.server import CONFIDENCE_WORDS, finding_of
from twinrig.qt.widgets.parts import Button, Label, ToneIcon, mono_font, row

if TYPE_CHECKING:
    from twinrig.qt.pages.base import PageContext
    from twinrig.services.last_good import SettingChange

MAX_CHANGES = 8


class FailureBox(QFrame):
    """Hidden while there is no failure. ``jump_requested`` and ``fix_requested`` carry it."""

    jump_requested = Signal(object)
    fix_requested = Signal(object)
    restore_requested = Signal()
    setup_requested = Signal(str)

    def __init__(self, context: PageContext, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._context = context
        self.causes = Causes()
        self.setFrameShape(QFrame.Shape.StyledPanel)
        context.texts.bind(self, QWidget.setAccessibleName, N_("Why it failed"))
        self._cause = Label(context, scale=1.05)
        self._next = Label(context)
        self._line = Label(context)
        self._line.setFont(mono_font(self._line))
        self._confidence = Label(context, tone="muted")
        self._jump = Button(
            context,
            N_("Show in the log"),
            lambda: self.jump_requested.emit(self.causes.current),
            icon="log",
        )
        self._fix = Button(
            context,
            N_("What can be done…"),
            lambda: self.fix_requested.emit(self.causes.current),
            icon="fix",
            tip=N_("Fixes for this cause, each with a preview"),
        )
        self._restore = Button(
            context,
            N_("Go back to the settings that worked"),
            self.restore_requested.emit,
            icon="undo",
            tip=N_("Your changes are kept as the previous version of the profile"),
        )
        self._set_up = Button(
            context, "", lambda: self.setup_requested.emit(self._engine_id), icon="down"
        )
        self._engine_id = ""
        self._changes = Label(context)
        self._why = Label(context, tone="muted")
        self._other = Button(
            context,
            N_("Not this?"),
            self._turn,
            tip=N_("Show the next cause that would explain the log"),
        )
        self._place = Label(context, tone="muted")
        head = row(ToneIcon(context, "fail"), self._cause)
        head.setStretch(1, 1)
        foot = row(self._confidence, self._place, self._other, self._jump, self._fix)
        foot.setStretch(0, 1)
        layout = QVBoxLayout(self)
        layout.addLayout(head)
        layout.addWidget(self._next)
        layout.addWidget(self._why)
        layout.addWidget(self._line)
        layout.addWidget(self._changes)
        layout.addLayout(row(self._set_up, self._restore, None))
        layout.addLayout(foot)
        self.offer_restore(())
        self.hide()

    def show_failure(self, failure: Failure | None) -> None:
        """Show it, or hide."""
        self.causes.show(failure)
        self.setVisible(failure is not None)
        self._render()

    def offer_restore(self, changes: Sequence[SettingChange]) -> None:
        """What was changed since the last start that worked; empty = there is no way back."""
        tr = self._context.texts.tr
        lines = [f"•  {c.name}: {c.worked or '—'} → {c.now or '—'}" for c in changes]
        head = tr(N_("Changed since the last start that worked:"))
        self._changes.setText("\n".join((head, *lines[:MAX_CHANGES])))
        for widget in (self._changes, self._restore):
            widget.setVisible(bool(changes))

    def offer_setup(self, engine_id: str) -> None:
        """The engine whose set-up would help; "" = none."""
        self._engine_id = engine_id
        self._set_up.setVisible(bool(engine_id))
        if engine_id:
            name = self._context.workbench.engines[engine_id].name
            self._set_up.set_text(N_("Set up {engine}…"), engine=name)

    def _turn(self) -> None:
        self.causes.turn()
        self._render()

    def _render(self) -> None:
        failure = self.causes.current
        if failure is None:
            return
        self._why.setVisible(failure.why is not None)
        if failure.why is not None:
            self._why.show_text(failure.why)
        several = self.causes.count > 1
        self._other.setVisible(several)
        self._place.setVisible(several)
        self._place.show_text(
            N_("Cause {number} of {count}"), number=self.causes.number, count=self.causes.count
        )
        self._cause.show_text(failure.text)
        self._next.show_text(failure.next_step)
        line = failure.root_cause_line.strip()
        self._line.setText(line if len(line) <= 400 else line[:400] + "…")
        self._line.setVisible(bool(line))
        self._render_fix(failure)
        self._jump.setVisible(bool(line) or failure.log_line_no is not None)
        word = CONFIDENCE_WORDS.get(failure.confidence)
        self._confidence.setVisible(word is not None)
        if word is not None:
            self._confidence.show_text(N_("How sure: {confidence}"), confidence=word)

    def _render_fix(self, failure: Failure) -> None:
        """One button: fixes of a known cause, else what makes the next start tell more."""
        self._fix.setVisible(finding_of(failure) is not None)
        texts = self._context.texts
        if failure.finding_id:
            self._fix.set_text(N_("What can be done…"))
            texts.bind(
                self._fix, QWidget.setToolTip, N_("Fixes for this cause, each with a preview")
            )
        else:
            self._fix.set_text(N_("Learn more at the next start…"))
            texts.bind(
                self._fix,
                QWidget.setToolTip,
                N_("Makes the log of one start tell more; with a preview, and with an undo"),
            )

"""Why a server failed: cause in words, what to do, and the line of the log that tells it."""

from __future__ import annotations

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


class FailureBox(QFrame):
    """Hidden while there is no failure. ``jump_requested`` and ``fix_requested`` carry it."""

    jump_requested = Signal(object)
    fix_requested = Signal(object)

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
        layout.addLayout(foot)
        self.hide()

    def show_failure(self, failure: Failure | None) -> None:
        """Show it, or hide."""
        self.causes.show(failure)
        self.setVisible(failure is not None)
        self._render()

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

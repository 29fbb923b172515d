"""Why a server failed: cause in words, what to do, and the line of the log that tells it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFrame, QVBoxLayout, QWidget

from twinrig.domain.supervision import Failure
from twinrig.messages import N_
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
        self._failure: Failure | None = None
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
            lambda: self.jump_requested.emit(self._failure),
            icon="log",
        )
        self._fix = Button(
            context,
            N_("What can be done…"),
            lambda: self.fix_requested.emit(self._failure),
            icon="fix",
            tip=N_("Fixes for this cause, each with a preview"),
        )
        head = row(ToneIcon(context, "fail"), self._cause)
        head.setStretch(1, 1)
        foot = row(self._confidence, self._jump, self._fix)
        foot.setStretch(0, 1)
        layout = QVBoxLayout(self)
        layout.addLayout(head)
        layout.addWidget(self._next)
        layout.addWidget(self._line)
        layout.addLayout(foot)
        self.hide()

    def show_failure(self, failure: Failure | None) -> None:
        """Show it, or hide."""
        self._failure = failure
        self.setVisible(failure is not None)
        if failure is None:
            return
        self._cause.show_text(failure.text)
        self._next.show_text(failure.next_step)
        line = failure.root_cause_line.strip()
        self._line.setText(line if len(line) <= 400 else line[:400] + "…")
        self._line.setVisible(bool(line))
        self._fix.setVisible(finding_of(failure) is not None)
        self._jump.setVisible(bool(line) or failure.log_line_no is not None)
        word = CONFIDENCE_WORDS.get(failure.confidence)
        self._confidence.setVisible(word is not None)
        if word is not None:
            self._confidence.show_text(N_("How sure: {confidence}"), confidence=word)

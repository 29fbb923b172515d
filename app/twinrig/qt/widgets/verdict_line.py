"""The verdict: one sentence, what it was told from, and where to change something."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QToolButton, QVBoxLayout, QWidget

from twinrig.messages import N_
from twinrig.qt.pages.base import PageContext
from twinrig.qt.widgets.labels import StatusBadge, ToneLabel
from twinrig.services.verdict_words import Verdict


class VerdictLine(QWidget):
    """Evidence is folded away behind "Why?"; it is never lost to a tool tip alone."""

    def __init__(self, context: PageContext, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._context = context
        self._verdict: Verdict | None = None
        texts = context.texts
        self.badge = StatusBadge(context.theme, context.icons, 1.05, self, sentence=True)
        self.why = QToolButton(self)
        self.why.setCheckable(True)
        self.why.setAutoRaise(True)
        self.why.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextOnly)
        texts.bind(self.why, QToolButton.setText, N_("Why?"))
        texts.bind(self.why, QWidget.setAccessibleName, N_("Show what the verdict was told from"))
        self.link = QPushButton(self)
        self.link.clicked.connect(self._follow)
        self.evidence = ToneLabel(context.theme, "muted", self)
        self.evidence.setWordWrap(True)
        self.why.toggled.connect(lambda _on: self._fold())
        line = QHBoxLayout()
        line.setSpacing(8)
        line.addWidget(self.badge, 1)
        line.addWidget(self.why)
        line.addWidget(self.link)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(2)
        layout.addLayout(line)
        layout.addWidget(self.evidence)
        self.link.hide()
        self.why.hide()
        self.evidence.hide()
        texts.changed.connect(self._render)

    def show_verdict(self, verdict: Verdict) -> None:
        """Another judgement; an equal one costs nothing."""
        if verdict != self._verdict:
            self._verdict = verdict
            self._render()

    def _render(self) -> None:
        verdict = self._verdict
        if verdict is None:
            return
        tr = self._context.texts.tr
        self.badge.show_status(verdict.kind, tr(verdict.text))
        self.why.setVisible(bool(verdict.evidence))
        recorded = self._context.live.recording is not None
        self.link.setVisible(verdict.link is not None and not recorded)
        if verdict.link is not None:
            text = tr(verdict.link.text)
            self.link.setText(text)
            self.link.setAccessibleName(text)
        self._fold()

    def _fold(self) -> None:
        shown = self._verdict is not None and self.why.isChecked() and bool(self._verdict.evidence)
        if shown and self._verdict is not None:
            tr = self._context.texts.tr
            QLabel.setText(self.evidence, "\n".join(tr(line) for line in self._verdict.evidence))
        self.evidence.setVisible(shown)

    def _follow(self) -> None:
        if self._verdict is None or self._verdict.link is None:
            return
        machine = self._context.live.machine
        record = machine.server if machine is not None else None
        if record is not None:  # the verdict is about this profile, whichever is chosen
            self._context.settings.current_profile = record.profile_id
        self._context.navigate(self._verdict.link.place)

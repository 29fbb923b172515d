"""One recommendation with its evidence, and the button that follows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QVBoxLayout, QWidget

from twinrig.messages import N_, message
from twinrig.qt.viewmodels.bench import Advice
from twinrig.qt.widgets.parts import Button, Label, ToneIcon, row
from twinrig.qt.widgets.surface import Surface

if TYPE_CHECKING:
    from twinrig.qt.pages.base import PageContext


class AdviceBox(Surface):
    """``apply_wanted`` carries the advice that is to be followed."""

    apply_wanted = Signal(object)

    def __init__(self, context: PageContext, parent: QWidget | None = None) -> None:
        super().__init__(context.theme, parent)
        self._context = context
        self._advice: Advice | None = None
        self._icon = ToneIcon(context)
        self._heading = Label(context, scale=1.1)
        self._text = Label(context)
        self._evidence = Label(context, tone="muted")
        self._refusal = Label(context, tone="warn")
        self._use = Button(context, N_("Use these settings"), self._follow, icon="ok")
        layout = QVBoxLayout(self)
        head = row(self._icon, self._heading, self._use)
        head.setStretch(1, 1)
        layout.addLayout(head)
        layout.addWidget(self._text)
        layout.addWidget(self._evidence)
        layout.addWidget(self._refusal)
        context.texts.changed.connect(self._render)
        self.hide()

    def show_advice(self, advice: Advice | None) -> None:
        """Another recommendation; None hides the box."""
        self._advice = advice
        self.setVisible(advice is not None)
        self._render()

    def set_enabled_use(self, enabled: bool) -> None:
        """Whether the change can be made now."""
        self._use.setEnabled(enabled)

    def _follow(self) -> None:
        if self._advice is not None:
            self.apply_wanted.emit(self._advice)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        """Layouts do not count the lines of wrapped texts when they share out little room."""
        self.setMinimumHeight(max(0, self.layout().totalHeightForWidth(self.width())))

    def _render(self) -> None:
        advice = self._advice
        if advice is None:
            return
        told, tr = advice.recommendation, self._context.texts.tr
        self._icon.set_tone(advice.tone)
        self._heading.show_text(advice.heading)
        self._text.show_text(told.text)
        self._evidence.setText("\n".join(f"• {tr(line)}" for line in told.evidence))
        self._refusal.setVisible(advice.refusal is not None)
        self._refusal.setText(tr(advice.refusal) if advice.refusal is not None else "")
        self._use.setVisible(advice.plan is not None)
        if advice.plan is not None and advice.profile is not None:
            text = message("Use these settings in {profile}", profile=advice.profile.name)
            self._use.set_text(text)
        self._fit()

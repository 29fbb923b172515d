"""One of the first steps: where it stands, why, and the buttons that lead on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from twinrig.messages import N_, Message
from twinrig.qt.viewmodels.first_steps import (
    STATE_LABELS,
    TITLES,
    Act,
    Step,
    StepButton,
    StepId,
    StepState,
)
from twinrig.qt.widgets.parts import Button, Label, ToneIcon, row
from twinrig.qt.widgets.surface import Surface

if TYPE_CHECKING:
    from twinrig.qt.pages.base import PageContext

TONES = {
    StepState.DONE: "ok",
    StepState.NEXT: "busy",
    StepState.BUSY: "busy",
    StepState.LATER: "muted",
    StepState.CANNOT: "warn",
    StepState.SKIPPED: "muted",
}
ICONS = {
    Act.LOOK: "refresh",
    Act.CHECK: "preflight",
    Act.FIX: "fix",
    Act.PREFLIGHT: "preflight",
    Act.SET_UP: "down",
    Act.PLAN: "plan",
    Act.START: "play",
    Act.SERVER: "server",
    Act.ASK: "try",
}
_OPEN = (StepState.NEXT, StepState.CANNOT, StepState.BUSY)


class StepBox(Surface):
    """``pressed`` carries a StepButton; ``skipped`` True or False; ``demo`` asks for the rig.

    ``extra`` is the step's own part, such as the list of models; it shows while the step is open.
    """

    pressed = Signal(object)
    skipped = Signal(bool)
    demo = Signal()

    def __init__(self, context: PageContext, step_id: StepId, extra: QWidget | None = None) -> None:
        super().__init__(context.theme)
        self._context = context
        self.step: Step | None = None
        self.extra = extra
        self._shown: tuple[StepButton, ...] = ()
        self._made: list[Button] = []
        self._icon = ToneIcon(context)
        self._title = Label(context, TITLES[step_id], scale=1.05)
        self._state = Label(context, tone="muted")
        self._state.setWordWrap(False)
        self._state.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self._text = Label(context)
        self._next = Label(context)
        self._skip = Button(context, N_("Skip"), self._toggle_skip)
        self._demo = Button(context, N_("Use the demo rig"), self.demo.emit, icon="demo")
        self._row = QHBoxLayout()
        self._row.addWidget(self._demo)
        self._row.addWidget(self._skip)
        self._row.addStretch(1)
        context.texts.bind(self, QWidget.setAccessibleName, TITLES[step_id])
        self._lay_out()

    def _lay_out(self) -> None:
        head = row(self._icon, self._title, self._state)
        head.setStretch(1, 1)
        inner = QVBoxLayout()
        inner.setContentsMargins(self._icon.sizeHint().width() + 6, 0, 0, 0)
        inner.setSpacing(4)
        for widget in (self._text, self._next, self.extra):
            if widget is not None:
                inner.addWidget(widget)
        inner.addLayout(self._row)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(10, 6, 10, 6)
        layout.setSpacing(2)
        layout.addLayout(head)
        layout.addLayout(inner)

    def show_step(self, step: Step) -> None:
        """Show where the step stands now."""
        self.step = step
        opened = step.state in _OPEN
        self._icon.set_tone(TONES[step.state])
        self._state.show_text(STATE_LABELS[step.state])
        self._text.show_text(step.text)
        self._text.set_tone("" if opened else "muted")
        self._next.show_text(step.next_step or "")
        self._next.setVisible(step.next_step is not None)
        if self.extra is not None:
            self.extra.setVisible(opened)
        if step.buttons != self._shown:
            self._make_buttons(step.buttons)
        can_skip = step.state in (StepState.NEXT, StepState.CANNOT)
        skipped = step.state is StepState.SKIPPED
        self._skip.setVisible(can_skip or skipped)
        self._skip.set_text(N_("Take it up again") if skipped else N_("Skip"))
        named = N_("Take it up again: {step}") if skipped else N_("Skip: {step}")
        title = Message(step.title)
        self._context.texts.bind(self._skip, QWidget.setAccessibleName, named, step=title)
        self._demo.setVisible(step.demo)

    def focus_button(self) -> None:
        """To the first thing that can be pressed."""
        for button in (*self._made, self._skip):
            if button.isVisibleTo(self):
                button.setFocus()
                return

    def _make_buttons(self, buttons: tuple[StepButton, ...]) -> None:
        for old in self._made:
            self._row.removeWidget(old)
            old.hide()
            old.deleteLater()
        self._shown = buttons
        self._made = [
            Button(
                self._context,
                button.text,
                lambda button=button: self.pressed.emit(button),
                icon=ICONS[button.act],
            )
            for button in buttons
        ]
        for place, made in enumerate(self._made):
            self._row.insertWidget(place, made)

    def _toggle_skip(self) -> None:
        if self.step is not None:
            self.skipped.emit(self.step.state is not StepState.SKIPPED)

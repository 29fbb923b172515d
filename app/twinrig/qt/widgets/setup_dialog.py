"""Set up an engine: look at what would be done, watch it, cancel it at any time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QCheckBox, QDialog, QProgressBar, QVBoxLayout, QWidget

from twinrig.domain.profile import Profile
from twinrig.messages import N_
from twinrig.qt.bridge import TaskHandle
from twinrig.qt.viewmodels.setting_up import plan_lines, told
from twinrig.qt.widgets.parts import Button, Label, ToneIcon, fit_height, mono_font, row
from twinrig.services.engine_setup import SetupPlan, SetupResult
from twinrig.services.setup_words import STEP_WORDS, SetupProgress

if TYPE_CHECKING:
    from twinrig.qt.pages.base import PageContext


class SetupDialog(QDialog):
    """``changed`` fires when another version is in use. Closing it cancels what is going on."""

    changed = Signal()

    def __init__(
        self,
        context: PageContext,
        engine_id: str,
        profile: Profile | None = None,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._context = context
        self._engine_id = engine_id
        self._profile = profile
        self._plan: SetupPlan | None = None
        self._task: TaskHandle | None = None
        self.running = False
        self._build()
        self._look()

    def _build(self) -> None:
        context = self._context
        bind = context.texts.bind
        name = context.workbench.engines[self._engine_id].name
        bind(self, QDialog.setWindowTitle, N_("Set up {engine}"), engine=name)
        bind(self, QWidget.setAccessibleName, N_("Set up {engine}"), engine=name)
        self._icon = ToneIcon(context)
        self._head = Label(context, scale=1.1)
        self._body = Label(context)
        self._use = QCheckBox()
        self._use.setVisible(False)
        self._step = Label(context)
        self._bar = QProgressBar()
        self._bar.setTextVisible(False)
        bind(self._bar, QWidget.setAccessibleName, N_("Progress of this step"))
        self._line = Label(context, tone="muted")
        self._line.setFont(mono_font(self._line))
        self._start = Button(context, N_("Set it up"), self.start, icon="play")
        self._close = Button(context, N_("Close"), self.reject)
        head = row(self._icon, self._head)
        head.setStretch(1, 1)
        layout = QVBoxLayout(self)
        layout.addLayout(head)
        for widget in (self._body, self._use, self._step, self._bar, self._line):
            layout.addWidget(widget)
        layout.addStretch(1)
        layout.addLayout(row(None, self._start, self._close))
        self.resize(self.fontMetrics().averageCharWidth() * 90, 0)

    def _look(self) -> None:
        self._show("muted", N_("Looking at driver, Python and disk"), busy=True)
        self._start.setEnabled(False)
        self._context.bridge.submit(
            self._context.workbench.setup.plan(self._engine_id), self, self._planned, self._failed
        )

    def _planned(self, plan: SetupPlan) -> None:
        self._plan = plan
        self._show("muted", N_("This is what would be done"))
        tr = self._context.texts.tr
        self._body.setText("\n".join(f"•  {tr(line)}" for line in plan_lines(plan)))
        self._body.show()
        if self._profile is not None:
            text = N_("Use it for the profile {name}, and prove it with a first reply")
            bind = self._context.texts.bind
            bind(self._use, QCheckBox.setText, text, name=self._profile.name)
            bind(self._use, QWidget.setAccessibleName, text, name=self._profile.name)
            self._use.setChecked(True)
            self._use.show()
        self._start.setEnabled(True)
        self._start.setFocus()
        fit_height(self)

    def start(self) -> None:
        """Begin, or begin again after a failure."""
        plan = self._plan
        if plan is None or self.running:
            return
        self.running = True
        self._start.setEnabled(False)
        self._use.setEnabled(False)
        self._close.set_text(N_("Cancel"))
        self._show("busy", N_("Setting it up; what is in use stays as it is"), busy=True)
        profile = self._profile if self._use.isChecked() and self._use.isVisibleTo(self) else None
        setup = self._context.workbench.setup
        profile_id = "" if profile is None else profile.id
        self._task = self._context.bridge.submit(
            told(lambda tell: setup.run(plan, tell, profile_id)),
            self,
            None,
            self._failed,
            self._told,
        )

    def reject(self) -> None:
        """Close; a set-up that goes on is cancelled, and its downloads are kept."""
        if self._task is not None:
            self._task.cancel()
        super().reject()

    def _told(self, item: SetupProgress | SetupResult) -> None:
        if isinstance(item, SetupResult):
            self._ended()
            self._show("ok", item.text)
            self._start.hide()
            self.changed.emit()
            return
        self._step.show_text(STEP_WORDS[item.step])
        if item.line:
            width = self.width() // max(1, self._line.fontMetrics().averageCharWidth())
            self._line.setText(item.line.strip()[: max(20, width - 6)])
        known = item.fraction is not None
        self._bar.setRange(0, 1000 if known else 0)
        self._bar.setValue(round(1000 * (item.fraction or 0)))

    def _failed(self, error: Exception) -> None:
        self._ended()
        self._show("fail", "")
        self._head.setText(self._context.texts.error(error))
        if self._plan is not None:
            self._start.set_text(N_("Try again"))
            self._start.setEnabled(True)
        fit_height(self)

    def _ended(self) -> None:
        self.running = False
        self._task = None
        self._use.setEnabled(True)
        self._close.set_text(N_("Close"))

    def _show(self, tone: str, text: object, *, busy: bool = False) -> None:
        self._icon.set_tone(tone)
        self._head.show_text(text)
        self._body.setVisible(self._plan is not None and tone == "muted")
        for widget in (self._step, self._bar, self._line):
            widget.setVisible(busy)
        self._bar.setRange(0, 0)


def open_setup(
    context: PageContext, engine_id: str, profile: Profile | None, parent: QWidget
) -> SetupDialog:
    """Open it above ``parent``."""
    from PySide6.QtCore import Qt

    dialog = SetupDialog(context, engine_id, profile, parent)
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    dialog.open()
    return dialog

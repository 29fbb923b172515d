"""Exactly what a start would run: command, environment and files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtWidgets import (
    QApplication,
    QCheckBox,
    QDialog,
    QPlainTextEdit,
    QVBoxLayout,
    QWidget,
)

from twinrig.domain.launch import LaunchSpec
from twinrig.domain.profile import Profile
from twinrig.messages import N_, Translator
from twinrig.qt.viewmodels.launching import (
    difference_text,
    launch_text,
    render_launch,
    running_launch,
)
from twinrig.qt.widgets.parts import Button, Label, mono_font, row

if TYPE_CHECKING:
    from twinrig.qt.pages.base import PageContext


class LaunchDialog(QDialog):
    """Read-only; keys are masked."""

    def __init__(
        self, context: PageContext, profile: Profile, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._context = context
        self._profile = profile
        self._specs: tuple[LaunchSpec, ...] = ()
        self._running: tuple[LaunchSpec, ...] | None = None
        bind = context.texts.bind
        bind(self, QDialog.setWindowTitle, N_("Exact files and command"))
        bind(self, QWidget.setAccessibleName, N_("Exact files and command"))
        self._note = Label(context, N_("Working it out…"))
        self.text = QPlainTextEdit()
        self.text.setReadOnly(True)
        self.text.setTabChangesFocus(True)
        self.text.setFont(mono_font(self.text))
        bind(self.text, QWidget.setAccessibleName, N_("Files and command"))
        metrics = self.text.fontMetrics()
        self.text.setMinimumSize(metrics.averageCharWidth() * 72, metrics.height() * 18)
        self.changes = QCheckBox()
        bind(self.changes, QCheckBox.setText, N_("Only what a restart would change"))
        bind(self.changes, QWidget.setAccessibleName, N_("Only what a restart would change"))
        self.changes.toggled.connect(self._render)
        self.changes.hide()
        self._copy = Button(context, N_("Copy"), self.copy, icon="copy")
        self._copy.setEnabled(False)
        close = Button(context, N_("Close"), self.reject)
        layout = QVBoxLayout(self)
        layout.addWidget(self._note)
        layout.addWidget(self.text, 1)
        layout.addLayout(row(self.changes, None, self._copy, close))
        context.texts.changed.connect(self._render)
        context.bridge.submit(
            render_launch(context.workbench, profile), self, self._rendered, self._failed
        )

    def copy(self) -> None:
        """All of it."""
        QApplication.clipboard().setText(self.text.toPlainText())

    def _rendered(self, specs: tuple[LaunchSpec, ...]) -> None:
        self._specs = specs
        self._copy.setEnabled(True)
        self._note.show_text(
            N_("This is what Start will run for the settings as they are now. Keys are masked.")
        )
        self._render()
        workbench = self._context.workbench
        self._context.bridge.submit(
            running_launch(workbench, self._profile.id, specs), self, self._compare
        )

    def _compare(self, running: tuple[LaunchSpec, ...] | None) -> None:
        """Offered only where a server of this profile runs."""
        self._running = running
        self.changes.setVisible(running is not None)

    def _render(self) -> None:
        translator = Translator(self._context.texts.language)
        if self._running is not None and self.changes.isChecked():
            text = difference_text(self._running, self._specs, translator)
            none = self._context.texts.tr(N_("Nothing: the running server has these settings."))
            self.text.setPlainText(text or none)
        elif self._specs:
            self.text.setPlainText(launch_text(self._specs, translator))

    def _failed(self, error: Exception) -> None:
        self._note.show_text("")
        self._note.set_tone("fail")
        self._note.setText(self._context.texts.error(error))
        self.text.hide()

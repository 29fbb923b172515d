"""The masked report of a server: looked at first, then copied or saved."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QDialog, QPlainTextEdit, QProgressBar, QVBoxLayout, QWidget

from twinrig.files import write_atomic
from twinrig.messages import N_
from twinrig.qt.viewmodels.runs import report_of
from twinrig.qt.widgets.dialogs import Dialogs
from twinrig.qt.widgets.parts import Button, Label, Notice, mono_font, row

if TYPE_CHECKING:
    from twinrig.qt.pages.base import PageContext


class ReportDialog(QDialog):
    """Nothing leaves it before the user has the whole text in view. The text is English: those
    who read it help people of all languages."""

    def __init__(
        self,
        context: PageContext,
        profile_id: str,
        dialogs: Dialogs,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._context = context
        self._profile_id = profile_id
        self._dialogs = dialogs
        bind = context.texts.bind
        bind(self, QDialog.setWindowTitle, N_("Report"))
        bind(self, QWidget.setAccessibleName, N_("Report"))
        self._build()
        context.bridge.submit(
            report_of(context.workbench, profile_id), self, self._got_report, self._failed
        )

    def _build(self) -> None:
        context = self._context
        bind = context.texts.bind
        self._hint = Label(
            context,
            N_(
                "Keys, names, folders and addresses are masked. Look at it before you pass it on: "
                "names may be left that nobody can guess."
            ),
        )
        self._progress = QProgressBar()
        self._progress.setRange(0, 0)
        self._progress.setTextVisible(False)
        bind(self._progress, QWidget.setAccessibleName, N_("Working"))
        self.text = QPlainTextEdit()
        self.text.setReadOnly(True)
        self.text.setTabChangesFocus(True)
        self.text.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self.text.setFont(mono_font(self.text))
        bind(self.text, QWidget.setAccessibleName, N_("What the report tells"))
        metrics = self.text.fontMetrics()
        self.text.setMinimumSize(metrics.averageCharWidth() * 64, metrics.height() * 16)
        self._notice = Notice(context)
        self.copy_button = Button(context, N_("Copy"), self.copy, icon="copy")
        self.save_button = Button(context, N_("Save as…"), self.save, icon="save")
        close = Button(context, N_("Close"), self.reject)
        for button in (self.copy_button, self.save_button):
            button.setEnabled(False)
        layout = QVBoxLayout(self)
        for widget in (self._hint, self._progress):
            layout.addWidget(widget)
        layout.addWidget(self.text, 1)
        layout.addWidget(self._notice)
        layout.addLayout(row(None, self.copy_button, self.save_button, close))

    def copy(self) -> None:
        """The whole text."""
        QGuiApplication.clipboard().setText(self.text.toPlainText())
        self._notice.tell(N_("The report was copied."), tone="ok")

    def save(self) -> None:
        """Ask where, then write it."""
        title = self._context.texts.tr(N_("Save the report"))
        chosen = self._dialogs.save_file(
            self, title, f"twinrig-report-{self._profile_id}.txt", "*.txt"
        )
        if chosen is not None:
            data = self.text.toPlainText().encode("utf-8")
            self._context.bridge.submit(
                asyncio.to_thread(write_atomic, chosen, data),
                self,
                partial(self._saved, chosen),
                self._notice.tell_error,
            )

    def reject(self) -> None:
        """Close, also while the report is still made."""
        self._context.bridge.cancel_all(self)
        super().reject()

    def _saved(self, path: Path, _result: object) -> None:
        self._notice.tell(N_("The report was written: {path}"), tone="ok", path=str(path))

    def _got_report(self, text: str) -> None:
        self._progress.hide()
        self.text.setPlainText(text)
        for button in (self.copy_button, self.save_button):
            button.setEnabled(True)

    def _failed(self, error: Exception) -> None:
        self._progress.hide()
        self._notice.tell_error(error)

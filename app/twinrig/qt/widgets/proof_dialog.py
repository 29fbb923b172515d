"""The proof that a server stays: progress, cancel, verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtWidgets import QDialog, QProgressBar, QVBoxLayout, QWidget

from twinrig.domain.wsl import is_wsl
from twinrig.messages import N_
from twinrig.qt.viewmodels.proving import ProofView, proof_stream, waiting_view
from twinrig.qt.widgets.parts import Button, Label, Notice, ToneIcon, fit_height, row
from twinrig.services.persistence import PROOF_S

if TYPE_CHECKING:
    from twinrig.qt.pages.base import PageContext

_WIDTH_CHARS = 62
_LINES = 5


class ProofDialog(QDialog):
    """Starts at once; closing it ends the proof and harms nothing."""

    def __init__(
        self,
        context: PageContext,
        profile_id: str,
        parent: QWidget | None = None,
        wait_s: float = PROOF_S,
    ) -> None:
        super().__init__(parent)
        self._context = context
        self.view = waiting_view(wait_s, wait_s, wsl=is_wsl(context.workbench.target))
        bind = context.texts.bind
        bind(self, QDialog.setWindowTitle, N_("Does the server stay?"))
        bind(self, QWidget.setAccessibleName, N_("Does the server stay?"))
        self._build()
        self._got(self.view)
        context.bridge.submit(
            proof_stream(context.workbench, profile_id, wait_s),
            self,
            None,
            self._failed,
            self._got,
        )

    def _build(self) -> None:
        context = self._context
        self._icon = ToneIcon(context, "busy")
        self._headline = Label(context, scale=1.15)
        self._lines = [Label(context) for _ in range(_LINES)]
        self._progress = QProgressBar()
        self._progress.setRange(0, 1000)
        self._progress.setTextVisible(False)
        context.texts.bind(self._progress, QWidget.setAccessibleName, N_("Working"))
        self._notice = Notice(context)
        self.close_button = Button(context, N_("Cancel"), self.reject)
        head = row(self._icon, self._headline)
        head.setStretch(1, 1)
        layout = QVBoxLayout(self)
        layout.addLayout(head)
        for line in self._lines:
            line.hide()
            layout.addWidget(line)
        layout.addWidget(self._progress)
        layout.addWidget(self._notice)
        layout.addStretch(1)
        layout.addLayout(row(None, self.close_button))
        self.setMinimumWidth(self.fontMetrics().averageCharWidth() * _WIDTH_CHARS)

    def reject(self) -> None:
        """End the proof, if it goes on, and close."""
        self._context.bridge.cancel_all(self)
        super().reject()

    def _got(self, view: ProofView) -> None:
        self.view = view
        self._icon.set_tone(view.tone)
        self._headline.show_text(view.headline)
        for number, label in enumerate(self._lines):
            label.setVisible(number < len(view.lines))
            if number < len(view.lines):
                label.show_text(view.lines[number])
        self._progress.setVisible(view.fraction is not None)
        if view.fraction is None:
            self.close_button.set_text(N_("Close"))
            fit_height(self)
        else:
            self._progress.setValue(round(1000 * view.fraction))

    def _failed(self, error: Exception) -> None:
        for widget in (self._headline, *self._lines, self._progress):
            widget.hide()
        self._icon.set_tone("warn")
        self._notice.tell_error(error)
        self.close_button.set_text(N_("Close"))

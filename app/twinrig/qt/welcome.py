"""What the window shows before its pages exist: that it opens, or why it cannot."""

from __future__ import annotations

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QPaintEvent
from PySide6.QtWidgets import QLabel, QPushButton, QVBoxLayout, QWidget

from twinrig.messages import N_
from twinrig.qt.text import Texts


class WelcomePane(QWidget):
    """``retry`` when the user wants another attempt; ``demo`` when he wants the demo rig.

    ``painted`` fires once, after the first paint. Nothing is imported here that a bare window
    would not need: this is what is on the screen while the rest loads.
    """

    retry = Signal()
    demo = Signal()
    painted = Signal()

    def __init__(self, texts: Texts, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._painted = False
        self._heading = QLabel(self)
        self._texts = texts
        self._reason = QLabel(self)
        self._reason.setWordWrap(True)
        self._reason.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._again = self._button(N_("Try again"), self.retry)
        self._rig = self._button(N_("Use the demo rig"), self.demo)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(24, 24, 24, 24)
        layout.addWidget(self._heading)
        layout.addWidget(self._reason)
        for button in (self._again, self._rig):
            layout.addWidget(button, 0, Qt.AlignmentFlag.AlignLeft)
        layout.addStretch(1)
        self.show_opening()

    def show_opening(self) -> None:
        """Still at work."""
        self._heading.setText(self._texts.tr(N_("Opening…")))
        for widget in (self._reason, self._again, self._rig):
            widget.hide()

    def show_failure(self, error: BaseException) -> None:
        """Say why, and offer the ways out."""
        self._heading.setText(self._texts.tr(N_("Twinrig cannot open this machine")))
        self._reason.setText(self._texts.error(error))
        for widget in (self._reason, self._again, self._rig):
            widget.show()

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        if not self._painted:
            self._painted = True
            QTimer.singleShot(0, self.painted.emit)

    def _button(self, text: str, signal: Signal) -> QPushButton:
        button = QPushButton(self)
        self._texts.bind(button, QPushButton.setText, text)
        self._texts.bind(button, QWidget.setAccessibleName, text)
        button.clicked.connect(lambda: signal.emit())
        return button

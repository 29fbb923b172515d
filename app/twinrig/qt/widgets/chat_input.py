"""Where a question is typed: Enter sends, except the Enter that ends an input method's word."""

from __future__ import annotations

from PySide6.QtCore import QMimeData, Qt, QTimer, Signal
from PySide6.QtGui import QInputMethodEvent, QKeyEvent
from PySide6.QtWidgets import QPlainTextEdit, QWidget

LARGE_PASTE = 20_000
"""Characters; a longer paste is kept beside the text: one huge line stalls every editor."""
AFTER_COMMIT_MS = 80
"""So soon after a word was committed, Enter is still the key that did it."""


class ChatInput(QPlainTextEdit):
    """``send`` fires for Enter; Shift+Enter is a new line; ``again`` for Ctrl+Enter without a
    text. ``pasted`` carries a large paste."""

    send = Signal()
    again = Signal()
    pasted = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._composing = False
        self._settle = QTimer(self)
        self._settle.setSingleShot(True)
        self._settle.setInterval(AFTER_COMMIT_MS)
        self.setTabChangesFocus(True)
        self.setLineWrapMode(QPlainTextEdit.LineWrapMode.WidgetWidth)
        metrics = self.fontMetrics()
        self.setMinimumHeight(metrics.lineSpacing() * 3)
        self.setMaximumHeight(metrics.lineSpacing() * 6)

    @property
    def composing(self) -> bool:
        """Whether an input method holds a word that is not committed, or has just done so."""
        return self._composing or self._settle.isActive()

    def inputMethodEvent(self, event: QInputMethodEvent) -> None:
        """Notes the course of a conversion; some desktops send the committing key, too."""
        was = self._composing
        self._composing = bool(event.preeditString())
        if was and not self._composing:
            self._settle.start()
        super().inputMethodEvent(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Enter and Ctrl+Enter send; nothing is sent while an input method is at work."""
        if event.key() not in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            super().keyPressEvent(event)
            return
        if event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
            self.insertPlainText("\n")
            return
        event.accept()
        if self.composing or event.isAutoRepeat():
            return
        control = bool(event.modifiers() & Qt.KeyboardModifier.ControlModifier)
        if control and self.document().isEmpty():
            self.again.emit()
        else:
            self.send.emit()

    def canInsertFromMimeData(self, source: QMimeData) -> bool:
        """Texts only: a dropped file or picture is nothing that is sent."""
        return source.hasText()

    def insertFromMimeData(self, source: QMimeData) -> None:
        """A paste or a drop."""
        text = source.text()
        if len(text) > LARGE_PASTE:
            self.pasted.emit(text)
        else:
            self.insertPlainText(text)

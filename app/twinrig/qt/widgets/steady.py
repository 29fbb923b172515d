"""Labels whose text changes each second without a new layout of the whole window.

A QLabel asks for a new layout with every text, up to the window; one of a fixed size does not.
Both fill their ground themselves, so that what lies below them is not painted again.
"""

from __future__ import annotations

from PySide6.QtCore import QEvent, QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QLabel, QSizePolicy, QWidget


class SteadyLabel(QLabel):
    """As wide as the widest text it has shown, and as ``template`` at least; never narrower.

    ``template`` holds wide characters (8, W): plain texts of no more characters fit into it.
    """

    def __init__(self, template: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._template = template
        self.setAutoFillBackground(True)
        self._fit(template)

    def setText(self, text: str) -> None:
        if text == self.text():
            return
        if not text.isascii() or len(text) > len(self._template):
            self._fit(text)  # measuring costs more than setting
        super().setText(text)

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() in (QEvent.Type.FontChange, QEvent.Type.StyleChange):
            self.setFixedSize(self._needed(self.text() or self._template))
            self._fit(self._template)

    def _fit(self, text: str) -> None:
        needed = self._needed(text)
        if needed.width() > self.width() or self.minimumWidth() != self.width():
            self.setFixedSize(needed)

    def _needed(self, text: str) -> QSize:
        metrics = self.fontMetrics()
        return QSize(metrics.horizontalAdvance(text) + 2, metrics.lineSpacing())


class SteadyLine(QWidget):
    """One line that takes the width it gets; what does not fit is elided."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._text = ""
        self.setAutoFillBackground(True)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def text(self) -> str:
        """What is shown."""
        return self._text

    def setText(self, text: str) -> None:
        """Show another text; the same one costs nothing."""
        if text != self._text:
            self._text = text
            self.setAccessibleName(text)
            self.update()

    def sizeHint(self) -> QSize:
        metrics = self.fontMetrics()
        return QSize(metrics.averageCharWidth() * 20, metrics.lineSpacing())

    def minimumSizeHint(self) -> QSize:
        return QSize(0, self.fontMetrics().lineSpacing())

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setPen(self.palette().windowText().color())
        text = self.fontMetrics().elidedText(self._text, Qt.TextElideMode.ElideRight, self.width())
        flags = int(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
        painter.drawText(self.rect(), flags, text)

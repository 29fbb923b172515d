"""A quiet rounded panel that groups what belongs together, and a thin bar for shares."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPalette, QPen
from PySide6.QtWidgets import QFrame, QSizePolicy, QWidget

from twinrig.qt.theme import Theme

RADIUS = 6.0


class Surface(QFrame):
    """Paints a card with a thin border in the colours of the theme."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        theme.changed.connect(self._recolour)
        self._recolour()

    def _recolour(self) -> None:
        # Children that fill their ground themselves (see steady.py) take this colour.
        palette = QPalette()
        palette.setColor(QPalette.ColorRole.Window, self._theme.tokens.card)
        self.setPalette(palette)
        self.update()

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(self._theme.tokens.border, 1))
        painter.setBrush(self._theme.tokens.card)
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5), RADIUS, RADIUS)


class ShareBar(QWidget):
    """A share of 0 to 1 as a thin bar. ``None`` draws an empty outline: unknown is not zero."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._share: float | None = None
        self._colour: QColor | None = None
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAutoFillBackground(True)  # opaque: nothing below is painted again
        theme.changed.connect(self.update)

    @property
    def share(self) -> float | None:
        return self._share

    def set_share(self, share: float | None, colour: QColor | None = None) -> None:
        """Show ``share`` in ``colour`` (default: the first series)."""
        before = (self._filled(self._share), self._colour)
        self._share, self._colour = share, colour
        if before != (self._filled(share), colour):
            self.update()

    def _filled(self, share: float | None) -> int | None:
        """Pixels that are filled; a small share is drawn as a dot."""
        if share is None or share <= 0:
            return None if share is None else 0
        return round(max(self.width() * min(share, 1.0), self.height()) * self.devicePixelRatioF())

    def sizeHint(self) -> QSize:
        metrics = self.fontMetrics()
        return QSize(metrics.averageCharWidth() * 20, max(6, metrics.height() // 2))

    def minimumSizeHint(self) -> QSize:
        return QSize(self.fontMetrics().averageCharWidth() * 6, self.sizeHint().height())

    def paintEvent(self, _event: QPaintEvent) -> None:
        tokens = self._theme.tokens
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        box = QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5)
        radius = box.height() / 2
        if self._share is None:
            pen = QPen(tokens.muted, 1, Qt.PenStyle.DotLine)
            painter.setPen(pen)
            painter.drawRoundedRect(box, radius, radius)
            return
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(tokens.grid)
        painter.drawRoundedRect(box, radius, radius)
        share = min(max(self._share, 0.0), 1.0)
        if share > 0:
            painter.setBrush(self._colour or tokens.series[0])
            filled = QRectF(box)
            filled.setWidth(max(box.width() * share, box.height()))
            painter.drawRoundedRect(filled, radius, radius)

    def changeEvent(self, event: QEvent) -> None:
        if event.type() == QEvent.Type.FontChange:
            self.updateGeometry()
        super().changeEvent(event)

"""The line above a graph: colour, name and value of each series."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QRect
from PySide6.QtGui import QColor, QFontMetrics, QPainter

from twinrig.domain.quantities import number
from twinrig.messages import Message
from twinrig.qt.text import Texts
from twinrig.qt.theme import Tokens
from twinrig.qt.widgets.ring import Row


class Legend:
    """Names are translated and measured once, values at each reading."""

    def __init__(self, texts: Texts, unit: str, labels: Sequence[Message | str]) -> None:
        self._names = [texts.tr(label) for label in labels]
        self._unit = texts.tr(unit)
        self._widths: list[int] = []

    def text(self, row: Row | None) -> str:
        """All of it, in words."""
        return "  ".join(self._text(index, row) for index in range(len(self._names)))

    def paint(
        self, painter: QPainter, metrics: QFontMetrics, ink: QColor, tokens: Tokens, row: Row | None
    ) -> None:
        """At the top left; ``row`` None or a missing value is a dash, never zero."""
        mark = metrics.averageCharWidth() * 2
        if not self._widths:
            # Room for the widest value, so that the next label does not jump about.
            self._widths = [
                metrics.horizontalAdvance(f"{name}  8888 {self._unit}") + mark + 6 + mark
                for name in self._names
            ]
        x, y, base = 0, metrics.lineSpacing() // 2 - 1, metrics.ascent()
        painter.setPen(ink)
        for index, width in enumerate(self._widths):
            painter.fillRect(QRect(x, y, mark, 3), tokens.series[index % len(tokens.series)])
            painter.drawText(x + mark + 6, base, self._text(index, row))
            x += width

    def _text(self, index: int, row: Row | None) -> str:
        value = row[index] if row is not None and index < len(row) else None
        shown = "—" if value is None else f"{number(value)} {self._unit}"
        return f"{self._names[index]}  {shown}"

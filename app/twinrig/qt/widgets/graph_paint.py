"""Strokes of the live graph: runs of one series with the area below, marks on the time axis.

Pens are cosmetic and one device pixel wide: at 150 % scaling a wider antialiased pen costs
seconds with noisy data, this one milliseconds. Emphasis comes from the filled area.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from PySide6.QtCore import QPointF, QRect, Qt
from PySide6.QtGui import QColor, QPainter, QPen, QPolygonF

PIXELS_PER_SLOT = 2
FILL_ALPHA = 24


@dataclass(frozen=True)
class Mark:
    """Something that happened: ``label`` is translated, ``tone`` as in ``Tokens.status``."""

    at_s: float
    label: str
    tone: str = "muted"


def step(ratio: float) -> int:
    """Device pixels from one reading to the next."""
    return max(1, round(PIXELS_PER_SLOT * ratio))


def pen(colour: QColor, style: Qt.PenStyle = Qt.PenStyle.SolidLine) -> QPen:
    result = QPen(colour, 1, style)
    result.setCosmetic(True)
    return result


def draw_run(
    painter: QPainter, run: list[QPointF], colour: QColor, base: int | None, *, bold: bool
) -> None:
    """One connected piece; ``base`` is the bottom of the filled area, None = no area."""
    if len(run) == 1:
        painter.setPen(pen(colour))
        painter.drawPoint(run[0])
        return
    if base is not None:
        _fill_below(painter, run, colour, base)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
    painter.setPen(pen(colour))
    line = QPolygonF(run)
    painter.drawPolyline(line)
    if bold:
        # A second thin line beside it: still far cheaper than one pen that is wider.
        painter.drawPolyline(line.translated(-0.7, -0.7))


def _fill_below(painter: QPainter, run: list[QPointF], colour: QColor, base: int) -> None:
    # One upright strip per reading: a single polygon costs ten times as much with noisy data.
    area = QColor(colour)
    area.setAlpha(FILL_ALPHA)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
    for here, following in pairwise(run):
        left, right = round(here.x()), round(following.x())
        top = round((here.y() + following.y()) / 2)
        painter.fillRect(left, top, right - left, base - top, area)


def draw_marks(
    painter: QPainter, plot: QRect, marks: Sequence[tuple[int, str, QColor]]
) -> list[str]:
    """Dashed lines at ``(x, label, colour)``, each with its word where there is room for it.

    Returns the labels that were written.
    """
    written, free_from = [], plot.left()
    metrics = painter.fontMetrics()
    for x, label, colour in sorted(marks, key=lambda mark: mark[0]):
        painter.setPen(pen(colour, Qt.PenStyle.DashLine))
        painter.drawLine(x, plot.top(), x, plot.bottom())
        painter.fillRect(x - 2, plot.bottom() - 4, 5, 5, colour)
        width = metrics.horizontalAdvance(label)
        left = x + 4 if x + 4 + width <= plot.right() else x - 4 - width
        if left >= free_from:
            painter.drawText(left, plot.top() + metrics.ascent(), label)
            written.append(label)
            free_from = max(left + width, x) + metrics.averageCharWidth()
    return written

"""Live graph: lines on a cached pixmap that scrolls, grid and labels drawn fresh.

Pens are cosmetic and one device pixel wide: at 150 % scaling a wider antialiased pen costs
seconds with noisy data, this one milliseconds. Emphasis comes from the filled area.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from PySide6.QtCore import QEvent, QPointF, QRect, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen, QPixmap, QPolygonF, QShowEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from twinrig.domain.quantities import duration, number
from twinrig.messages import N_, Message
from twinrig.qt.text import Texts
from twinrig.qt.theme import Theme, is_palette_change
from twinrig.qt.widgets.ring import Row, SampleRing, nice_maximum

CAPACITY = 1200
PIXELS_PER_SLOT = 2
SUMMARY_EVERY = 5
BOLD_RATIO = 1.4
FILL_ALPHA = 24
FILLED_SERIES = 2
"""More filled areas than that would only be mud, and slow to paint."""


@dataclass(frozen=True)
class GraphStyle:
    """``name`` and ``unit`` are marked sentences; ``maximum`` None = the scale follows the data."""

    name: str
    unit: str
    maximum: float | None = None


class LineGraph(QWidget):
    """A few series over time, newest at the right. Values beyond the scale are cut at its edge."""

    def __init__(
        self,
        texts: Texts,
        theme: Theme,
        style: GraphStyle,
        labels: Sequence[Message | str] = (),
        interval_s: float = 1.0,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._texts = texts
        self._theme = theme
        self._style = style
        self._labels = tuple(labels)
        self._ring = SampleRing(len(self._labels), CAPACITY, interval_s)
        self._top = style.maximum or 10.0
        self._lines: QPixmap | None = None
        self._frame: QPixmap | None = None
        self._pending_slots = 0
        self._appended = 0
        self.paints = 0
        self.full_redraws = 0
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        # Paints its whole ground itself, so that nothing below is painted again every second.
        self.setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)
        texts.bind(self, QWidget.setAccessibleName, style.name)
        texts.changed.connect(self._retranslated)
        theme.changed.connect(self._invalidate)
        self._retranslated()

    def set_labels(self, labels: Sequence[Message | str]) -> None:
        """Name the series; the history starts afresh when their number changes."""
        if tuple(labels) == self._labels:
            return
        if len(labels) != len(self._labels):
            self._ring = SampleRing(len(labels), CAPACITY, self._ring.interval_s)
        self._labels = tuple(labels)
        self._invalidate()

    def set_interval(self, interval_s: float) -> None:
        """Seconds per slot; another one starts the history afresh."""
        if interval_s != self._ring.interval_s:
            self._ring = SampleRing(len(self._labels), CAPACITY, interval_s)
            self._invalidate()

    def append(self, taken_at_s: float, values: Sequence[float | None]) -> None:
        """Add one reading. Nothing is drawn while the graph is not visible."""
        self._pending_slots += self._ring.append(taken_at_s, values)
        self._appended += 1
        self._rescale()
        if not self.isVisible():
            self._lines = None
            return
        if self._appended % SUMMARY_EVERY == 1:
            self.setAccessibleDescription(self.summary())
        self.update()

    def summary(self) -> str:
        """What the graph shows, in words: for screen readers, and as the tool tip."""
        rows = self._ring.last(CAPACITY)
        parts = [self._summary_of(i, rows) for i in range(len(self._labels))]
        return " ".join(parts) if parts else self._texts.tr(N_("No readings yet."))

    def sizeHint(self) -> QSize:
        metrics = self.fontMetrics()
        return QSize(metrics.averageCharWidth() * 44, metrics.lineSpacing() * 10)

    def minimumSizeHint(self) -> QSize:
        metrics = self.fontMetrics()
        return QSize(metrics.averageCharWidth() * 26, metrics.lineSpacing() * 7)

    def paintEvent(self, _event: QPaintEvent) -> None:
        self.paints += 1
        painter = QPainter(self)
        plot = self._plot()
        painter.drawPixmap(0, 0, self._frame_picture(plot))
        self._paint_legend(painter)
        if plot.width() > 4 and plot.height() > 4:
            self._bring_up_to_date(plot)
            if self._lines is not None:
                painter.drawPixmap(plot.topLeft(), self._lines)

    def changeEvent(self, event: QEvent) -> None:
        if is_palette_change(event) or event.type() == QEvent.Type.FontChange:
            self._invalidate()
        super().changeEvent(event)

    def showEvent(self, event: QShowEvent) -> None:
        self.setAccessibleDescription(self.summary())
        super().showEvent(event)

    # -- drawing -------------------------------------------------------------------------------

    def _plot(self) -> QRect:
        metrics = self.fontMetrics()
        left = metrics.horizontalAdvance(number(self._top)) + metrics.averageCharWidth()
        above = round(metrics.lineSpacing() * 1.6)
        below = round(metrics.lineSpacing() * 1.2)
        return self.rect().adjusted(left, above, -2, -below)

    def _frame_picture(self, plot: QRect) -> QPixmap:
        """Ground, grid and scale: the same for many readings, so drawn once."""
        ratio = self.devicePixelRatioF()
        size = QSize(round(self.width() * ratio), round(self.height() * ratio))
        frame = self._frame
        if frame is None or frame.size() != size or frame.devicePixelRatio() != ratio:
            frame = QPixmap(size)
            frame.setDevicePixelRatio(ratio)
            frame.fill(self._theme.tokens.card)
            painter = QPainter(frame)
            painter.setFont(self.font())
            self._paint_frame(painter, plot)
            painter.end()
            self._frame = frame
        return frame

    def _paint_frame(self, painter: QPainter, plot: QRect) -> None:
        tokens, metrics = self._theme.tokens, self.fontMetrics()
        for share in (0.0, 0.5, 1.0):
            y = plot.bottom() - round(share * plot.height())
            painter.setPen(_pen(tokens.grid))
            painter.drawLine(plot.left(), y, plot.right(), y)
            painter.setPen(tokens.muted)
            box = QRect(0, y - metrics.height() // 2, plot.left() - 4, metrics.height())
            painter.drawText(box, _RIGHT, number(self._top * share))
        below = QRect(plot.left(), plot.bottom() + 2, plot.width(), metrics.lineSpacing())
        seconds = plot.width() / PIXELS_PER_SLOT * self._ring.interval_s
        ago = self._texts.tr(N_("{time} ago"), time=duration(seconds))
        painter.drawText(below, _LEFT, ago)
        painter.drawText(below, _RIGHT, self._texts.tr(N_("now")))

    def _paint_legend(self, painter: QPainter) -> None:
        metrics, tokens = self.fontMetrics(), self._theme.tokens
        newest = self._ring.last(1)
        unit = self._texts.tr(self._style.unit)
        x, mark = 0, metrics.averageCharWidth() * 2
        for index, label in enumerate(self._labels):
            value = newest[0][index] if newest else None
            shown = "—" if value is None else f"{number(value)} {unit}"
            text = f"{self._texts.tr(label)}  {shown}"
            colour = tokens.series[index % len(tokens.series)]
            painter.fillRect(QRect(x, metrics.lineSpacing() // 2 - 1, mark, 3), colour)
            painter.setPen(self.palette().windowText().color())
            painter.drawText(x + mark + 6, metrics.ascent(), text)
            # Room for the widest value, so that the next label does not jump about.
            widest = metrics.horizontalAdvance(f"{self._texts.tr(label)}  8888 {unit}")
            x += mark + 6 + widest + 2 * metrics.averageCharWidth()

    def _bring_up_to_date(self, plot: QRect) -> None:
        ratio = self.devicePixelRatioF()
        size = QSize(round(plot.width() * ratio), round(plot.height() * ratio))
        lines = self._lines
        if lines is None or lines.size() != size or lines.devicePixelRatio() != ratio:
            lines = QPixmap(size)
            lines.fill(Qt.GlobalColor.transparent)
            self._draw_rows(lines, size.width() // _step(ratio) + 2, ratio)
            self.full_redraws += 1
        elif self._pending_slots:
            self._scroll(lines, ratio)
        self._pending_slots = 0
        lines.setDevicePixelRatio(ratio)
        self._lines = lines

    def _scroll(self, lines: QPixmap, ratio: float) -> None:
        lines.setDevicePixelRatio(1.0)
        shift = self._pending_slots * _step(ratio)
        lines.scroll(-shift, 0, lines.rect())
        # The former last point lies 1.5 pixels from the edge and its pen reaches one further.
        fresh = QRect(lines.width() - shift - 3, 0, shift + 3, lines.height())
        painter = QPainter(lines)
        painter.setCompositionMode(QPainter.CompositionMode.CompositionMode_Source)
        painter.fillRect(fresh, Qt.GlobalColor.transparent)
        painter.end()
        self._draw_rows(lines, self._pending_slots + 4, ratio, clip=fresh)

    def _draw_rows(
        self, lines: QPixmap, count: int, ratio: float, clip: QRect | None = None
    ) -> None:
        rows = self._ring.last(count)
        painter = QPainter(lines)
        if clip is not None:
            painter.setClipRect(clip)
        few = len(self._labels) <= FILLED_SERIES
        base, bold = (lines.height() if few else None), few and ratio >= BOLD_RATIO
        for index in range(len(self._labels)):
            colour = self._theme.tokens.series[index % len(self._theme.tokens.series)]
            for run in self._runs(rows, index, lines.size(), _step(ratio)):
                _draw_run(painter, run, colour, base, bold=bold)
        painter.end()

    def _runs(self, rows: list[Row], index: int, size: QSize, step: int) -> list[list[QPointF]]:
        """Connected pieces of one series in device pixels; a gap separates two pieces."""
        runs: list[list[QPointF]] = [[]]
        right, height = size.width() - 1.5, size.height() - 2.0
        scale, last = height / self._top, len(rows) - 1
        for place, row in enumerate(rows):
            value = row[index]
            if value is None:
                if runs[-1]:
                    runs.append([])
                continue
            y = 1.0 + height - min(max(value * scale, 0.0), height)
            runs[-1].append(QPointF(right - (last - place) * step, y))
        return [run for run in runs if run]

    def _rescale(self) -> None:
        if self._style.maximum is not None:
            return
        # Looks at all rows only now and then: the scale may be generous for a while.
        if self._appended % 30 == 0:
            rows = self._ring.last(CAPACITY)
            highest = max((v for row in rows for v in row if v is not None), default=0.0)
        else:
            rows = self._ring.last(1)
            highest = max((v for v in rows[0] if v is not None), default=0.0)
            highest = max(highest * 1.02, self._top if highest <= self._top else highest)
        top = nice_maximum(highest)
        if top != self._top:
            self._top = top
            self._invalidate()

    # -- keeping current -----------------------------------------------------------------------

    def _invalidate(self) -> None:
        self._lines = None
        self._frame = None
        self.update()

    def _retranslated(self) -> None:
        self.setAccessibleDescription(self.summary())
        self._frame = None
        self.update()

    def _summary_of(self, index: int, rows: list[Row]) -> str:
        label = self._texts.tr(self._labels[index])
        known = [row[index] for row in rows if row[index] is not None]
        if not known:
            return self._texts.tr(N_("{name}: no readings."), name=label)
        now = rows[-1][index]
        return self._texts.tr(
            N_("{name}: now {now}, lowest {low}, highest {high} {unit}."),
            name=label,
            now=self._texts.tr(N_("unknown")) if now is None else number(now),
            low=number(min(known)),
            high=number(max(known)),
            unit=self._texts.tr(self._style.unit),
        )


_LEFT = int(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
_RIGHT = int(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)


def _step(ratio: float) -> int:
    return max(1, round(PIXELS_PER_SLOT * ratio))


def _pen(colour: QColor) -> QPen:
    pen = QPen(colour, 1)
    pen.setCosmetic(True)
    return pen


def _draw_run(
    painter: QPainter, run: list[QPointF], colour: QColor, base: int | None, *, bold: bool
) -> None:
    if len(run) == 1:
        painter.setPen(_pen(colour))
        painter.drawPoint(run[0])
        return
    if base is not None:
        _fill_below(painter, run, colour, base)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
    painter.setPen(_pen(colour))
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

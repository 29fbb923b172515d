"""Live graph: lines on a cached pixmap that scrolls; legend, marks and crosshair drawn fresh.

While the readings stand still, several are drawn together: a flat line looks the same scrolled
by one reading or by four, and an idle panel must cost next to nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QDateTime, QEvent, QPointF, QRect, QSize, Qt, Signal
from PySide6.QtGui import (
    QFocusEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPixmap,
    QShowEvent,
)
from PySide6.QtWidgets import QSizePolicy, QWidget

from twinrig.domain.quantities import duration, number
from twinrig.messages import N_, Message
from twinrig.qt.text import Texts
from twinrig.qt.theme import Theme, is_palette_change
from twinrig.qt.widgets.graph_legend import Legend
from twinrig.qt.widgets.graph_paint import (
    PIXELS_PER_SLOT,
    Mark,
    draw_marks,
    draw_run,
    pen,
    step,
)
from twinrig.qt.widgets.ring import Row, SampleRing, nice_maximum

CAPACITY = 1200
SUMMARY_EVERY = 5
BOLD_RATIO = 1.4
CALM_SHARE = 0.03
"""Readings that move by less than this share of the scale since the last paint may wait."""
CALM_SLOTS = 5
FILLED_SERIES = 2
"""More filled areas than that would only be mud, and slow to paint."""


@dataclass(frozen=True)
class GraphStyle:
    """``name`` and ``unit`` are marked sentences; ``maximum`` None = the scale follows the data."""

    name: str
    unit: str
    maximum: float | None = None


class LineGraph(QWidget):
    """A few series over time, newest at the right. Values beyond the scale are cut at its edge.

    The pointer, or the arrow keys, put a crosshair on a reading; ``inspected`` tells its time
    (epoch seconds, -1 = none), so that other graphs can show theirs with ``inspect``.
    """

    inspected = Signal(float)

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
        self._painted_row: Row | None = None
        self._legend_now: Legend | None = None
        self._marks: tuple[Mark, ...] = ()
        self._inspected_s: float | None = None
        self.paints = 0
        self.full_redraws = 0
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        # Paints its whole ground itself, so that nothing below is painted again every second.
        self.setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
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
        if self._pending_slots >= CALM_SLOTS or not self._is_calm():
            self.update()

    def load(self, rows: Sequence[Row], newest_s: float, interval_s: float) -> None:
        """Show these readings instead, oldest first; the last one belongs to ``newest_s``."""
        self._ring = SampleRing(len(self._labels), CAPACITY, interval_s)
        self._ring.fill(rows, newest_s)
        self._appended = 0
        self._rescale()
        self.setAccessibleDescription(self.summary())
        self._invalidate()

    def set_marks(self, marks: Sequence[Mark]) -> None:
        """Events to mark on the time axis."""
        if tuple(marks) != self._marks:
            self._marks = tuple(marks)
            self.update()

    @property
    def slots(self) -> int:
        """How many readings fit in the present width."""
        return max(2, self._plot().width() // PIXELS_PER_SLOT)

    def inspect(self, at_s: float | None) -> None:
        """Put the crosshair on the reading of that time; None takes it away."""
        if at_s != self._inspected_s:
            self._inspected_s = at_s
            self.update()

    def value_text(self) -> str:
        """What the legend says now, in words: the crosshair's reading, else the newest."""
        return self._legend().text(self._shown_row())

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
            self._paint_marks(painter, plot)
            self._paint_crosshair(painter, plot)
        newest = self._ring.last(1)
        self._painted_row = newest[0] if newest else None

    # -- crosshair -----------------------------------------------------------------------------

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        self._point_at(round(event.position().x()))
        super().mouseMoveEvent(event)

    def leaveEvent(self, event: QEvent) -> None:
        self._tell_inspected(None)
        super().leaveEvent(event)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        self._tell_inspected(None)
        super().focusOutEvent(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        moves = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}
        newest_s = self._ring.newest_s
        if event.key() == Qt.Key.Key_Escape and self._inspected_s is not None:
            self._tell_inspected(None)
        elif event.key() in moves and newest_s is not None:
            begin_s = newest_s if self._inspected_s is None else self._inspected_s
            moved_s = begin_s + moves[event.key()] * self._ring.interval_s
            oldest_s = newest_s - (min(self.slots, len(self._ring)) - 1) * self._ring.interval_s
            self._tell_inspected(min(max(moved_s, oldest_s), newest_s))
        else:
            super().keyPressEvent(event)

    def _point_at(self, x: int) -> None:
        plot, newest_s = self._plot(), self._ring.newest_s
        if newest_s is None or not plot.left() <= x <= plot.right():
            self._tell_inspected(None)
            return
        back = round((plot.right() - x) / PIXELS_PER_SLOT)
        back = min(back, len(self._ring) - 1)
        self._tell_inspected(newest_s - back * self._ring.interval_s)

    def _tell_inspected(self, at_s: float | None) -> None:
        if at_s == self._inspected_s:
            return
        self.inspect(at_s)
        if at_s is not None:
            self.setAccessibleDescription(self.value_text())
        self.inspected.emit(-1.0 if at_s is None else at_s)

    def _slots_back(self, at_s: float) -> int | None:
        """How many readings before the newest; None when it is not in sight."""
        newest_s = self._ring.newest_s
        if newest_s is None:
            return None
        back = round((newest_s - at_s) / self._ring.interval_s)
        return back if 0 <= back < self.slots else None

    def _shown_row(self) -> Row | None:
        back = 0 if self._inspected_s is None else self._slots_back(self._inspected_s)
        return None if back is None else self._ring.row(back)

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
            painter.setPen(pen(tokens.grid))
            painter.drawLine(plot.left(), y, plot.right(), y)
            painter.setPen(tokens.muted)
            box = QRect(0, y - metrics.height() // 2, plot.left() - 4, metrics.height())
            painter.drawText(box, _RIGHT, number(self._top * share))
        below = self._below(plot)
        seconds = plot.width() / PIXELS_PER_SLOT * self._ring.interval_s
        ago = self._texts.tr(N_("{time} ago"), time=duration(seconds))
        painter.drawText(below, _LEFT, ago)
        painter.drawText(below, _RIGHT, self._texts.tr(N_("now")))

    def _below(self, plot: QRect) -> QRect:
        return QRect(plot.left(), plot.bottom() + 2, plot.width(), self.fontMetrics().lineSpacing())

    def _paint_legend(self, painter: QPainter) -> None:
        ink = self.palette().windowText().color()
        self._legend().paint(
            painter, self.fontMetrics(), ink, self._theme.tokens, self._shown_row()
        )

    def _legend(self) -> Legend:
        if self._legend_now is None:
            self._legend_now = Legend(self._texts, self._style.unit, self._labels)
        return self._legend_now

    def _paint_marks(self, painter: QPainter, plot: QRect) -> None:
        seen = []
        for mark in self._marks:
            back = self._slots_back(mark.at_s)
            if back is not None:
                x = plot.right() - back * PIXELS_PER_SLOT
                seen.append((x, mark.label, self._theme.tokens.status(mark.tone)))
        if seen:
            draw_marks(painter, plot, seen)

    def _paint_crosshair(self, painter: QPainter, plot: QRect) -> None:
        back = None if self._inspected_s is None else self._slots_back(self._inspected_s)
        row = None if back is None else self._ring.row(back)
        if back is None or row is None or self._inspected_s is None:
            return
        x = plot.right() - back * PIXELS_PER_SLOT
        ink = self.palette().windowText().color()
        painter.setPen(pen(ink))
        painter.drawLine(x, plot.top(), x, plot.bottom())
        tokens = self._theme.tokens
        for index, value in enumerate(row):
            if value is not None:
                share = min(max(value / self._top, 0.0), 1.0)
                y = plot.bottom() - round(share * plot.height())
                painter.fillRect(x - 3, y - 3, 7, 7, tokens.series[index % len(tokens.series)])
        moment = QDateTime.fromSecsSinceEpoch(round(self._inspected_s)).toString("HH:mm:ss")
        below = self._below(plot)
        wide = self.fontMetrics().horizontalAdvance(moment) + 12
        box = QRect(0, below.top(), wide, below.height())
        box.moveCenter(below.center())
        box.moveLeft(min(max(x - wide // 2, plot.left()), plot.right() - wide))
        painter.fillRect(box, tokens.card)
        painter.drawText(box, _CENTRE, moment)

    def _is_calm(self) -> bool:
        """Whether the newest reading looks like the one that was painted last."""
        newest, painted = self._ring.row(0), self._painted_row
        if newest is None or painted is None or len(newest) != len(painted):
            return False
        if self._inspected_s is not None:
            return False
        limit = CALM_SHARE * self._top
        return all(
            (a is None) == (b is None) and (a is None or abs(a - b) <= limit)
            for a, b in zip(newest, painted, strict=True)
        )

    def _bring_up_to_date(self, plot: QRect) -> None:
        ratio = self.devicePixelRatioF()
        size = QSize(round(plot.width() * ratio), round(plot.height() * ratio))
        lines = self._lines
        if lines is None or lines.size() != size or lines.devicePixelRatio() != ratio:
            lines = QPixmap(size)
            # Opaque: copying is far cheaper than blending, and the grid scrolls onto itself.
            lines.fill(self._theme.tokens.card)
            self._draw_grid(lines, lines.rect())
            self._draw_rows(lines, size.width() // step(ratio) + 2, ratio)
            self.full_redraws += 1
        elif self._pending_slots:
            self._scroll(lines, ratio)
        self._pending_slots = 0
        lines.setDevicePixelRatio(ratio)
        self._lines = lines

    def _scroll(self, lines: QPixmap, ratio: float) -> None:
        lines.setDevicePixelRatio(1.0)
        shift = self._pending_slots * step(ratio)
        lines.scroll(-shift, 0, lines.rect())
        # The former last point lies 1.5 pixels from the edge and its pen reaches one further.
        fresh = QRect(lines.width() - shift - 3, 0, shift + 3, lines.height())
        self._draw_grid(lines, fresh)
        self._draw_rows(lines, self._pending_slots + 4, ratio, clip=fresh)

    def _draw_grid(self, lines: QPixmap, area: QRect) -> None:
        tokens = self._theme.tokens
        painter = QPainter(lines)
        painter.fillRect(area, tokens.card)
        for share in (0.0, 0.5):  # the line at the top belongs to the frame
            y = lines.height() - 1 - round(share * lines.height())
            painter.fillRect(area.left(), y, area.width(), 1, tokens.grid)
        painter.end()

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
            for run in self._runs(rows, index, lines.size(), step(ratio)):
                draw_run(painter, run, colour, base, bold=bold)
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
        self._legend_now = None
        self.update()

    def _retranslated(self) -> None:
        self.setAccessibleDescription(self.summary())
        self._frame = None
        self._legend_now = None
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
_CENTRE = int(Qt.AlignmentFlag.AlignCenter)

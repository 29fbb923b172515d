"""Stacked bars of the cards' memory, with a legend; each part explains itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QBrush, QColor, QHelpEvent, QPainter, QPaintEvent, QPen, QResizeEvent
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from twinrig.domain.memory import GpuPlan, PartKind
from twinrig.domain.wording import PART_WORDS
from twinrig.messages import N_, Message
from twinrig.qt.viewmodels.sizing import gib, segments

if TYPE_CHECKING:
    from twinrig.qt.pages.base import PageContext

_SERIES = {
    PartKind.WEIGHTS: 0,
    PartKind.KV: 2,
    PartKind.STATE: 3,
    PartKind.DRAFTER: 4,
    PartKind.ACTIVATIONS: 1,
    PartKind.RUNTIME: 4,
    PartKind.GRAPHS: 5,
}
_HATCHED = {PartKind.RESERVED, PartKind.DRAFTER}
_GAP = 6


class MemoryBars(QWidget):
    """One bar a card, drawn to the scale of the largest; what is too much sticks out in red."""

    def __init__(self, context: PageContext, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._context = context
        self._gpus: tuple[GpuPlan, ...] = ()
        self._needed: int | None = None
        self._hit: list[tuple[QRectF, Message | str, dict[str, object]]] = []
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        context.texts.bind(self, QWidget.setAccessibleName, N_("Memory of the cards"))
        context.texts.changed.connect(self._describe)
        context.theme.changed.connect(self.update)

    def show_gpus(self, gpus: tuple[GpuPlan, ...], needed_bytes: int | None = None) -> None:
        """Draw other plans. Of the cache ``needed_bytes`` are for one conversation, the rest is
        drawn lighter: it is there for more of them."""
        if gpus == self._gpus and needed_bytes == self._needed:
            return
        self._needed = needed_bytes
        rows_changed = len(gpus) != len(self._gpus)
        self._gpus = gpus
        self._describe()
        if rows_changed:
            self.updateGeometry()
        self._fit()
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(480, self._height(self.width() or 480))

    def minimumSizeHint(self) -> QSize:
        return QSize(240, self._height(self.width() or 480))

    def resizeEvent(self, event: QResizeEvent) -> None:
        self._fit()
        super().resizeEvent(event)

    def _fit(self) -> None:
        height = self._height(self.width())
        if height != self.minimumHeight():
            self.setFixedHeight(height)

    def _line(self) -> int:
        return self.fontMetrics().height()

    def _height(self, width: int) -> int:
        if not self._gpus:
            return 0
        bars = len(self._gpus) * (2 * self._line() + _GAP)
        return bars + self._legend_rows(width) * (self._line() + 3) + _GAP

    def _kinds(self) -> list[PartKind]:
        shown = {kind for gpu in self._gpus for kind, _, _ in segments(gpu)}
        return [kind for kind in PartKind if kind in shown]

    def _legend_items(self) -> list[tuple[PartKind, str]]:
        found = []
        for kind in self._kinds():
            most = max(gpu.size(kind) for gpu in self._gpus)
            word = self._context.texts.tr(PART_WORDS[kind])
            found.append((kind, f"{word} {gib(most)}"))
        return found

    def _legend_rows(self, width: int) -> int:
        rows, x = 1, 0
        for _, text in self._legend_items():
            need = self._legend_width(text)
            if x and x + need > width:
                rows, x = rows + 1, 0
            x += need
        return rows

    def _legend_width(self, text: str) -> int:
        return self._line() + 4 + self.fontMetrics().horizontalAdvance(text) + 14

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        self._hit = []
        top = 0.0
        scale = max((g.total_bytes + g.over_bytes for g in self._gpus), default=1) or 1
        for gpu in self._gpus:
            self._paint_gpu(painter, gpu, top, scale)
            top += 2 * self._line() + _GAP
        self._paint_legend(painter, top + 2)
        if self.hasFocus():
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.setPen(QPen(self.palette().highlight().color(), 1))
            painter.drawRect(QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5))
        painter.end()

    def _title(self, gpu: GpuPlan) -> str:
        return self._context.texts.tr(
            N_("GPU {index} {name}: {used} of {total} GiB"),
            index=gpu.index,
            name=gpu.name,
            used=gib(gpu.used_bytes + gpu.size(PartKind.RESERVED)),
            total=gib(gpu.total_bytes),
        )

    def _paint_gpu(self, painter: QPainter, gpu: GpuPlan, top: float, scale: float) -> None:
        line, tokens = self._line(), self._context.theme.tokens
        painter.setPen(self.palette().windowText().color())
        painter.drawText(QPointF(0, top + self.fontMetrics().ascent()), self._title(gpu))
        bar = QRectF(0, top + line + 1, self.width() - 1, line - 2)
        unit = bar.width() / scale
        whole = QRectF(bar.x(), bar.y(), gpu.total_bytes * unit, bar.height())
        painter.fillRect(whole, tokens.card)
        x = bar.x()
        for kind, size, text in segments(gpu):
            box = QRectF(x, bar.y(), size * unit, bar.height())
            if kind is PartKind.KV:
                self._paint_cache(painter, gpu, box, unit)
            elif kind is not PartKind.HEADROOM:
                painter.fillRect(box, self._brush(kind))
            self._hit.append((box, text, {"kind": kind, "size": size}))
            x += size * unit
        if gpu.over_bytes:
            beyond = QRectF(whole.right(), bar.y(), max(3.0, x - whole.right()), bar.height())
            painter.fillRect(beyond, QBrush(tokens.fail, Qt.BrushStyle.Dense3Pattern))
        pen = QPen(tokens.fail if gpu.over_bytes else tokens.border, 1)
        pen.setCosmetic(True)
        painter.setPen(pen)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawRect(whole)

    def _paint_cache(self, painter: QPainter, gpu: GpuPlan, box: QRectF, unit: float) -> None:
        brush = self._brush(PartKind.KV)
        painter.fillRect(box, QBrush(brush.color(), Qt.BrushStyle.Dense5Pattern))
        needed = gpu.size(PartKind.KV)
        if self._needed is not None:
            needed = min(needed, max(0, self._needed - gpu.size(PartKind.STATE)))
        painter.fillRect(QRectF(box.x(), box.y(), needed * unit, box.height()), brush)

    def _brush(self, kind: PartKind) -> QBrush:
        tokens = self._context.theme.tokens
        number = _SERIES.get(kind)
        colour: QColor = tokens.muted if number is None else tokens.series[number]
        style = Qt.BrushStyle.BDiagPattern if kind in _HATCHED else Qt.BrushStyle.SolidPattern
        return QBrush(colour, style)

    def _paint_legend(self, painter: QPainter, top: float) -> None:
        line, x, y = self._line(), 0, top
        for kind, text in self._legend_items():
            need = self._legend_width(text)
            if x and x + need > self.width():
                x, y = 0, y + line + 3
            box = QRectF(x + 1, y + 3, line - 6, line - 6)
            if kind is not PartKind.HEADROOM:
                painter.fillRect(box, self._brush(kind))
            painter.setPen(QPen(self._context.theme.tokens.border, 1))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRect(box)
            painter.setPen(self.palette().windowText().color())
            painter.drawText(QPointF(x + line, y + self.fontMetrics().ascent()), text)
            x += need

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            text = self.explain(QPointF(event.pos()))
            if text:
                QToolTip.showText(event.globalPos(), text, self)
            else:
                QToolTip.hideText()
            return True
        return super().event(event)

    def explain(self, where: QPointF) -> str:
        """Sentence of the part at a place, "" where there is none."""
        for box, text, values in self._hit:
            if box.contains(where):
                return self._sentence(values["kind"], int(str(values["size"])), text)
        return ""

    def _sentence(self, kind: object, size: int, text: Message | str) -> str:
        tr = self._context.texts.tr
        word = tr(PART_WORDS[PartKind(kind)])
        return tr(N_("{part}: {size} GiB. {reason}"), part=word, size=gib(size), reason=tr(text))

    def _describe(self) -> None:
        """All of it in words, for screen readers."""
        lines = []
        for gpu in self._gpus:
            lines.append(self._title(gpu))
            lines.extend(self._sentence(kind, size, text) for kind, size, text in segments(gpu))
        self.setAccessibleDescription("\n".join(lines))
        self._fit()
        self.update()

"""Figures of a benchmark as a table; the speed of each line is drawn as a bar behind it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QRectF, Qt
from PySide6.QtGui import QPainter, QStandardItem, QStandardItemModel
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHeaderView,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableView,
    QWidget,
)

from twinrig.messages import N_
from twinrig.qt.viewmodels.bench import COLUMNS, SPEED_COLUMN, TableRow

if TYPE_CHECKING:
    from twinrig.qt.pages.base import PageContext

_ROW = Qt.ItemDataRole.UserRole + 1
_BAR_ALPHA = 70
SHOWN_ROWS = 16


class SpeedTable(QTableView):
    """Read only; every cell can be reached by keyboard and copied."""

    def __init__(self, context: PageContext, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._context = context
        self._rows: tuple[TableRow, ...] = ()
        self._model = QStandardItemModel(0, len(COLUMNS), self)
        self.setModel(self._model)
        self.setItemDelegateForColumn(SPEED_COLUMN, _BarDelegate(self))
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setTabKeyNavigation(False)
        self.setShowGrid(False)
        self.setAlternatingRowColors(True)
        self.setWordWrap(False)
        self.verticalHeader().hide()
        self.verticalHeader().setDefaultSectionSize(round(self.fontMetrics().lineSpacing() * 1.5))
        head = self.horizontalHeader()
        head.setDefaultAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
        head.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        head.setStretchLastSection(True)
        context.texts.bind(self, QWidget.setAccessibleName, N_("Measured speeds"))
        context.texts.changed.connect(self._render)
        context.theme.changed.connect(self.viewport().update)
        self._render()

    @property
    def context(self) -> PageContext:
        """For the delegate."""
        return self._context

    def show_rows(self, rows: Sequence[TableRow]) -> None:
        """Other figures."""
        self._rows = tuple(rows)
        self._render()
        lines = min(len(self._rows), SHOWN_ROWS) + 2
        self.setMinimumHeight(self.verticalHeader().defaultSectionSize() * lines)

    def _render(self) -> None:
        tr = self._context.texts.tr
        self._model.setHorizontalHeaderLabels([tr(name) for name in COLUMNS])
        self._model.setRowCount(len(self._rows))
        for y, line in enumerate(self._rows):
            for x, cell in enumerate(line.cells):
                item = QStandardItem(tr(cell) if cell else "")
                item.setData(line, _ROW)
                self._model.setItem(y, x, item)


class _BarDelegate(QStyledItemDelegate):
    def paint(
        self,
        painter: QPainter,
        option: QStyleOptionViewItem,
        index: QModelIndex | QPersistentModelIndex,
    ) -> None:
        table = self.parent()
        line = index.data(_ROW)
        if isinstance(table, SpeedTable) and isinstance(line, TableRow) and line.share is not None:
            series = table.context.theme.tokens.series
            colour = series[line.series % len(series)]
            colour = type(colour)(colour)
            colour.setAlpha(_BAR_ALPHA)
            box = QRectF(option.rect).adjusted(1, 2, -1, -2)
            box.setWidth(max(2.0, box.width() * line.share))
            painter.fillRect(box, colour)
        super().paint(painter, option, index)

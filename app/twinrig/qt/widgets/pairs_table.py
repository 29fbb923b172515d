"""A small table of names and values that can be typed into, with Add and Remove."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QAbstractItemView,
    QApplication,
    QGroupBox,
    QHeaderView,
    QTableWidget,
    QTableWidgetItem,
    QVBoxLayout,
    QWidget,
)

from twinrig.messages import N_, Message
from twinrig.qt.widgets.option_field import FaultLabel
from twinrig.qt.widgets.parts import Button, Label, row

if TYPE_CHECKING:
    from twinrig.qt.pages.base import PageContext


class PairsTable(QGroupBox):
    """Two or three columns; the third, if any, is read-only. ``edited`` fires on every change."""

    edited = Signal()

    def __init__(
        self, context: PageContext, title: str, hint: str, columns: tuple[str, ...]
    ) -> None:
        super().__init__()
        self._context = context
        self._columns = columns
        self._filling = False
        bind = context.texts.bind
        bind(self, QGroupBox.setTitle, title)
        bind(self, QWidget.setAccessibleName, title)
        self.table = QTableWidget(0, len(columns))
        bind(self.table, QWidget.setAccessibleName, title)
        self.table.setTabKeyNavigation(False)
        self.table.verticalHeader().hide()
        self.table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        header = self.table.horizontalHeader()
        header.setSectionResizeMode(QHeaderView.ResizeMode.Stretch)
        self.table.itemChanged.connect(self._changed)
        self.table.itemSelectionChanged.connect(self._offer)
        self.faults = FaultLabel(context)
        self._add = Button(context, N_("Add a line"), self.add, icon="add")
        self._remove = Button(context, N_("Remove the line"), self.remove, icon="delete")
        layout = QVBoxLayout(self)
        layout.addWidget(Label(context, hint, tone="muted"))
        layout.addWidget(self.table)
        layout.addWidget(self.faults)
        layout.addLayout(row(self._add, self._remove, None))
        context.texts.changed.connect(self._headers)
        self._headers()
        self._resize()
        self._offer()

    def fill(self, rows: Sequence[Sequence[str]]) -> None:
        """Show these lines."""
        self._filling = True
        self.table.setRowCount(0)
        for cells in rows:
            self._append(cells)
        self._filling = False
        self._resize()
        self._offer()

    def rows(self) -> list[tuple[str, ...]]:
        """All lines as typed."""
        return [
            tuple(self._cell(r, c) for c in range(len(self._columns)))
            for r in range(self.table.rowCount())
        ]

    def add(self) -> None:
        """A new empty line, ready to type the name."""
        self._filling = True
        self._append([""] * len(self._columns))
        self._filling = False
        self._resize()
        number = self.table.rowCount() - 1
        self.table.setCurrentCell(number, 0)
        self.table.editItem(self.table.item(number, 0))

    def remove(self) -> None:
        """The selected line goes."""
        number = self.table.currentRow()
        if number >= 0:
            self.table.removeRow(number)
            self._resize()
            self._offer()
            self.edited.emit()

    def commit(self) -> None:
        """Take over what is being typed, as before saving by keyboard."""
        focus = QApplication.focusWidget()
        if focus is not None and focus is not self.table and self.table.isAncestorOf(focus):
            self.table.setFocus()

    def show_faults(self, faults: dict[str, Sequence[Message]]) -> None:
        """Faults by name, each line saying which."""
        shown = [
            Message(N_("{name}: {fault}"), {"name": name or "—", "fault": fault})
            for name, found in faults.items()
            for fault in found
        ]
        self.faults.show_faults(shown)

    def _append(self, cells: Sequence[str]) -> None:
        number = self.table.rowCount()
        self.table.insertRow(number)
        for column, text in enumerate(cells):
            item = QTableWidgetItem(text)
            if column >= 2:
                item.setFlags(item.flags() & ~Qt.ItemFlag.ItemIsEditable)
                item.setToolTip(text)
            self.table.setItem(number, column, item)

    def _cell(self, number: int, column: int) -> str:
        item = self.table.item(number, column)
        return "" if item is None else item.text()

    def _changed(self) -> None:
        if not self._filling:
            self.edited.emit()

    def _headers(self) -> None:
        self.table.setHorizontalHeaderLabels([self._context.texts.tr(c) for c in self._columns])

    def _offer(self) -> None:
        self._remove.setEnabled(self.table.currentRow() >= 0)

    def _resize(self) -> None:
        """As tall as its lines, so that the page scrolls and not the table."""
        lines = max(1, min(12, self.table.rowCount()))
        height = self.table.verticalHeader().defaultSectionSize() * lines
        height += self.table.horizontalHeader().sizeHint().height() + 2 * self.table.frameWidth()
        self.table.setFixedHeight(height)

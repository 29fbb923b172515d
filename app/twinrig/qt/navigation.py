"""The list of pages at the left: icons and words, by pointer, arrows and number keys."""

from __future__ import annotations

from PySide6.QtCore import QModelIndex, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QKeySequence, QPainter, QPalette, QPen, QShortcut
from PySide6.QtWidgets import (
    QFrame,
    QListWidget,
    QListWidgetItem,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QWidget,
)

from twinrig.messages import N_
from twinrig.qt.icons import Icons
from twinrig.qt.text import Texts
from twinrig.qt.theme import Theme


class _Row(QStyledItemDelegate):
    """Draws the current page as a quiet rounded tint with a mark, the same in every style."""

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: QModelIndex) -> None:
        box = QRectF(option.rect).adjusted(1.5, 0.5, -1.5, -0.5)
        accent = option.palette.color(QPalette.ColorGroup.Active, QPalette.ColorRole.Link)
        selected = bool(option.state & QStyle.StateFlag.State_Selected)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if selected or option.state & QStyle.StateFlag.State_MouseOver:
            tint = QColor(accent)
            tint.setAlpha(44 if selected else 20)
            focused = selected and bool(option.state & QStyle.StateFlag.State_HasFocus)
            painter.setPen(QPen(accent, 1) if focused else Qt.PenStyle.NoPen)
            painter.setBrush(tint)
            painter.drawRoundedRect(box, 5, 5)
        if selected:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(accent)
            painter.drawRoundedRect(
                QRectF(box.left(), box.top() + 6, 3, box.height() - 12), 1.5, 1.5
            )
        painter.restore()
        side = option.decorationSize.width()
        left = round(box.left()) + side // 2
        icon_top = round(box.center().y() - side / 2)
        index.data(Qt.ItemDataRole.DecorationRole).paint(painter, left, icon_top, side, side)
        words = box.adjusted(left + side * 1.4 - box.left(), 0, -4, 0)
        painter.setPen(option.palette.color(QPalette.ColorGroup.Active, QPalette.ColorRole.Text))
        painter.drawText(words, int(Qt.AlignmentFlag.AlignVCenter), index.data())


class Navigation(QListWidget):
    """``chosen(page_id)`` when the user picks a page."""

    chosen = Signal(str)

    def __init__(
        self, texts: Texts, theme: Theme, icons: Icons, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._texts = texts
        self._icons = icons
        self._titles: list[tuple[str, str, str]] = []
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAsNeeded)
        self.setUniformItemSizes(True)
        self.setItemDelegate(_Row(self))
        self.setMouseTracking(True)
        # The list belongs to the window, not to the pages: no field colour behind it.
        self.viewport().setAutoFillBackground(False)
        self.setSpacing(2)
        height = self.fontMetrics().height()
        self.setIconSize(QSize(round(height * 1.25), round(height * 1.25)))
        texts.bind(self, QWidget.setAccessibleName, N_("Pages"))
        texts.changed.connect(self._relabel)
        theme.changed.connect(self._relabel)
        self.currentRowChanged.connect(self._row_changed)
        self._fit()

    def set_pages(self, pages: list[tuple[str, str, str]]) -> None:
        """Rows of (page id, title as a marked sentence, icon name)."""
        self._titles = pages
        self.clear()
        for _ in pages:
            self.addItem(QListWidgetItem())
        self._relabel()
        for row in range(len(pages)):
            for keys in (f"{row + 1}", f"Ctrl+{row + 1}"):
                shortcut = QShortcut(QKeySequence(keys), self.window())
                shortcut.activated.connect(lambda r=row: self._go_to(r))

    def show_page(self, page_id: str) -> None:
        """Mark a page as the current one."""
        for row, (each, _, _) in enumerate(self._titles):
            if each == page_id:
                self.setCurrentRow(row)

    def set_listed(self, page_id: str, listed: bool) -> None:
        """Show the row of a page, or leave it out; the page can be shown all the same."""
        for row, (each, _, _) in enumerate(self._titles):
            if each == page_id:
                self.setRowHidden(row, not listed)

    def step(self, by: int) -> None:
        """To the next listed row, or to the one before."""
        for distance in range(1, self.count() + 1):
            row = (self.currentRow() + by * distance) % self.count()
            if not self.isRowHidden(row):
                self.setCurrentRow(row)
                return

    def _go_to(self, row: int) -> None:
        if not self.isRowHidden(row):
            self.setCurrentRow(row)

    def _row_changed(self, row: int) -> None:
        if 0 <= row < len(self._titles):
            self.chosen.emit(self._titles[row][0])

    def _relabel(self) -> None:
        for row, (_, title, icon) in enumerate(self._titles):
            item, text = self.item(row), self._texts.tr(title)
            item.setText(text)
            item.setToolTip(f"{text} (Ctrl+{row + 1})")
            item.setIcon(self._icons.icon(icon))
            item.setSizeHint(QSize(0, round(self.fontMetrics().height() * 2.2)))
        self._fit()

    def _fit(self) -> None:
        metrics = self.fontMetrics()
        words = [metrics.horizontalAdvance(self._texts.tr(title)) for _, title, _ in self._titles]
        widest = max([*words, metrics.averageCharWidth() * 12])
        self.setFixedWidth(widest + self.iconSize().width() + metrics.averageCharWidth() * 6)

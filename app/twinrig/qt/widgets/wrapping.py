"""A row that goes on in the next line where it is too wide: no page has to scroll sideways."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QRect, QSize, Qt
from PySide6.QtWidgets import QLayout, QLayoutItem, QSpacerItem, QWidget, QWidgetItem


@dataclass(frozen=True)
class _Place:
    """An item, and how much of the room that is left it takes."""

    item: QLayoutItem
    stretch: int


class WrapRow(QLayout):
    """As a horizontal box, with lines: an item that does not fit begins the next one.

    In each line the items with a stretch share what is left.
    """

    def __init__(self, spacing: int = -1) -> None:
        super().__init__()
        self._places: list[_Place] = []
        self._heights: dict[int, int] = {}
        self.setContentsMargins(0, 0, 0, 0)
        if spacing >= 0:
            self.setSpacing(spacing)

    def add(self, widget: QWidget, stretch: int = 0) -> None:
        """One more widget at the end."""
        self.addChildWidget(widget)
        self._places.append(_Place(QWidgetItem(widget), stretch))
        self.invalidate()

    def add_stretch(self) -> None:
        """Empty room that pushes apart what stands before and after it."""
        self._places.append(_Place(QSpacerItem(0, 0), 1))
        self.invalidate()

    # -- what Qt asks of a layout ----------------------------------------------------------------

    def addItem(self, item: QLayoutItem) -> None:
        self._places.append(_Place(item, 0))

    def count(self) -> int:
        return len(self._places)

    def itemAt(self, index: int) -> QLayoutItem | None:
        return self._places[index].item if 0 <= index < len(self._places) else None

    def takeAt(self, index: int) -> QLayoutItem | None:
        return self._places.pop(index).item if 0 <= index < len(self._places) else None

    def expandingDirections(self) -> Qt.Orientation:
        return Qt.Orientation.Horizontal

    def invalidate(self) -> None:
        self._heights.clear()
        super().invalidate()

    def sizeHint(self) -> QSize:
        items = [place.item for place in self._seen()]
        gaps = self.spacing() * max(0, self._gaps() - 1)
        tall = max((item.sizeHint().height() for item in items), default=0)
        return QSize(sum(_width(item) for item in items) + gaps, tall)

    def minimumSize(self) -> QSize:
        sizes = [place.item.minimumSize() for place in self._seen()]
        return QSize(
            max((size.width() for size in sizes), default=0),
            max((size.height() for size in sizes), default=0),
        )

    def hasHeightForWidth(self) -> bool:
        return True

    def heightForWidth(self, width: int) -> int:
        if width not in self._heights:
            self._heights[width] = self._lay_out(QRect(0, 0, width, 0), place_them=False)
        return self._heights[width]

    def setGeometry(self, rect: QRect) -> None:
        super().setGeometry(rect)
        self._lay_out(rect, place_them=True)

    # -- inside ----------------------------------------------------------------------------------

    def _seen(self) -> list[_Place]:
        return [p for p in self._places if p.item.widget() is None or not p.item.isEmpty()]

    def _gaps(self) -> int:
        return sum(place.item.widget() is not None for place in self._seen())

    def _lines(self, width: int) -> list[list[_Place]]:
        lines: list[list[_Place]] = [[]]
        used = 0
        for place in self._seen():
            wide = _width(place.item)
            if place.item.widget() is not None and used and used + self.spacing() + wide > width:
                lines.append([])
                used = 0
            lines[-1].append(place)
            if place.item.widget() is not None:
                used += wide + (self.spacing() if used else 0)
        return [line for line in lines if any(p.item.widget() is not None for p in line)]

    def _widths(self, line: list[_Place], width: int) -> list[int]:
        """Of each item of a line; what is left goes to those with a stretch."""
        widths = [min(_width(place.item), width) for place in line]
        gaps = sum(place.item.widget() is not None for place in line) - 1
        left = max(0, width - sum(widths) - gaps * self.spacing())
        shares = sum(place.stretch for place in line)
        for number, place in enumerate(line):
            if place.stretch:
                part = left * place.stretch // shares
                widths[number] += part
                left, shares = left - part, shares - place.stretch
        return widths

    def _lay_out(self, rect: QRect, *, place_them: bool) -> int:
        """Height of all lines; with ``place_them`` the items go to their places."""
        lines = self._lines(rect.width())
        tall = []
        for line in lines:
            widths = self._widths(line, rect.width())
            heights = [_height(p.item, w) for p, w in zip(line, widths, strict=True)]
            tall.append((widths, heights, max(heights, default=0)))
        needed = sum(height for _, _, height in tall) + self.spacing() * max(0, len(lines) - 1)
        if place_them:
            spare = max(0, rect.height() - needed) // max(1, len(lines))
            self._place(rect, lines, tall, spare)
        return needed

    def _place(
        self,
        rect: QRect,
        lines: list[list[_Place]],
        tall: list[tuple[list[int], list[int], int]],
        spare: int,
    ) -> None:
        top = rect.top()
        for line, (widths, heights, height) in zip(lines, tall, strict=True):
            left = rect.left()
            for place, width, own in zip(line, widths, heights, strict=True):
                if place.item.widget() is None:
                    left += width
                    continue
                grows = place.item.expandingDirections() & Qt.Orientation.Vertical
                full = height + spare if grows or place.stretch else min(own, height + spare)
                place.item.setGeometry(QRect(left, top + (height + spare - full) // 2, width, full))
                left += width + self.spacing()
            top += height + spare + self.spacing()


def _width(item: QLayoutItem) -> int:
    """What it likes to have; one that likes anything has a least width all the same."""
    return max(item.sizeHint().width(), item.minimumSize().width())


def _height(item: QLayoutItem, width: int) -> int:
    return item.heightForWidth(width) if item.hasHeightForWidth() else item.sizeHint().height()


def wrap_row(*items: QWidget | None, stretch: QWidget | None = None, spacing: int = -1) -> WrapRow:
    """A row of widgets; None pushes apart, ``stretch`` takes what is left."""
    row = WrapRow(spacing)
    for item in items:
        if item is None:
            row.add_stretch()
        else:
            row.add(item, int(item is stretch))
    return row

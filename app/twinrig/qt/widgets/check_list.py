"""The table of checks: their section, status with icon and word, the check, what was found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QObject, Qt

from twinrig.domain.checks import Status
from twinrig.messages import N_
from twinrig.qt.viewmodels.preflight import CheckRow, PreflightModel, RowState

if TYPE_CHECKING:
    from twinrig.qt.pages.base import PageContext

HEADERS = (N_("Status"), N_("Check"), N_("What was found"), N_("Section"))
TONES = {
    Status.PASS: "ok",
    Status.WARN: "warn",
    Status.FAIL: "fail",
    Status.SKIP: "muted",
    Status.ERROR: "muted",
}
ICONS = {
    Status.PASS: "ok",
    Status.WARN: "warn",
    Status.FAIL: "fail",
    Status.SKIP: "muted",
    Status.ERROR: "question",
}
_ROLE = Qt.ItemDataRole


def row_tone(row: CheckRow) -> str:
    """Semantic colour of a row."""
    if row.state is RowState.DONE and row.result is not None:
        return TONES[row.result.status]
    return "busy" if row.state is RowState.RUNNING else "muted"


def row_icon(row: CheckRow) -> str:
    """Icon name of a row."""
    if row.state is RowState.DONE and row.result is not None:
        return ICONS[row.result.status]
    return "busy" if row.state is RowState.RUNNING else "muted"


class CheckTable(QAbstractTableModel):
    """Draws the rows of a PreflightModel; only changed rows are announced."""

    STATUS, TITLE, SUMMARY, AREA = range(4)
    _TEXT_ROLES: ClassVar = (_ROLE.DisplayRole, _ROLE.ToolTipRole)

    def __init__(
        self, model: PreflightModel, context: PageContext, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._model = model
        self._context = context
        self._known = len(model.rows)
        self._hidden: frozenset[int] = frozenset()

    def hide(self, rows: frozenset[int]) -> None:
        """Rows that the view does not show: the next one of a section bears its title then."""
        if rows != self._hidden:
            self._hidden = rows
            last = self.index(self._known - 1, self.AREA)
            self.dataChanged.emit(self.index(0, self.AREA), last)

    def rowCount(self, parent: QModelIndex | None = None) -> int:
        return 0 if parent is not None and parent.isValid() else self._known

    def columnCount(self, parent: QModelIndex | None = None) -> int:
        return 0 if parent is not None and parent.isValid() else len(HEADERS)

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = 0) -> object:
        if role == _ROLE.DisplayRole and orientation is Qt.Orientation.Horizontal:
            return self._context.texts.tr(HEADERS[section])
        return None

    def data(self, index: QModelIndex, role: int = 0) -> object:
        row = self._model.rows[index.row()]
        if index.column() == self.AREA:
            return self._area(index.row()) if role == _ROLE.DisplayRole else None
        if role in self._TEXT_ROLES:
            return self._text(row, index.column())
        if index.column() == self.STATUS and role == _ROLE.DecorationRole:
            colour = self._context.theme.tokens.status(row_tone(row))
            return self._context.icons.icon(row_icon(row), colour)
        if role == _ROLE.AccessibleTextRole:
            return ": ".join(self._text(row, c) for c in (self.TITLE, self.STATUS, self.SUMMARY))
        return None

    def _area(self, number: int) -> str:
        """The section's title, beside the first of its rows that is shown."""
        area = self._model.rows[number].area
        for before in range(number - 1, -1, -1):
            if before not in self._hidden:
                shown = self._model.rows[before].area != area
                return self._context.texts.tr(area) if shown else ""
        return self._context.texts.tr(area)

    def _text(self, row: CheckRow, column: int) -> str:
        tr = self._context.texts.tr
        if column == self.STATUS:
            return tr(row.word)
        if column == self.TITLE:
            return tr(row.title)
        return tr(row.result.summary) if row.result is not None else ""

    def changed(self, rows: Sequence[int]) -> None:
        """Announce these rows; rows that are new are inserted."""
        count = len(self._model.rows)
        if count > self._known:
            self.beginInsertRows(QModelIndex(), self._known, count - 1)
            self._known = count
            self.endInsertRows()
        for row in rows:
            self.dataChanged.emit(self.index(row, 0), self.index(row, len(HEADERS) - 1))

    def all_changed(self) -> None:
        """Language or theme changed: same rows, other texts and icons."""
        self.changed(range(len(self._model.rows)))
        self.headerDataChanged.emit(Qt.Orientation.Horizontal, 0, len(HEADERS) - 1)

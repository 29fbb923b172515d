"""The list of profiles, with name and one line of detail each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QAbstractListModel, QModelIndex, QObject, Qt

from twinrig.messages import N_
from twinrig.qt.viewmodels.profiles import ProfileRow

if TYPE_CHECKING:
    from twinrig.qt.pages.base import PageContext

_ROLE = Qt.ItemDataRole


class ProfileListModel(QAbstractListModel):
    """Rows are replaced only when the folder of profiles changed."""

    def __init__(self, context: PageContext, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._context = context
        self.rows: tuple[ProfileRow, ...] = ()
        self._active = ""

    def rowCount(self, parent: QModelIndex | None = None) -> int:
        return 0 if parent is not None and parent.isValid() else len(self.rows)

    def data(self, index: QModelIndex, role: int = 0) -> object:
        row = self.rows[index.row()]
        if role == _ROLE.DisplayRole:
            return f"{row.name}\n{self._detail(row)}"
        if role == _ROLE.AccessibleTextRole:
            return f"{row.name}: {self._detail(row)}"
        if role == _ROLE.ToolTipRole:
            return self._tip(row)
        if role == _ROLE.DecorationRole:
            name, tone = self._icon(row)
            return self._context.icons.icon(name, self._context.theme.tokens.status(tone))
        return None

    def _detail(self, row: ProfileRow) -> str:
        tr = self._context.texts.tr
        detail = tr(row.detail) if row.detail is not None else ""
        return tr(N_("Running · {detail}"), detail=detail) if row.id == self._active else detail

    def _tip(self, row: ProfileRow) -> str:
        tr = self._context.texts.tr
        if row.problem is not None:
            return tr(row.problem)
        return row.profile.model.path if row.profile is not None else ""

    def _icon(self, row: ProfileRow) -> tuple[str, str]:
        if row.profile is None:
            return "warn", "warn"
        return ("play", "ok") if row.id == self._active else ("server", "muted")

    def set_rows(self, rows: tuple[ProfileRow, ...]) -> bool:
        """Replace the rows; False when nothing changed."""
        if rows == self.rows:
            return False
        self.beginResetModel()
        self.rows = rows
        self.endResetModel()
        return True

    def set_active(self, profile_id: str) -> None:
        """Mark the profile whose server is at work."""
        if profile_id == self._active:
            return
        touched = {self._active, profile_id}
        self._active = profile_id
        for number, row in enumerate(self.rows):
            if row.id in touched:
                self.dataChanged.emit(self.index(number), self.index(number))

    def all_changed(self) -> None:
        """Language or theme changed."""
        if self.rows:
            self.dataChanged.emit(self.index(0), self.index(len(self.rows) - 1))

    def position(self, profile_id: str) -> QModelIndex:
        """Index of a profile; invalid when it is not listed."""
        for number, row in enumerate(self.rows):
            if row.id == profile_id:
                return self.index(number)
        return QModelIndex()

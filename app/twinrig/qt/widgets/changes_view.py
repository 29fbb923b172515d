"""All changes Twinrig made to this machine and its profiles, each with Undo."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QObject, Qt, Signal
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHeaderView,
    QPlainTextEdit,
    QSplitter,
    QTreeView,
    QVBoxLayout,
    QWidget,
)

from twinrig.messages import N_, Message, Translator, message
from twinrig.qt.viewmodels.changes import ChangeRow, read_changes, undo_text, when_text
from twinrig.qt.widgets.interrupted_bar import InterruptedBar
from twinrig.qt.widgets.parts import Button, Label, Notice, mono_font
from twinrig.qt.widgets.wrapping import wrap_row

if TYPE_CHECKING:
    from twinrig.domain.errors import TwinrigError
    from twinrig.qt.pages.base import PageContext
    from twinrig.services.journal import JournalEntry

HEADERS = (N_("When"), N_("What was changed"), N_("Now"))


class ChangesModel(QAbstractTableModel):
    """Rows of the journal, newest first."""

    def __init__(self, context: PageContext, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._context = context
        self.rows: tuple[ChangeRow, ...] = ()

    def rowCount(self, parent: QModelIndex | None = None) -> int:
        return 0 if parent is not None and parent.isValid() else len(self.rows)

    def columnCount(self, parent: QModelIndex | None = None) -> int:
        return 0 if parent is not None and parent.isValid() else len(HEADERS)

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = 0) -> object:
        if role == Qt.ItemDataRole.DisplayRole and orientation is Qt.Orientation.Horizontal:
            return self._context.texts.tr(HEADERS[section])
        return None

    def data(self, index: QModelIndex, role: int = 0) -> object:
        if role not in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.ToolTipRole):
            return None
        change = self.rows[index.row()]
        tr = self._context.texts.tr
        cells = (when_text(change.entry.at_s), tr(change.entry.title), tr(change.word))
        return cells[index.column()]

    def set_rows(self, rows: tuple[ChangeRow, ...]) -> None:
        """Replace the rows, if they differ."""
        if rows != self.rows:
            self.beginResetModel()
            self.rows = rows
            self.endResetModel()

    def all_changed(self) -> None:
        """Another language."""
        if self.rows:
            self.dataChanged.emit(self.index(0, 0), self.index(len(self.rows) - 1, 2))
        self.headerDataChanged.emit(Qt.Orientation.Horizontal, 0, len(HEADERS) - 1)


class ChangesView(QWidget):
    """``changed`` fires after something was taken back."""

    changed = Signal()

    def __init__(self, context: PageContext, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._context = context
        self._busy = False
        self.model = ChangesModel(context, self)
        self._notice = Notice(context)
        self._problem = Notice(context)
        self._empty = Label(
            context,
            N_("Nothing was changed yet. Every fix is listed here, with Undo."),
            tone="muted",
        )
        self.view = QTreeView()
        self.view.setModel(self.model)
        self.view.setRootIsDecorated(False)
        self.view.setAllColumnsShowFocus(True)
        self.view.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        header = self.view.header()
        header.setStretchLastSection(False)
        for column, mode in enumerate(
            (
                QHeaderView.ResizeMode.ResizeToContents,
                QHeaderView.ResizeMode.Stretch,
                QHeaderView.ResizeMode.ResizeToContents,
            )
        ):
            header.setSectionResizeMode(column, mode)
        context.texts.bind(self.view, QWidget.setAccessibleName, N_("Changes"))
        self.view.selectionModel().currentRowChanged.connect(lambda _a, _b: self._render())
        self.preview = QPlainTextEdit()
        self.preview.setReadOnly(True)
        self.preview.setTabChangesFocus(True)
        self.preview.setFont(mono_font(self.preview))
        context.texts.bind(self.preview, QWidget.setAccessibleName, N_("What Undo takes back"))
        self._undo = Button(context, N_("Undo"), self.undo, icon="undo")
        self._undo_all = Button(
            context,
            N_("Undo all"),
            self.undo_all,
            tip=N_("Take back every change that fixes made, newest first"),
        )
        self._interrupted = InterruptedBar(context)
        self._interrupted.changed.connect(self.reload)
        self._interrupted.changed.connect(self.changed)
        self._layout_parts()
        self._render()

    def _layout_parts(self) -> None:
        splitter = QSplitter(Qt.Orientation.Vertical)
        splitter.addWidget(self.view)
        splitter.addWidget(self.preview)
        splitter.setChildrenCollapsible(False)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self._interrupted)
        layout.addWidget(self._problem)
        layout.addWidget(self._notice)
        layout.addWidget(self._empty)
        layout.addWidget(splitter, 1)
        layout.addLayout(wrap_row(None, self._undo_all, self._undo))
        self._splitter = splitter

    def reload(self) -> None:
        """Read the journal again."""
        self._interrupted.reload()
        work = read_changes(self._context.workbench.journal)
        self._context.bridge.submit(work, self, self._got, self._notice.tell_error)

    def undo(self) -> None:
        """Take the selected change back, exactly as shown."""
        change = self._current()
        if change is None or not change.can_undo or self._busy:
            return
        self._busy = True
        self._render()
        work = self._context.workbench.fixer.undo(change.entry.id)
        self._context.bridge.submit(work, self, self._undone, self._failed)

    def undo_all(self) -> None:
        """Ask first: everything is taken back, newest first."""
        count = sum(change.can_undo for change in self.model.rows)
        if self._busy or not count:
            return
        text = message(
            "Take back all {count} changes? Files and profiles become as before.", count=count
        )
        actions = ((N_("Take all back"), self._undo_everything),)
        self._notice.tell(text, tone="warn", actions=actions)

    def _undo_everything(self) -> None:
        self._busy = True
        self._notice.hide()
        self._render()
        work = self._context.workbench.fixer.undo_all()
        self._context.bridge.submit(work, self, self._all_undone, self._failed)

    def _all_undone(self, found: tuple[tuple[JournalEntry, TwinrigError | None], ...]) -> None:
        self._busy = False
        errors = [error for _, error in found if error is not None]
        if errors:
            self._notice.tell_error(errors[0])
        else:
            self._notice.tell(N_("Taken back: everything is as it was before."), tone="ok")
        self.reload()
        self.changed.emit()

    def retranslate(self) -> None:
        """Texts that are not bound."""
        self.model.all_changed()
        self._render()

    def _current(self) -> ChangeRow | None:
        index = self.view.currentIndex()
        return self.model.rows[index.row()] if index.isValid() else None

    def _got(self, found: tuple[tuple[ChangeRow, ...], Message | None]) -> None:
        rows, problem = found
        chosen = self._current()
        self.model.set_rows(rows)
        if problem is None:
            self._problem.hide()
        else:
            self._problem.tell(problem, tone="warn", closable=False)
        for number, change in enumerate(rows):
            if chosen is not None and change.entry.id == chosen.entry.id:
                self.view.setCurrentIndex(self.model.index(number, 0))
        if rows and not self.view.currentIndex().isValid():
            self.view.setCurrentIndex(self.model.index(0, 0))
        self._render()

    def _undone(self, _entry: object) -> None:
        self._busy = False
        self._notice.tell(N_("Taken back: everything is as it was before."), tone="ok")
        self.reload()
        self.changed.emit()

    def _failed(self, error: Exception) -> None:
        self._busy = False
        self._notice.tell_error(error)
        self.reload()

    def _render(self) -> None:
        change = self._current()
        self._empty.setVisible(not self.model.rows)
        self._splitter.setVisible(bool(self.model.rows))
        self._undo.setVisible(bool(self.model.rows))
        self._undo_all.setVisible(bool(self.model.rows))
        left = any(change.can_undo for change in self.model.rows)
        self._undo_all.setEnabled(left and not self._busy)
        self._undo.setEnabled(change is not None and change.can_undo and not self._busy)
        translator = Translator(self._context.texts.language)
        text = "" if change is None else undo_text(change.entry, translator)
        if text != self.preview.toPlainText():
            self.preview.setPlainText(text)

"""The live log: follows the end, or stands still to be read, searched and copied."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QColor, QKeySequence, QPalette, QShortcut, QTextCursor, QTextDocument
from PySide6.QtWidgets import (
    QApplication,
    QCheckBox,
    QLineEdit,
    QPlainTextEdit,
    QTextEdit,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from twinrig.messages import N_
from twinrig.qt.viewmodels.log import MAX_LINES, LogUpdate
from twinrig.qt.widgets.parts import Button, Label, mono_font
from twinrig.qt.widgets.wrapping import wrap_row

if TYPE_CHECKING:
    from twinrig.qt.pages.base import PageContext

REBUILD_ABOVE = 150
"""Batches larger than this are shown by setting the whole text anew: removing 1,000 old blocks
one by one takes 45 ms, setting 5,000 lines 11 ms (measured)."""


class LogView(QWidget):
    """Shows the newest lines. While "Follow" is off the text stands still; new lines wait.

    ``save_requested`` asks the page to save the whole file.
    """

    save_requested = Signal()

    def __init__(self, context: PageContext, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._context = context
        self._lines: deque[str] = deque(maxlen=MAX_LINES)
        self._last_no = 0
        self._shown_last_no = 0
        self._waiting = False
        self._moving = False
        self._mark_no: int | None = None
        self._decisive: tuple[int, ...] = ()
        self.text = QPlainTextEdit()
        self._build_text()
        self.follow = QCheckBox()
        self.follow.setChecked(True)
        self.follow.toggled.connect(self._follow_toggled)
        bind = context.texts.bind
        bind(self.follow, QCheckBox.setText, N_("Follow the end"))
        bind(self.follow, QWidget.setAccessibleName, N_("Follow the end"))
        bind(self.follow, QWidget.setToolTip, N_("Off: the text stands still while you read"))
        self._search = QLineEdit()
        self._search.setClearButtonEnabled(True)
        bind(self._search, QLineEdit.setPlaceholderText, N_("Find in the log (Ctrl+F)"))
        bind(self._search, QWidget.setAccessibleName, N_("Find in the log"))
        self._search.textChanged.connect(self._highlight)
        self._search.returnPressed.connect(lambda: self.find(backwards=False))
        self._note = Label(context, tone="muted")
        self._build_layout()

    def _build_text(self) -> None:
        self.text.setReadOnly(True)
        self.text.setUndoRedoEnabled(False)
        self.text.setMaximumBlockCount(MAX_LINES)
        self.text.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self.text.setTabChangesFocus(True)
        self.text.setFont(mono_font(self.text))
        self.text.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse
            | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        self._context.texts.bind(self.text, QWidget.setAccessibleName, N_("Log of the server"))
        self._context.texts.bind(
            self.text, QPlainTextEdit.setPlaceholderText, N_("The server has not written anything.")
        )
        self.text.verticalScrollBar().valueChanged.connect(self._scrolled)

    def _build_layout(self) -> None:
        context = self._context
        previous = self._arrow("↑", N_("Previous match"), backwards=True)
        following = self._arrow("↓", N_("Next match"), backwards=False)
        copy = Button(
            context,
            N_("Copy"),
            self.copy,
            icon="copy",
            tip=N_("Copy the selection, or all that is shown"),
        )
        save = Button(context, N_("Save as…"), self.save_requested.emit, icon="save")
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        tools = (self._search, previous, following, self.follow, copy, save)
        layout.addLayout(wrap_row(*tools, stretch=self._search))
        layout.addWidget(self.text, 1)
        layout.addWidget(self._note)
        self._note.hide()
        self._shortcut("Ctrl+F", self.focus_search)
        self._shortcut("F3", lambda: self.find(backwards=False))
        self._shortcut("Shift+F3", lambda: self.find(backwards=True))

    def _arrow(self, sign: str, text: str, *, backwards: bool) -> QToolButton:
        button = QToolButton()
        button.setText(sign)
        button.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self._context.texts.bind(button, QWidget.setAccessibleName, text)
        self._context.texts.bind(button, QWidget.setToolTip, text)
        button.clicked.connect(lambda: self.find(backwards=backwards))
        return button

    def _shortcut(self, keys: str, action: Callable[[], object]) -> None:
        shortcut = QShortcut(QKeySequence(keys), self)
        shortcut.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
        shortcut.activated.connect(action)

    @property
    def first_no(self) -> int:
        """1-based file line number of the first block that is shown."""
        return self._shown_last_no - self.text.blockCount() + 1

    def clear(self) -> None:
        """Forget everything, as for another profile."""
        self._lines.clear()
        self._last_no = self._shown_last_no = 0
        self._waiting, self._mark_no = False, None
        self.text.clear()
        self.text.setExtraSelections([])
        self._tell_waiting()

    def apply(self, update: LogUpdate) -> None:
        """Take new lines; at most ten times a second is meant."""
        behind = self._waiting or self._shown_last_no != self._last_no
        if update.fresh:
            self._lines.clear()
        elif self._lines:
            self._lines.pop()
        replaces = bool(self._lines) or not update.fresh
        self._lines.extend(update.lines)
        self._last_no = update.last_no
        if not self.follow.isChecked():
            self._waiting = True
        elif update.fresh or behind or len(update.lines) > REBUILD_ABOVE or not replaces:
            self._show_all()
        else:
            self._append(update)
        self._tell_waiting()

    def show_excerpt(self, update: LogUpdate, line_no: int) -> None:
        """Stand still on lines read elsewhere in the file, with ``line_no`` marked."""
        self.follow.setChecked(False)
        self._waiting = True
        self._set_text(update.lines, update.last_no)
        self.jump(line_no)
        self._tell_waiting()

    def has_line(self, line_no: int, expected: str = "") -> bool:
        """Whether the line is shown, and reads as expected."""
        if not self.first_no <= line_no <= self._shown_last_no:
            return False
        text = self.text.document().findBlockByNumber(line_no - self.first_no).text()
        return not expected or expected.strip()[:200] in text

    def jump(self, line_no: int) -> None:
        """Stop following and mark the line."""
        self.follow.setChecked(False)
        block = self.text.document().findBlockByNumber(line_no - self.first_no)
        if block.isValid():
            self._moving = True
            self.text.setTextCursor(QTextCursor(block))
            self.text.centerCursor()
            self._moving = False
            self._mark_no = line_no
            self._highlight()
            self.text.setFocus()

    def jump_to_text(self, wanted: str) -> bool:
        """Mark the last line that reads so; False when none is shown."""
        plain = wanted.strip()[:200]
        if not plain:
            return False
        end = QTextCursor(self.text.document())
        end.movePosition(QTextCursor.MoveOperation.End)
        found = self.text.document().find(plain, end, QTextDocument.FindFlag.FindBackward)
        if found.isNull():
            return False
        self.jump(self.first_no + found.blockNumber())
        return True

    def mark_decisive(self, line_nos: tuple[int, ...]) -> None:
        """Shade the lines that tell a cause, wherever they are shown."""
        if line_nos != self._decisive:
            self._decisive = line_nos
            self._highlight()

    def focus_search(self) -> None:
        """Ctrl+F."""
        self._search.setFocus()
        self._search.selectAll()

    def find(self, *, backwards: bool) -> bool:
        """Go to the next match, around the end if need be; stops following."""
        wanted = self._search.text()
        if not wanted:
            self.focus_search()
            return False
        self.follow.setChecked(False)
        flags = QTextDocument.FindFlag.FindBackward if backwards else QTextDocument.FindFlag(0)
        self._moving = True
        found = self.text.find(wanted, flags)
        if not found:
            start = QTextCursor.MoveOperation.End if backwards else QTextCursor.MoveOperation.Start
            before = self.text.textCursor()
            self.text.moveCursor(start)
            found = self.text.find(wanted, flags)
            if not found:
                self.text.setTextCursor(before)
        self._moving = False
        self._note.setVisible(not found or self._waiting)
        if not found:
            self._note.show_text(N_("Not found in the lines shown here."))
        return found

    def copy(self) -> None:
        """The selection, else everything shown."""
        chosen = self.text.textCursor().selectedText().replace("\u2029", "\n")
        QApplication.clipboard().setText(chosen or self.text.toPlainText())

    def _append(self, update: LogUpdate) -> None:
        self._moving = True
        cursor = QTextCursor(self.text.document())
        cursor.movePosition(QTextCursor.MoveOperation.End)
        cursor.movePosition(QTextCursor.MoveOperation.StartOfBlock, QTextCursor.MoveMode.KeepAnchor)
        cursor.insertText("\n".join(update.lines))
        came = any(self._shown_last_no <= no <= update.last_no for no in self._decisive)
        self._shown_last_no = update.last_no
        if came:
            self._highlight()
        self._to_end()
        self._moving = False

    def _show_all(self) -> None:
        self._waiting = False
        self._set_text(self._lines, self._last_no)
        self._moving = True
        self._to_end()
        self._moving = False

    def _set_text(self, lines: object, last_no: int) -> None:
        self._moving = True
        self.text.setPlainText("\n".join(lines))
        self._shown_last_no = last_no
        self._moving = False
        if self._decisive:
            self._highlight()

    def _to_end(self) -> None:
        bar = self.text.verticalScrollBar()
        bar.setValue(bar.maximum())

    def _scrolled(self, value: int) -> None:
        if self._moving or not self.text.isVisible():
            return
        at_end = value >= self.text.verticalScrollBar().maximum()
        if not at_end and self.follow.isChecked():
            self.follow.setChecked(False)

    def _follow_toggled(self, follow: bool) -> None:
        if follow:
            self._mark_no = None
            self._show_all()
            self._highlight()
        self._tell_waiting()

    def _tell_waiting(self) -> None:
        count = max(0, self._last_no - self._shown_last_no)
        if self._waiting and count:
            self._note.show_text(N_("New lines below: {count}"), count=count)
        self._note.setVisible(self._waiting and bool(count))

    def _highlight(self) -> None:
        marks = []
        document = self.text.document()
        for number in self._decisive:
            if self.first_no <= number <= self._shown_last_no and number != self._mark_no:
                block = document.findBlockByNumber(number - self.first_no)
                marks.append(
                    self._mark(QTextCursor(block), self._context.theme.tokens.fail, full=True)
                )
        if self._mark_no is not None:
            block = self.text.document().findBlockByNumber(self._mark_no - self.first_no)
            marks.append(self._mark(QTextCursor(block), self._context.theme.tokens.warn, full=True))
        wanted = self._search.text()
        cursor = QTextCursor(self.text.document())
        while wanted and len(marks) < 200:
            cursor = self.text.document().find(wanted, cursor)
            if cursor.isNull():
                break
            colour = self.text.palette().color(QPalette.ColorRole.Highlight)
            marks.append(self._mark(QTextCursor(cursor), colour, full=False))
        self.text.setExtraSelections(marks)

    def _mark(self, cursor: QTextCursor, colour: QColor, *, full: bool) -> QTextEdit.ExtraSelection:
        mark = QTextEdit.ExtraSelection()
        mark.cursor = cursor
        shade = QColor(colour)
        shade.setAlphaF(0.3)
        mark.format.setBackground(shade)
        if full:
            mark.format.setProperty(mark.format.Property.FullWidthSelection, True)
        return mark

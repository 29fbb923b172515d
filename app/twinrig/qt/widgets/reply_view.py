"""Shows a reply: Markdown that loads nothing, and very long texts without stalling the window."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from PySide6.QtCore import QEvent, QSize, Qt, QTimer, QUrl, Signal
from PySide6.QtGui import (
    QFontMetrics,
    QImage,
    QResizeEvent,
    QTextCursor,
    QTextDocument,
    QTextOption,
    QTextTable,
    QWheelEvent,
)
from PySide6.QtWidgets import (
    QFrame,
    QPlainTextEdit,
    QSizePolicy,
    QStackedLayout,
    QTextBrowser,
    QWidget,
)

from twinrig.qt.viewmodels.markdown import LIVE_RENDERED, MAX_PLAIN, MAX_RENDERED, harmless

LONG_LINES = 24
LIVE_PAUSE_MS = 300
_MAX_PARAGRAPH = 2000


class HarmlessBrowser(QTextBrowser):
    """Loads nothing at all, opens nothing by itself, and is as high as its text."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setOpenLinks(False)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAsNeeded)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setTabChangesFocus(True)
        self.document().setDocumentMargin(0)
        self.viewport().setAutoFillBackground(False)
        option = QTextOption()
        option.setTextDirection(Qt.LayoutDirection.LayoutDirectionAuto)
        option.setWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
        self.document().setDefaultTextOption(option)
        self.document().documentLayout().documentSizeChanged.connect(self._fit)

    def loadResource(self, kind: int, name: QUrl) -> Any:
        """Pictures, style sheets and files: never, neither from the net nor from the disk."""
        return QImage() if kind == QTextDocument.ResourceType.ImageResource.value else ""

    def _fit(self, *_: object) -> None:
        bar = self.horizontalScrollBar()
        extra = bar.sizeHint().height() if bar.maximum() > 0 else 0
        height = round(self.document().size().height()) + extra + 2
        if height != self.height():
            self.setFixedHeight(max(height, self.fontMetrics().lineSpacing()))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def wheelEvent(self, event: QWheelEvent) -> None:
        """The conversation scrolls, not the reply."""
        event.ignore()


class LongText(QPlainTextEdit):
    """Plain text of any length with a scroll bar of its own."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setReadOnly(True)
        self.setTabChangesFocus(True)
        self.setUndoRedoEnabled(False)
        self.setLineWrapMode(QPlainTextEdit.LineWrapMode.WidgetWidth)
        self.setFixedHeight(QFontMetrics(self.font()).lineSpacing() * LONG_LINES)

    def add(self, text: str) -> None:
        """At the end; the view follows as long as the end is what is looked at. A paragraph
        without an end is broken at a space: layout time grows with its length."""
        bar = self.verticalScrollBar()
        at_end = bar.value() >= bar.maximum() - 1
        cursor = QTextCursor(self.document())
        cursor.movePosition(QTextCursor.MoveOperation.End)
        for piece in broken(text, self.document().lastBlock().length()):
            cursor.insertText(piece)
        if at_end:
            bar.setValue(bar.maximum())


class ReplyView(QWidget):
    """One text that grows. ``link_clicked`` carries an address; nothing follows it by itself."""

    link_clicked = Signal(str)

    def __init__(self, name: Callable[[QWidget], object], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._length = 0
        self._texts: list[str] = []
        self._done = False
        self._stack = QStackedLayout(self)
        self._stack.setContentsMargins(0, 0, 0, 0)
        self._browser = HarmlessBrowser(self)
        self._browser.anchorClicked.connect(lambda url: self.link_clicked.emit(url.toString()))
        self._long: LongText | None = None
        self._name = name
        name(self._browser)
        self._stack.addWidget(self._browser)
        self._live = QTimer(self)
        self._live.setSingleShot(True)
        self._live.setInterval(LIVE_PAUSE_MS)
        self._live.timeout.connect(self._render)
        self._browser.document().documentLayout().documentSizeChanged.connect(self._fit)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    @property
    def text(self) -> str:
        """Everything, as it came."""
        self._texts[:] = ["".join(self._texts)]
        return self._texts[0]

    @property
    def is_long(self) -> bool:
        """Whether it is shown plain, in a box of its own."""
        return self._long is not None

    def show_text(self, text: str) -> None:
        """Another text in the place of the present one; not finished."""
        self._texts, self._length, self._done = [], 0, False
        if self._long is not None:
            self._stack.removeWidget(self._long)
            self._long.deleteLater()
            self._long = None
            self._stack.setCurrentWidget(self._browser)
        self._browser.clear()
        self.add(text)

    def add(self, text: str) -> None:
        """More of it: appended, never laid out anew beyond a short reply."""
        if not text:
            return
        self._texts.append(text)
        self._length += len(text)
        if self._long is not None:
            self._long.add(text)
        elif self._length > MAX_PLAIN:
            self._become_long()
        elif self._length <= LIVE_RENDERED:
            if not self._live.isActive():
                self._live.start()
        else:
            self._append_plain(text)

    def finish(self) -> None:
        """Nothing more comes: lay Markdown out properly, unless the text is too long for it."""
        self._done = True
        self._live.stop()
        self._render()

    def document(self) -> QTextDocument:
        """What is shown."""
        return self._long.document() if self._long is not None else self._browser.document()

    def _append_plain(self, text: str) -> None:
        if self._live.isActive():
            self._live.stop()
            self._browser.setPlainText(self.text)
            return
        cursor = QTextCursor(self._browser.document())
        cursor.movePosition(QTextCursor.MoveOperation.End)
        for piece in broken(text, self._browser.document().lastBlock().length()):
            cursor.insertText(piece)

    def _render(self) -> None:
        limit = MAX_RENDERED if self._done else LIVE_RENDERED
        if self._long is None and self._length <= limit:
            features = QTextDocument.MarkdownFeature
            self._browser.document().setMarkdown(
                harmless(self.text),
                features.MarkdownDialectGitHub | features.MarkdownNoHTML,
            )
            _tidy_tables(self._browser.document())
            self._fit()

    def _become_long(self) -> None:
        self._live.stop()
        self._long = LongText(self)
        self._name(self._long)
        self._stack.addWidget(self._long)
        self._stack.setCurrentWidget(self._long)
        self._long.add(self.text)
        self._browser.clear()
        self._fit()

    def _fit(self, *_: object) -> None:
        self.setFixedHeight(self.sizeHint().height())

    def sizeHint(self) -> QSize:
        inner = self._long if self._long is not None else self._browser
        return QSize(inner.sizeHint().width(), inner.height())

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.LayoutRequest:
            self._fit()
        return super().event(event)

    def changeEvent(self, event: QEvent) -> None:
        """Links keep the colour that they were laid out with."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange and self._done:
            self._live.start()


def _tidy_tables(document: QTextDocument) -> None:
    """Qt begins the first cell of a Markdown table with an empty line."""
    for frame in document.rootFrame().childFrames():
        if isinstance(frame, QTextTable):
            cell = frame.cellAt(0, 0)
            first, last = cell.firstCursorPosition(), cell.lastCursorPosition()
            if first.block() != last.block() and not first.block().text():
                first.deleteChar()


def broken(text: str, before: int) -> list[str]:
    """``text`` with a line break wherever a paragraph gets far too long; ``before`` characters
    of it stand there already."""
    pieces = []
    for index, line in enumerate(text.split("\n")):
        room = max(_MAX_PARAGRAPH - before, 0) if index == 0 else _MAX_PARAGRAPH
        if index:
            pieces.append("\n")
        while len(line) > room:
            cut = line.rfind(" ", 0, room) + 1 or room
            pieces += [line[:cut], "\n"] if cut else ["\n"]
            line, room = line[cut:], _MAX_PARAGRAPH
        pieces.append(line)
    return ["".join(pieces)]

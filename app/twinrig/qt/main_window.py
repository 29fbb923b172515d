"""The window: navigation, pages (built when first seen) and the status strip."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QCloseEvent, QHideEvent, QKeySequence, QShortcut, QShowEvent
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QMainWindow,
    QScrollArea,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from twinrig.qt.settings import PanelSettings
from twinrig.qt.text import Texts
from twinrig.qt.welcome import WelcomePane

if TYPE_CHECKING:
    from twinrig.qt.navigation import Navigation
    from twinrig.qt.pages.base import Page, PageContext
    from twinrig.qt.status_strip import StatusStrip


class MainWindow(QMainWindow):
    """``on_close`` decides what closing means: it returns True when the window may close.

    ``visibility_changed`` tells whether anything of the window can be seen.
    """

    visibility_changed = Signal(bool)

    def __init__(self, texts: Texts, settings: PanelSettings) -> None:
        super().__init__()
        self._settings = settings
        self._types: dict[str, type[Page]] = {}
        self._areas: dict[str, QScrollArea] = {}
        self._context: PageContext | None = None
        self._seen = False
        self._part = ""
        self.on_close: Callable[[], bool] = lambda: True
        self.pages: dict[str, Page] = {}
        self._unlisted: set[str] = set()
        self.current_id = ""
        self.navigation: Navigation | None = None
        self.strip: StatusStrip | None = None
        self.welcome = WelcomePane(texts, self)
        self._stack = QStackedWidget(self)
        self._stack.addWidget(self.welcome)
        self.setWindowTitle("Twinrig")
        self.setCentralWidget(self._stack)
        self._restore_geometry()

    def set_pages(
        self,
        types: tuple[type[Page], ...],
        context: PageContext,
        navigation: Navigation,
        strip: StatusStrip,
    ) -> None:
        """Offer the pages; the first one is shown. A page is built when it is first seen.

        Who only has the tray icon pays for no page.
        """
        self._context = context
        self.navigation, self.strip = navigation, strip
        self._lay_out(navigation, strip)
        for each in types:
            self._types[each.page_id] = each
            area = QScrollArea(self)
            area.setWidgetResizable(True)
            area.setFrameShape(QFrame.Shape.NoFrame)
            area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
            self._areas[each.page_id] = area
            self._stack.addWidget(area)
        self._add_shortcuts()
        navigation.chosen.connect(self._show_page)
        navigation.set_pages([(t.page_id, t.title, t.icon) for t in types])
        self.navigate(types[0].page_id)

    def _lay_out(self, navigation: Navigation, strip: StatusStrip) -> None:
        centre = QWidget(self)
        columns = QHBoxLayout()
        columns.setContentsMargins(6, 6, 6, 0)
        columns.setSpacing(6)
        columns.addWidget(navigation)
        columns.addWidget(self._stack, 1)
        rows = QVBoxLayout(centre)
        rows.setContentsMargins(0, 0, 0, 0)
        rows.setSpacing(0)
        rows.addLayout(columns, 1)
        rows.addWidget(strip)
        self.takeCentralWidget()
        self.setCentralWidget(centre)

    def navigate(self, place: str) -> None:
        """Show a page ("server") or a part of it ("server/log")."""
        page_id, _, part = place.partition("/")
        if self.navigation is not None:
            self.navigation.show_page(page_id)
        if page_id in self.pages:
            self._part = ""
            if part:
                self.pages[page_id].reveal(part)
        elif page_id in self._types:
            self._part = part

    def set_listed(self, page_id: str, listed: bool) -> None:
        """Whether the navigation shows a page; the current one stays until another is shown."""
        self._unlisted.discard(page_id)
        if not listed:
            self._unlisted.add(page_id)
        if self.navigation is not None and (listed or page_id != self.current_id):
            self.navigation.set_listed(page_id, listed)

    @property
    def page_ids(self) -> tuple[str, ...]:
        """All pages, in the order of the navigation."""
        return tuple(self._types)

    @property
    def current_page(self) -> Page | None:
        return self.pages.get(self.current_id)

    def bring_up(self) -> None:
        """Show the window above the others, wherever it was."""
        self.setWindowState(
            (self.windowState() & ~Qt.WindowState.WindowMinimized) | Qt.WindowState.WindowActive
        )
        self.show()
        self.raise_()
        self.activateWindow()

    def remember_geometry(self) -> None:
        self._settings.set_blob("window", self.saveGeometry())

    def _restore_geometry(self) -> None:
        metrics = self.fontMetrics()
        self.setMinimumSize(metrics.averageCharWidth() * 106, metrics.lineSpacing() * 24)
        blob = self._settings.blob("window")
        if blob.isEmpty() or not self.restoreGeometry(blob):
            room = self.screen().availableSize()
            width = min(metrics.averageCharWidth() * 160, round(room.width() * 0.92))
            height = min(metrics.lineSpacing() * 46, round(room.height() * 0.92))
            self.resize(width, height)

    def _add_shortcuts(self) -> None:
        actions = {
            "F5": self._refresh,
            "Ctrl+,": lambda: self.navigate("settings"),
            "Ctrl+L": lambda: self.navigate("server/log"),
            "Ctrl+Tab": lambda: self._step(1),
            "Ctrl+Shift+Tab": lambda: self._step(-1),
        }
        for keys, action in actions.items():
            QShortcut(QKeySequence(keys), self).activated.connect(action)

    def _step(self, by: int) -> None:
        if self.navigation is not None:
            self.navigation.step(by)

    def _refresh(self) -> None:
        if self.current_page is not None:
            self.current_page.refresh()

    def _show_page(self, page_id: str) -> None:
        if self._context is None or page_id == self.current_id:
            return
        leaving = self.current_page
        left, self.current_id = self.current_id, page_id
        if self.navigation is not None:
            self.navigation.set_listed(page_id, True)
            if left in self._unlisted:
                self.navigation.set_listed(left, False)
        if self._seen:
            self._build(page_id)
        self._stack.setCurrentWidget(self._areas[page_id])
        if leaving is not None:
            leaving.on_hidden()
        if self._seen:
            self.pages[page_id].on_shown()

    def _build(self, page_id: str) -> None:
        if self._context is None or page_id not in self._types or page_id in self.pages:
            return
        area = self._areas[page_id]
        page = self._types[page_id](self._context, area)
        self.pages[page_id] = page
        area.setWidget(page)
        page.setAutoFillBackground(False)
        area.viewport().setAutoFillBackground(False)

    # -- being seen ----------------------------------------------------------------------------

    def closeEvent(self, event: QCloseEvent) -> None:
        self.remember_geometry()
        if self.on_close():
            event.accept()
        else:
            event.ignore()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._tell_visibility()

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self._tell_visibility()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.WindowStateChange:
            self._tell_visibility()

    def _tell_visibility(self) -> None:
        seen = self.isVisible() and not self.isMinimized()
        if seen == self._seen:
            return
        self._seen = seen
        if seen:
            self._build(self.current_id)
        page = self.current_page
        if page is not None:
            page.on_shown() if seen else page.on_hidden()
            if self._part:
                page.reveal(self._part)
                self._part = ""
        self.visibility_changed.emit(seen)

"""Try: chat with the server, measure and compare profiles, connect other programs."""

from __future__ import annotations

from PySide6.QtWidgets import QTabWidget, QVBoxLayout, QWidget

from twinrig.messages import N_
from twinrig.qt.pages.base import Page, PageContext
from twinrig.qt.widgets.bench_pane import BenchPane
from twinrig.qt.widgets.chat_pane import ChatPane
from twinrig.qt.widgets.clients_pane import ClientsPane

TABS = {"chat": 0, "measure": 1, "connect": 2}


class TryPage(Page):
    """Three tabs; ``reveal`` knows them as "chat", "measure" and "connect"."""

    page_id = "try"
    title = N_("Try")
    icon = "try"

    def __init__(self, context: PageContext, parent: QWidget | None = None) -> None:
        super().__init__(context, parent)
        self.chat = ChatPane(context, parent=self)
        self.bench = BenchPane(context, parent=self)
        self.clients = ClientsPane(context, parent=self)
        self._tabs = QTabWidget(self)
        self._tabs.setDocumentMode(True)
        for pane in (self.chat, self.bench, self.clients):
            self._tabs.addTab(_padded(pane), "")
        context.texts.bind(self._tabs.tabBar(), QWidget.setAccessibleName, N_("Parts of this page"))
        layout = QVBoxLayout(self)
        layout.addWidget(self._tabs)
        if context.live.latest is not None:
            self.chat.take_snapshot(context.live.latest)
            self.clients.take_snapshot(context.live.latest)
        self.retranslate()

    def retranslate(self) -> None:
        """Names of the tabs."""
        names = (N_("Chat"), N_("Measure and compare"), N_("Connect a client"))
        for index, name in enumerate(names):
            self._tabs.setTabText(index, self.tr(name))

    def on_shown(self) -> None:
        """Profiles may have changed meanwhile."""
        self.bench.refresh()
        if self._tabs.currentIndex() == TABS["chat"]:
            self.chat.focus_input()

    def refresh(self) -> None:
        """F5."""
        self.bench.refresh()

    def reveal(self, part: str) -> None:
        """A tab by name."""
        if part in TABS:
            self._tabs.setCurrentIndex(TABS[part])


def _padded(pane: QWidget) -> QWidget:
    box = QWidget()
    layout = QVBoxLayout(box)
    layout.addWidget(pane)
    return box

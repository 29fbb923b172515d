"""Server: the profiles, and the server of the selected one: start, stop, watch it load, its log."""

from __future__ import annotations

from typing import ClassVar

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QSplitter, QStackedWidget, QVBoxLayout, QWidget

from twinrig.messages import N_
from twinrig.qt.pages.base import Page, PageContext
from twinrig.qt.viewmodels.profiles import ProfileRow
from twinrig.qt.widgets.changes_view import ChangesView
from twinrig.qt.widgets.dialogs import Dialogs, QtDialogs
from twinrig.qt.widgets.parts import Button, Label, ToneIcon, row
from twinrig.qt.widgets.profile_panel import ProfilePanel
from twinrig.qt.widgets.server_pane import ServerPane


class ServerPage(Page):
    """Attaches to the server when shown, lets go when hidden; the server never notices."""

    page_id = "server"
    title = N_("Server")
    icon = "server"
    EMPTY, SERVER, BROKEN = range(3)
    _SPLIT: ClassVar = (2, 5)

    def __init__(
        self,
        context: PageContext,
        parent: QWidget | None = None,
        *,
        dialogs: Dialogs | None = None,
    ) -> None:
        super().__init__(context, parent)
        self._dialogs = dialogs or QtDialogs()
        self._attached = False
        self._wanted_part = ""
        self.panel = ProfilePanel(context, self._dialogs)
        self.panel.chosen.connect(self._chosen)
        self.panel.edit_requested.connect(self._edit)
        self.pane = ServerPane(context, self._dialogs)
        self.pane.active_changed.connect(self.panel.set_active)
        self.changes = ChangesView(context)
        self.pane.add_tab(self.changes)
        self.pane.machine_changed.connect(self.refresh)
        self.changes.changed.connect(self.panel.reload)
        self.pane.retranslate()
        self._stack = QStackedWidget()
        self._stack.addWidget(self._make_empty())
        self._stack.addWidget(self.pane)
        self._stack.addWidget(self._make_broken())
        splitter = QSplitter(Qt.Orientation.Horizontal)
        splitter.addWidget(self.panel)
        splitter.addWidget(self._stack)
        for number, factor in enumerate(self._SPLIT):
            splitter.setStretchFactor(number, factor)
        splitter.setSizes([factor * 100 for factor in self._SPLIT])  # in this proportion
        splitter.setChildrenCollapsible(False)
        layout = QVBoxLayout(self)
        layout.addWidget(splitter)
        context.settings.current_profile_changed.connect(self._current_changed)

    def _make_empty(self) -> QWidget:
        context = self.context
        page = QWidget()
        layout = QVBoxLayout(page)
        layout.addStretch(1)
        layout.addWidget(Label(context, N_("No profile yet"), scale=1.3))
        layout.addWidget(
            Label(context, N_("A profile holds the model and the settings of one server."))
        )
        make = Button(context, N_("Make a profile"), lambda: self._edit(""), icon="add")
        layout.addLayout(row(make, None))
        layout.addStretch(2)
        return page

    def _make_broken(self) -> QWidget:
        context = self.context
        page = QWidget()
        self._broken_name = Label(context, scale=1.3)
        self._broken_text = Label(context)
        self._broken_next = Label(context)
        self._mend = Button(
            context, N_("Mend it on the Plan page"), lambda: self._edit(self._row_id()), icon="edit"
        )
        restore = Button(
            context, N_("Go back to the previous version"), self.panel.restore, icon="undo"
        )
        folder = Button(context, N_("Open folder"), self.panel.open_folder, icon="folder")
        head = row(ToneIcon(context, "warn"), self._broken_name)
        head.setStretch(1, 1)
        layout = QVBoxLayout(page)
        layout.setContentsMargins(6, 0, 0, 0)
        layout.addLayout(head)
        layout.addWidget(self._broken_text)
        layout.addWidget(self._broken_next)
        # Two rows: together they would be wider than a small window.
        layout.addLayout(row(self._mend, folder, None))
        layout.addLayout(row(restore, None))
        layout.addStretch(1)
        return page

    def on_shown(self) -> None:
        """Read the profiles and attach to the server of the selected one."""
        self._attached = True
        self.panel.reload(self.context.settings.current_profile)
        self.changes.reload()
        if self.panel.loaded:
            self._chosen(self.panel.current)

    def on_hidden(self) -> None:
        """Let go."""
        self._attached = False
        self.pane.unwatch()

    def refresh(self) -> None:
        """F5."""
        self.panel.reload()
        self.changes.reload()

    def reveal(self, part: str) -> None:
        """ "log", "steps" or "changes"; at once, or when the profiles have been read."""
        if self.panel.loaded:
            self.pane.reveal(part)
        else:
            self._wanted_part = part

    def retranslate(self) -> None:
        """Texts that are not bound."""
        self.panel.retranslate()
        self.pane.retranslate()
        self.changes.retranslate()
        if self._stack.currentIndex() == self.BROKEN:
            self._show_broken(self.panel.current)

    def retheme(self) -> None:
        """Icons of the list."""
        self.panel.retranslate()

    def _row_id(self) -> str:
        current = self.panel.current
        return "" if current is None else current.id

    def _chosen(self, current: ProfileRow | None) -> None:
        profiles = {r.id: r.name for r in self.panel.model.rows}
        self.pane.set_names(profiles)
        if current is None:
            self.pane.unwatch()
            self._stack.setCurrentIndex(self.EMPTY)
        elif current.usable:
            self._stack.setCurrentIndex(self.SERVER)
            self.pane.reveal(self._wanted_part)
            self._wanted_part = ""
            self.context.settings.current_profile = current.id
            if self._attached:
                self.pane.watch(current.id)
        else:
            self.pane.unwatch()
            self._show_broken(current)
            self._stack.setCurrentIndex(self.BROKEN)

    def _show_broken(self, current: ProfileRow | None) -> None:
        if current is None:
            return
        self._broken_name.setText(current.name)
        if current.foreign:
            self._broken_text.show_text(
                N_("This profile belongs to another machine. Duplicate it to use it here.")
            )
            self._broken_next.hide()
        else:
            self._broken_text.show_text(current.problem_text())
            self._broken_next.show_text(current.next_step or "")
            self._broken_next.setVisible(current.next_step is not None)
        for button in self._broken_buttons():
            button.setVisible(not current.foreign)
        # A file that is no YAML at all has no fields to mend.
        self._mend.setVisible(bool(current.errors) and not current.foreign)

    def _broken_buttons(self) -> list[Button]:
        page = self._stack.widget(self.BROKEN)
        return page.findChildren(Button) if page is not None else []

    def _current_changed(self, profile_id: str) -> None:
        if self.panel.loaded and profile_id:
            if self.panel.model.position(profile_id).isValid():
                self.panel.select(profile_id)
            else:
                self.panel.reload(profile_id)

    def _edit(self, profile_id: str) -> None:
        self.context.settings.current_profile = profile_id
        self.context.navigate("plan")

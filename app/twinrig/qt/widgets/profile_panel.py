"""The left side of the Server page: profiles, and what can be done with their files."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QModelIndex, QSize, Qt, Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QListView,
    QMenu,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from twinrig.domain.profile import Profile
from twinrig.messages import N_
from twinrig.qt.viewmodels.profiles import ProfileRow, copy_name, profile_rows
from twinrig.qt.widgets.dialogs import Dialogs
from twinrig.qt.widgets.parts import Button, Label, Notice
from twinrig.qt.widgets.profile_list import ProfileListModel
from twinrig.qt.widgets.wrapping import wrap_row
from twinrig.services.profile_store import write_new
from twinrig.services.recipes import make_recipe

if TYPE_CHECKING:
    from twinrig.qt.pages.base import PageContext
    from twinrig.services.profile_store import ProfileListing

FILE_PATTERN = "*.yaml *.yml"


class ProfilePanel(QWidget):
    """``chosen`` carries the selected ProfileRow or None; ``edit_requested`` a profile id, ""
    for a new one."""

    chosen = Signal(object)
    edit_requested = Signal(str)

    def __init__(
        self, context: PageContext, dialogs: Dialogs, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._context = context
        self._dialogs = dialogs
        self._active = ""
        self._select_next = ""
        self._loaded = False
        self.model = ProfileListModel(context, self)
        self._build()
        self._offer()

    def _build(self) -> None:
        context = self._context
        bind = context.texts.bind
        self.view = QListView()
        self.view.setModel(self.model)
        self.view.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.view.setWordWrap(True)
        self.view.setTextElideMode(Qt.TextElideMode.ElideRight)
        size = round(self.view.fontMetrics().height() * 1.2)
        self.view.setIconSize(QSize(size, size))
        self.view.setSpacing(2)
        bind(self.view, QWidget.setAccessibleName, N_("Profiles"))
        self.view.selectionModel().currentChanged.connect(self._current_changed)
        self.view.activated.connect(lambda _index: self._edit())
        self.notice = Notice(context)
        self._new = Button(
            context,
            N_("New"),
            lambda: self.edit_requested.emit(""),
            icon="add",
            tip=N_("Choose a model and make a profile for it"),
        )
        self._edit_button = Button(
            context,
            N_("Edit"),
            self._edit,
            icon="edit",
            tip=N_("Open this profile on the Plan page"),
        )
        self._more = self._make_menu()
        self.setMinimumWidth(self.fontMetrics().averageCharWidth() * 24)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(Label(context, N_("Profiles"), scale=1.1))
        layout.addWidget(self.view, 1)
        layout.addWidget(self.notice)
        layout.addLayout(wrap_row(self._new, self._edit_button, self._more))

    def _make_menu(self) -> QToolButton:
        bind = self._context.texts.bind
        button = QToolButton()
        button.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        button.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        bind(button, QAbstractButton.setText, N_("More"))
        bind(button, QWidget.setAccessibleName, N_("More actions for profiles"))
        menu = QMenu(button)
        self._actions: dict[str, QAction] = {}
        entries: tuple[tuple[str, str, Callable[[], object]], ...] = (
            ("duplicate", N_("Duplicate"), self.duplicate),
            ("rename", N_("Rename…"), self.rename),
            ("previous", N_("Go back to the previous version"), self.restore),
            ("delete", N_("Delete"), self.delete),
            ("import", N_("Import…"), self.import_file),
            ("export", N_("Export…"), self.export),
            ("share", N_("Share as a recipe…"), self.share),
            ("folder", N_("Open the folder of profiles"), self.open_folder),
        )
        for name, text, act in entries:
            action = QAction(menu)
            bind(action, QAction.setText, text)
            action.triggered.connect(lambda _=False, act=act: act())
            menu.addAction(action)
            self._actions[name] = action
            if name in ("delete", "share"):
                menu.addSeparator()
        self._actions["delete"].setShortcut("Del")
        self._actions["delete"].setShortcutContext(Qt.ShortcutContext.WidgetShortcut)
        self._actions["rename"].setShortcut("F2")
        self._actions["rename"].setShortcutContext(Qt.ShortcutContext.WidgetShortcut)
        self.view.addActions([self._actions["delete"], self._actions["rename"]])
        button.setMenu(menu)
        return button

    @property
    def current(self) -> ProfileRow | None:
        """The selected row."""
        index = self.view.currentIndex()
        return self.model.rows[index.row()] if index.isValid() else None

    @property
    def loaded(self) -> bool:
        """The folder was read at least once."""
        return self._loaded

    def action(self, name: str) -> QAction:
        """An entry of the menu, by its name in the code."""
        return self._actions[name]

    def set_active(self, profile_id: str) -> None:
        """The profile whose server is at work."""
        self._active = profile_id
        self.model.set_active(profile_id)
        self._offer()

    def reload(self, select: str = "") -> None:
        """Read the folder again, then select this profile, else keep the selection."""
        self._select_next = select or self._select_next
        self._run(self._context.workbench.profiles.list, self._got_listing)

    def select(self, profile_id: str) -> None:
        """Select a profile if it is listed."""
        index = self.model.position(profile_id)
        if index.isValid() and index != self.view.currentIndex():
            self.view.setCurrentIndex(index)

    def duplicate(self) -> None:
        """A copy under another name."""
        current = self.current
        if current is None or current.profile is None:
            return
        store = self._context.workbench.profiles
        name = copy_name(current.profile.name, {r.name for r in self.model.rows})
        source = current.profile

        def work() -> Profile:
            copied = replace(
                source, id=store.free_id(name), name=name, target=self._context.workbench.target
            )
            store.save(copied)
            return copied

        self._run(work, self._made)

    def rename(self) -> None:
        """Another name; the file keeps its id, so nothing that refers to it breaks."""
        current = self.current
        if current is None or current.profile is None:
            return
        tr = self._context.texts.tr
        name = self._dialogs.ask_text(
            self, tr(N_("Rename")), tr(N_("New name of the profile")), current.profile.name
        )
        if name and name != current.profile.name:
            source = current.profile
            renamed = replace(source, name=name)
            store = self._context.workbench.profiles
            self._run(lambda: store.save(renamed, replaces=source), lambda _none: self.reload())

    def delete(self) -> None:
        """Remove the file; one click brings it back."""
        current = self.current
        if current is None or current.id == self._active or self._is_folder(current):
            return
        if current.profile is None and not self._sure(current):
            return
        store, controller = self._context.workbench.profiles, self._context.workbench.controller
        profile_id, name = current.id, current.name

        async def work() -> None:
            status = await controller.status(profile_id)
            if status.autostart:
                await controller.set_autostart(profile_id, False)
            await asyncio.to_thread(store.delete, profile_id)

        self._submit(work(), lambda _none: self._deleted(profile_id, name, current.profile))

    def _sure(self, current: ProfileRow) -> bool:
        tr = self._context.texts.tr
        text = tr(
            N_("Delete the damaged file {name}? It replaces the kept previous version."),
            name=current.name,
        )
        buttons = (tr(N_("Delete")), tr(N_("Keep")))
        return self._dialogs.choose(self, tr(N_("Delete")), text, buttons, 1) == 0

    def _deleted(self, profile_id: str, name: str, profile: Profile | None) -> None:
        store = self._context.workbench.profiles
        undo: tuple[tuple[str, Callable[[], object]], ...] = ()
        if profile is not None:
            undo = (
                (
                    N_("Undo"),
                    lambda: self._run(lambda: store.restore_previous(profile_id), self._made),
                ),
            )
        self.notice.tell(N_("Deleted: {name}"), actions=undo, name=name)
        self.reload()

    def restore(self) -> None:
        """The version before the last save; the present one becomes the previous."""
        current = self.current
        if current is not None and not self._is_folder(current):
            store = self._context.workbench.profiles
            self._run(lambda: store.restore_previous(current.id), self._restored)

    def _restored(self, profile: Profile) -> None:
        self.notice.tell(
            N_("The previous version of {name} is back."), tone="ok", name=profile.name
        )
        self._made(profile)

    def import_file(self) -> None:
        """Add a file from elsewhere under an id that is free."""
        tr = self._context.texts.tr
        path = self._dialogs.open_file(
            self, tr(N_("Import a profile")), f"{tr(N_('Profiles'))} ({FILE_PATTERN})"
        )
        if path is None:
            return
        store = self._context.workbench.profiles
        self._run(lambda: store.import_file(path, store.free_id(path.stem)), self._made)

    def export(self) -> None:
        """Write the file elsewhere; there is no secret in it."""
        current = self.current
        if current is None or current.profile is None:
            return
        tr = self._context.texts.tr
        path = self._dialogs.save_file(
            self,
            tr(N_("Export the profile")),
            f"{current.id}.yaml",
            f"{tr(N_('Profiles'))} ({FILE_PATTERN})",
        )
        if path is not None:
            store = self._context.workbench.profiles
            self._run(
                lambda: store.export(current.id, path, overwrite=True),
                lambda _none: self.notice.tell(N_("Exported: {path}"), tone="ok", path=str(path)),
            )

    def share(self) -> None:
        """Write a recipe: settings without paths, keys and names, for others."""
        current = self.current
        if current is None or current.profile is None:
            return
        profile, tr = current.profile, self._context.texts.tr
        path = self._dialogs.save_file(
            self,
            tr(N_("Share as a recipe")),
            f"{current.id}-recipe.yaml",
            f"{tr(N_('Profiles'))} ({FILE_PATTERN})",
        )
        if path is not None:
            self._run(
                lambda: write_new(path, make_recipe(profile), overwrite=True),
                lambda _none: self.notice.tell(
                    N_("Written without paths, keys and names: {path}"), tone="ok", path=str(path)
                ),
            )

    def open_folder(self) -> None:
        """Show the files in the desktop's file manager."""
        folder = self._context.workbench.profiles.path("x").parent
        if not self._dialogs.show_in_desktop(folder):
            self.notice.tell(N_("The folder is {path}"), path=str(folder))

    def retranslate(self) -> None:
        """Texts that are not bound."""
        self.model.all_changed()

    def _edit(self) -> None:
        current = self.current
        if current is not None and not current.foreign and not self._is_folder(current):
            self.edit_requested.emit(current.id)

    def _made(self, profile: Profile) -> None:
        self.reload(profile.id)

    def _got_listing(self, listing: ProfileListing) -> None:
        first = not self._loaded
        self._loaded = True
        wanted = self._select_next or ("" if self.current is None else self.current.id)
        self._select_next = ""
        names = {key: engine.name for key, engine in self._context.workbench.engines.items()}
        rows = profile_rows(listing, self._context.workbench.target, names)
        changed = self.model.set_rows(rows)
        if changed or first:
            index = self.model.position(wanted)
            if not index.isValid() and rows:
                index = self.model.index(0)
            self.view.setCurrentIndex(index)
            self._chosen()
        else:
            self.select(wanted)

    def _current_changed(self, _current: QModelIndex, _previous: QModelIndex) -> None:
        self._chosen()

    def _chosen(self) -> None:
        self._offer()
        self.chosen.emit(self.current)

    def _is_folder(self, current: ProfileRow) -> bool:
        return current.path is not None and current.path.suffix != ".yaml"

    def _offer(self) -> None:
        current = self.current
        whole = current is not None and current.profile is not None
        mine = current is not None and not current.foreign and not self._is_folder(current)
        self._edit_button.setEnabled(mine)
        self._actions["duplicate"].setEnabled(whole)
        self._actions["rename"].setEnabled(whole)
        self._actions["export"].setEnabled(whole)
        self._actions["share"].setEnabled(whole)
        self._actions["previous"].setEnabled(mine)
        self._actions["delete"].setEnabled(
            current is not None and current.id != self._active and not self._is_folder(current)
        )

    def _run(self, work: Callable[[], Any], on_result: Callable[[Any], object]) -> None:
        self._submit(asyncio.to_thread(work), on_result)

    def _submit(self, work: Coroutine[Any, Any, Any], on_result: Callable[[Any], object]) -> None:
        self._context.bridge.submit(work, self, on_result, self.notice.tell_error)

"""Choose a model folder: from the library with size or problem, by browsing, or by typing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QComboBox, QLineEdit, QVBoxLayout, QWidget

from twinrig.domain.errors import TwinrigError
from twinrig.messages import N_, Translator
from twinrig.qt.viewmodels.models import model_details, model_text
from twinrig.qt.widgets.dialogs import Dialogs
from twinrig.qt.widgets.find_model_dialog import FindModelDialog
from twinrig.qt.widgets.option_field import CalmCombo
from twinrig.qt.widgets.parts import Button, Label, row

if TYPE_CHECKING:
    from twinrig.qt.pages.base import PageContext
    from twinrig.services.models import ModelFolder


class ModelPicker(QWidget):
    """``picked`` carries a path on the target. The library is scanned in the background."""

    picked = Signal(str)

    def __init__(
        self, context: PageContext, dialogs: Dialogs, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._context = context
        self._dialogs = dialogs
        self._models: tuple[ModelFolder, ...] = ()
        self._error: Exception | None = None
        self._scanned_once = False
        self.engine_id = ""
        self.combo = CalmCombo()
        self.combo.setEditable(True)
        self.combo.setInsertPolicy(QComboBox.InsertPolicy.NoInsert)
        bind = context.texts.bind
        bind(self.combo, QWidget.setAccessibleName, N_("Model folder"))
        bind(
            self.combo.lineEdit(),
            QLineEdit.setPlaceholderText,
            N_("Choose a model from the list, or give the path of its folder"),
        )
        self.combo.lineEdit().setAccessibleName(self.combo.accessibleName())
        self.combo.activated.connect(self._activated)
        self.combo.lineEdit().textEdited.connect(self._typed)
        self._browse = Button(context, N_("Browse…"), self.browse, icon="folder")
        # Paths are the target's: a dialog of this desktop sees them only on this machine.
        self._browse.setVisible(context.workbench.target == "local")
        self._rescan = Button(
            context, N_("Look again"), self.scan, icon="refresh", tip=N_("Look for models again")
        )
        self._find = Button(
            context,
            N_("Find a model…"),
            self.find,
            icon="search",
            tip=N_("Look for models that others use, and download one"),
        )
        self._find.setVisible(not context.workbench.demo)
        self._note = Label(context, tone="muted")
        line = row(self.combo, self._browse, self._find, self._rescan)
        line.setStretch(0, 1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addLayout(line)
        layout.addWidget(self._note)
        context.texts.changed.connect(self._fill)

    @property
    def path(self) -> str:
        """The chosen path."""
        return self.combo.lineEdit().text().strip()

    @property
    def models(self) -> tuple[ModelFolder, ...]:
        """What the last scan found."""
        return self._models

    def set_path(self, path: str) -> None:
        """Show a path."""
        self.combo.setEditText(path)
        self._tell()

    def scan(self) -> None:
        """Look for models; what is typed stays."""
        self._rescan.setEnabled(False)
        self._note.set_tone("muted")
        self._note.show_text(N_("Looking for models…"))
        self._context.bridge.submit(
            self._context.workbench.models.scan(), self, self._scanned, self._scan_failed
        )

    def find(self) -> None:
        """Look for one on the hub, for the engine in use."""
        dialog = FindModelDialog(self._context, self.engine_id, self)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.downloaded.connect(self._downloaded)
        dialog.open()

    def _downloaded(self, path: str) -> None:
        self.set_path(path)
        self.picked.emit(path)
        self.scan()

    def browse(self) -> None:
        """The desktop's own dialog."""
        title = self._context.texts.tr(N_("Choose a model folder"))
        chosen = self._dialogs.open_folder(self, title, self.path)
        if chosen is not None:
            self.set_path(str(chosen))
            self.picked.emit(str(chosen))

    def _scanned(self, models: tuple[ModelFolder, ...]) -> None:
        self._rescan.setEnabled(True)
        self._scanned_once = True
        self._error = None
        self._models = tuple(sorted(models, key=lambda m: not m.complete))
        self._fill()

    def _scan_failed(self, error: Exception) -> None:
        self._rescan.setEnabled(True)
        self._error = error
        self._tell()

    def _fill(self) -> None:
        translator = Translator(self._context.texts.language)
        typed = self.combo.lineEdit().text()
        self.combo.clear()
        if not self._models:  # a list that does not open would look broken
            self.combo.addItem(translator.text(N_("No model was found")))
            self.combo.model().item(0).setEnabled(False)
        for number, model in enumerate(self._models):
            self.combo.addItem(model_text(model, translator), model.path)
            tip = model_details(model, translator)
            self.combo.setItemData(number, tip, Qt.ItemDataRole.ToolTipRole)
        self.combo.setCurrentIndex(-1)
        self.combo.setEditText(typed)
        self._tell()

    def _activated(self, index: int) -> None:
        path = str(self.combo.itemData(index) or "")
        if path:
            self.set_path(path)
            self.picked.emit(path)

    def _typed(self, text: str) -> None:
        self._tell()
        self.picked.emit(text.strip())

    def _tell(self) -> None:
        """What is known of the chosen folder; nothing is claimed of an unknown one."""
        translator = Translator(self._context.texts.language)
        known = next((m for m in self._models if m.path == self.path), None)
        if known is not None:
            self._note.show_text("")
            self._note.set_tone("warn" if known.problem is not None else "muted")
            self._note.setText(model_text(known, translator))
            self.combo.setToolTip(model_details(known, translator))
        elif self._error is not None:
            self._note.set_tone("warn")
            self._note.show_text("")
            self._note.setText(self._context.texts.error(self._error))
        elif self.path:
            self._note.set_tone("muted")
            self._note.show_text(N_("Not one of the models found. Preflight checks this folder."))
        elif not self._models:
            self._tell_none()
        else:
            self._note.set_tone("muted")
            self._note.show_text(N_("Models found: {count}"), count=len(self._models))

    def _tell_none(self) -> None:
        """Where nothing was found, and what leads on."""
        self._note.set_tone("warn" if self._scanned_once else "muted")
        if not self._scanned_once:
            self._note.show_text(N_("Looking for models…"))
            return
        where = N_("No model was found. Looked into: {folders}. Give the path of a model folder.")
        if self._find.isVisibleTo(self):
            where = N_(
                "No model was found. Looked into: {folders}. Give the path of a model folder, or "
                "download one with “Find a model…”."
            )
        self._note.show_text(where, folders=", ".join(self._folders()))

    def _folders(self) -> tuple[str, ...]:
        try:
            return tuple(self._context.workbench.models.folders)
        except TwinrigError:
            return ("?",)

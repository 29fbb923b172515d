"""What every profile has, whatever the engine: name, engine, model and address."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QGridLayout, QGroupBox, QLineEdit, QVBoxLayout, QWidget

from twinrig.messages import N_, Message
from twinrig.qt.viewmodels.models import engines_for
from twinrig.qt.viewmodels.plan import PlanModel
from twinrig.qt.viewmodels.runs import find_install
from twinrig.qt.widgets.dialogs import Dialogs
from twinrig.qt.widgets.model_picker import ModelPicker
from twinrig.qt.widgets.option_field import CalmCombo, FaultLabel, FieldLabel
from twinrig.qt.widgets.parts import Button, Label, row
from twinrig.qt.widgets.setup_dialog import open_setup

if TYPE_CHECKING:
    from twinrig.domain.install import EngineInstall
    from twinrig.qt.pages.base import PageContext


class ProfileHead(QGroupBox):
    """``edited`` fires on every change; ``engine_chosen`` carries an engine id (new profiles)."""

    edited = Signal()
    engine_chosen = Signal(str)

    def __init__(
        self, context: PageContext, dialogs: Dialogs, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._context = context
        self._model: PlanModel | None = None
        self._filling = False
        self._faults: dict[str, FaultLabel] = {}
        self._rows: dict[str, tuple[QWidget, QWidget]] = {}
        self._follow_model = False
        context.texts.bind(self, QGroupBox.setTitle, N_("Profile"))
        context.texts.bind(self, QWidget.setAccessibleName, N_("Profile"))
        self.name = QLineEdit()
        self.engine = CalmCombo()
        for engine in engines_for(context.workbench):
            self.engine.addItem(engine.name, engine.id)
        self.engine.activated.connect(
            lambda index: self.engine_chosen.emit(str(self.engine.itemData(index)))
        )
        self.picker = ModelPicker(context, dialogs)
        self.install = Label(context, tone="muted")
        self.set_up = Button(context, "", self._set_up, icon="down")
        self.set_up.hide()  # until an engine is known
        self.port = QLineEdit()
        self.served_name = QLineEdit()
        self.environment = QLineEdit()
        self.host = QLineEdit()
        self.key_name = QLineEdit()
        self._grid = QGridLayout(self)
        self._grid.setColumnStretch(0, 2)
        self._grid.setColumnStretch(1, 3)
        self._build_rows()
        self._connect()

    def _build_rows(self) -> None:
        add = self._add
        add("model.path", N_("Model"), self.picker, focus=self.picker.combo)
        add("engine.id", N_("Engine"), self.engine, below=(self.install, self.set_up))
        add("name", N_("Name of the profile"), self.name)
        add("network.port", N_("Port"), self.port)
        add("model.served_name", N_("Name that clients use"), self.served_name)
        add("engine.environment", N_("Environment of the engine"), self.environment)
        add("network.host", N_("Listen address"), self.host)
        add("network.key_name", N_("Name of the stored key"), self.key_name)
        bind = self._context.texts.bind
        bind(self.served_name, QLineEdit.setPlaceholderText, N_("The name of the model folder"))
        bind(self.environment, QLineEdit.setPlaceholderText, N_("Found by itself"))
        bind(self.key_name, QLineEdit.setPlaceholderText, N_("No key"))

    def _add(
        self,
        path: str,
        text: str,
        editor: QWidget,
        *,
        focus: QWidget | None = None,
        below: Sequence[QWidget] = (),
    ) -> None:
        number = len(self._rows)
        target = focus or editor
        self._context.texts.bind(target, QWidget.setAccessibleName, text)
        label = FieldLabel(self._context, text, "", target)
        fault = FaultLabel(self._context)
        cell = QWidget()
        layout = QVBoxLayout(cell)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(editor)
        for widget in below:
            layout.addLayout(row(widget, None) if isinstance(widget, Button) else row(widget))
        layout.addWidget(fault)
        layout.addStretch(1)
        self._grid.addWidget(label, number, 0)
        self._grid.addWidget(cell, number, 1)
        self._rows[path] = (label, cell)
        self._faults[path] = fault

    def _connect(self) -> None:
        def wire(line: QLineEdit, act: Callable[[PlanModel, str], None]) -> None:
            line.textChanged.connect(lambda text: self._apply(act, text))

        wire(self.name, PlanModel.set_name)
        wire(self.port, PlanModel.set_port)
        wire(self.served_name, PlanModel.set_served_name)
        wire(self.environment, PlanModel.set_environment)
        wire(self.host, PlanModel.set_host)
        wire(self.key_name, PlanModel.set_key_name)
        self.name.textEdited.connect(self._named_by_hand)
        self.picker.picked.connect(self._picked)

    def show_profile(self, model: PlanModel) -> None:
        """Fill the fields. The engine can be chosen only while the profile is new."""
        self._model = model
        profile = model.profile
        self._filling = True
        self._follow_model = model.base is None
        self.picker.engine_id = profile.engine.id
        self.picker.set_path(profile.model.path)
        index = self.engine.findData(profile.engine.id)
        if index < 0:
            self.engine.addItem(profile.engine.id, profile.engine.id)
            index = self.engine.count() - 1
        self.engine.setCurrentIndex(index)
        self.engine.setEnabled(model.base is None)
        tip = "" if model.base is None else N_("To use another engine, make a new profile.")
        self._context.texts.bind(self.engine, QWidget.setToolTip, tip)
        self.name.setText(profile.name)
        self.port.setText(model.port_text)
        self.served_name.setText(profile.model.served_name)
        self.environment.setText(profile.engine.environment)
        self.host.setText(profile.network.host)
        self.key_name.setText(profile.network.key_name)
        self._filling = False

    def show_install(self, install: EngineInstall | None, name: str) -> None:
        """Which engine was found, or that none was; either way it can be set up."""
        engine_id = self._model.profile.engine.id if self._model is not None else ""
        self.set_up.setVisible(engine_id in self._context.workbench.setup.engines)
        self.set_up.set_text(
            N_("Set up {engine}…") if install is None else N_("Set up or update {engine}…"),
            engine=name,
        )
        if install is None:
            self.install.set_tone("warn")
            self.install.show_text(
                N_("{engine} was not found on this machine. Preflight tells what is missing."),
                engine=name,
            )
        else:
            self.install.set_tone("muted")
            self.install.show_text(
                N_("Version {version} in {folder}"),
                version=install.version or "?",
                folder=install.environment,
            )

    def set_expert(self, expert: bool) -> None:
        """Simple shows model, engine, name and port."""
        for path in (
            "model.served_name",
            "engine.environment",
            "network.host",
            "network.key_name",
        ):
            for widget in self._rows[path]:
                widget.setVisible(expert)

    def show_faults(self, faults: Mapping[str, Sequence[Message]]) -> set[str]:
        """Faults by path; returns the paths that are visible here."""
        shown = set()
        for path, label in self._faults.items():
            label.show_faults(faults.get(path, ()))
            if path in faults and not self._rows[path][1].isHidden():
                shown.add(path)
        return shown

    def first_faulty(self) -> QWidget | None:
        """The editor to go to when saving was refused."""
        editors = {"model.path": self.picker.combo, "name": self.name, "network.port": self.port}
        for path, label in self._faults.items():
            if label.text:
                return editors.get(path, self._rows[path][1])
        return None

    def _set_up(self) -> None:
        if self._model is not None:
            profile = self._model.base
            dialog = open_setup(self._context, self._model.profile.engine.id, profile, self)
            dialog.changed.connect(self._look_again)

    def _look_again(self) -> None:
        """Another version is there; nothing that is typed changes."""
        if self._model is None:
            return
        engine, work = self._model.profile.engine, self._context.workbench
        name = work.engines[engine.id].name
        self._context.bridge.submit(
            find_install(work, engine.id, engine.environment),
            self,
            lambda install: self.show_install(install, name),
        )

    def _apply(self, act: Callable[[PlanModel, str], None], text: str) -> None:
        if self._model is not None and not self._filling:
            act(self._model, text)
            self.edited.emit()

    def _named_by_hand(self, text: str) -> None:
        self._follow_model = not text.strip()

    def _picked(self, path: str) -> None:
        if self._model is None or self._filling:
            return
        self._model.set_model(path)
        name = path.rstrip("/").rsplit("/", 1)[-1]
        if self._follow_model and name:
            self.name.setText(name)
        self.edited.emit()

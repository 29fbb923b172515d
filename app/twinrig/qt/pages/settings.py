"""Settings of the panel itself: language, theme, sampling, places, about."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QUrl
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QFormLayout,
    QGridLayout,
    QLabel,
    QLineEdit,
    QPlainTextEdit,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from twinrig.messages import N_, Message
from twinrig.qt.pages.base import Page, PageContext
from twinrig.qt.viewmodels.settings import (
    LANGUAGE_CHOICES,
    THEME_CHOICES,
    Choice,
    about_text,
    folder_rows,
    interval_choices,
    licence_text,
)
from twinrig.qt.widgets.distro_choice import TITLE, DistroChoice
from twinrig.qt.widgets.labels import Heading, ToneLabel
from twinrig.qt.widgets.parts import Button, row
from twinrig.qt.widgets.surface import Surface
from twinrig.qt.widgets.update_switch import UpdateSwitch


class SettingsPage(Page):
    """Every change takes effect at once and is remembered."""

    page_id = "settings"
    title = N_("Settings")
    icon = "settings"

    def __init__(self, context: PageContext, parent: QWidget | None = None) -> None:
        super().__init__(context, parent)
        self._combos: list[tuple[QComboBox, tuple[Choice, ...]]] = []
        self._distro: DistroChoice | None = None
        self._folder_buttons: list[QPushButton] = []
        layout = QVBoxLayout(self)
        layout.setSpacing(10)
        if context.settings.moved_aside is not None:
            layout.addWidget(self._told_of_damage(context.settings.moved_aside))
        layout.addWidget(self._section(N_("Appearance and sampling"), self._choices()))
        layout.addWidget(self._section(N_("Where Twinrig keeps its files"), self._folders()))
        layout.addWidget(self._section(N_("About"), self._about()), 1)
        self.retranslate()

    def on_shown(self) -> None:
        self.update_switch.look()
        distros = self.context.workbench.distros
        if self._distro is not None and distros is not None:
            self.submit(distros.list(), self._distro.set_distros, lambda _error: None)

    def retranslate(self) -> None:
        for combo, choices in self._combos:
            for index, choice in enumerate(choices):
                combo.setItemText(index, self.tr(choice.label))

    # -- sections ------------------------------------------------------------------------------

    def _section(self, title: str, content: QWidget) -> Surface:
        surface = Surface(self.context.theme, self)
        layout = QVBoxLayout(surface)
        heading = Heading(1.05, surface)
        self.context.texts.bind(heading, QLabel.setText, title)
        layout.addWidget(heading)
        layout.addWidget(content, 1)
        return surface

    def _told_of_damage(self, aside: Path) -> QWidget:
        told = ToneLabel(self.context.theme, "warn", self)
        told.setWordWrap(True)
        self.context.texts.bind(
            told,
            QLabel.setText,
            N_(
                "The panel's own settings were damaged and start afresh; the old file is kept: "
                "{path}. Servers and profiles are not affected."
            ),
            path=str(aside),
        )
        return told

    def _choices(self) -> QWidget:
        settings = self.context.settings
        box = QWidget(self)
        form = QFormLayout(box)
        form.setContentsMargins(0, 0, 0, 0)
        form.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.FieldsStayAtSizeHint)
        self._row(form, N_("&Language"), LANGUAGE_CHOICES, settings.language, self._set_language)
        self._row(form, N_("&Theme"), THEME_CHOICES, settings.theme, self._set_theme)
        self._row(
            form,
            N_("&Read the cards every"),
            interval_choices(),
            settings.interval_s,
            self._set_rate,
        )
        for widget in self._details_box():
            form.addRow(widget)
        if self.context.workbench.distros is not None:
            self._distro = DistroChoice(self.context, box)
            label = QLabel(self)
            label.setBuddy(self._distro.combo)
            self.context.texts.bind(label, QLabel.setText, TITLE)
            form.addRow(label, self._distro)
        return box

    def _details_box(self) -> tuple[QCheckBox, QLabel]:
        details = QCheckBox(self)
        text = N_("Also read PCIe traffic and energy")
        self.context.texts.bind(details, QCheckBox.setText, text)
        self.context.texts.bind(details, QWidget.setAccessibleName, text)
        details.setChecked(self.context.settings.detailed)
        details.toggled.connect(self._set_details)
        price = N_("Asks the driver for up to 0.1 s each time.")
        told = ToneLabel(self.context.theme, "muted", self)
        told.setWordWrap(True)
        self.context.texts.bind(told, QLabel.setText, price)
        self.context.texts.bind(details, QWidget.setToolTip, price)
        return details, told

    def _row(
        self,
        form: QFormLayout,
        title: str,
        choices: tuple[Choice, ...],
        current: object,
        apply: Callable[[object], None],
    ) -> None:
        combo = QComboBox(self)
        combo.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
        for choice in choices:
            combo.addItem(self.tr(choice.label), choice.value)
        values = [choice.value for choice in choices]
        combo.setCurrentIndex(values.index(current) if current in values else 0)
        combo.activated.connect(lambda index: apply(choices[index].value))
        label = QLabel(self)
        label.setBuddy(combo)
        self.context.texts.bind(label, QLabel.setText, title)
        self.context.texts.bind(combo, _set_plain_name, title)
        form.addRow(label, combo)
        self._combos.append((combo, choices))

    def _folders(self) -> QWidget:
        box = QWidget(self)
        grid = QGridLayout(box)
        grid.setContentsMargins(0, 0, 0, 0)
        grid.setColumnStretch(1, 1)
        for number, (title, path) in enumerate(folder_rows(self.context.folders)):
            label = QLabel(box)
            self.context.texts.bind(label, QLabel.setText, title)
            shown = QLineEdit(str(path), box)
            shown.setReadOnly(True)
            shown.setCursorPosition(0)
            label.setBuddy(shown)
            button = QPushButton(self.context.icons.icon("folder"), "", box)
            self.context.texts.bind(shown, QWidget.setAccessibleName, title)
            self.context.texts.bind(button, QPushButton.setText, N_("Open folder"))
            self.context.texts.bind(
                button, QWidget.setAccessibleName, N_("Open folder: {name}"), name=Message(title)
            )
            button.clicked.connect(lambda _checked=False, p=path: self._open(p))
            self._folder_buttons.append(button)
            for column, widget in enumerate((label, shown, button)):
                grid.addWidget(widget, number, column)
        return box

    def _about(self) -> QWidget:
        box = QWidget(self)
        layout = QVBoxLayout(box)
        layout.setContentsMargins(0, 0, 0, 0)
        version = QLabel(box)
        self.context.texts.bind(version, QLabel.setText, about_text())
        privacy = ToneLabel(self.context.theme, "muted", box)
        privacy.setWordWrap(True)
        self.context.texts.bind(
            privacy,
            QLabel.setText,
            N_(
                "Twinrig tells nobody about you or this machine. It talks to the servers on this "
                "machine, and to the internet only for what you ask for: looking for models, "
                "downloads, updates."
            ),
        )
        licences = QPlainTextEdit(licence_text(), box)
        licences.setReadOnly(True)
        licences.setTabChangesFocus(True)
        licences.setMinimumHeight(self.fontMetrics().lineSpacing() * 7)
        self.context.texts.bind(
            licences, QWidget.setAccessibleName, N_("Licences of Twinrig and what it contains")
        )
        head = row(version, self._first_steps_button())
        head.setStretch(0, 1)
        layout.addLayout(head)
        layout.addWidget(privacy)
        self.update_switch = UpdateSwitch(self.context, box)
        layout.addWidget(self.update_switch)
        layout.addWidget(licences, 1)
        return box

    def _first_steps_button(self) -> Button:
        return Button(
            self.context,
            N_("Show the first steps"),
            lambda: self.context.navigate("first-steps"),
            icon="right",
            tip=N_("From this machine to a first reply, step by step"),
        )

    # -- what the choices do ---------------------------------------------------------------------

    def _set_language(self, value: object) -> None:
        self.context.settings.language = str(value)
        self.context.apply_language(str(value))

    def _set_theme(self, value: object) -> None:
        self.context.settings.theme = str(value)
        self.context.theme.apply(str(value))

    def _set_rate(self, value: object) -> None:
        self.context.settings.interval_s = float(str(value))

    def _set_details(self, wanted: bool) -> None:
        self.context.settings.detailed = wanted

    def _open(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)
        QDesktopServices.openUrl(QUrl.fromLocalFile(str(path)))

    def retheme(self) -> None:
        for button in self._folder_buttons:
            button.setIcon(self.context.icons.icon("folder"))


def _set_plain_name(widget: QWidget, text: str) -> None:
    widget.setAccessibleName(text.replace("&", ""))

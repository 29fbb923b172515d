"""Servers on WSL: in which distribution, and whether Windows may go to sleep under them."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtWidgets import QCheckBox, QComboBox, QLabel, QVBoxLayout, QWidget

from twinrig.domain.wsl import WslDistro
from twinrig.messages import N_
from twinrig.qt.pages.base import PageContext
from twinrig.qt.widgets.labels import ToneLabel
from twinrig.qt.widgets.parts import row

TITLE = N_("&Distribution of WSL")
AWAKE_FLAG = "keep-awake"
"""Read by supervisors too, without this package."""


class DistroChoice(QWidget):
    """A list that is filled when it is shown first; a name that is not there any more stays."""

    def __init__(self, context: PageContext, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._context = context
        self.combo = QComboBox(self)
        self.combo.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
        context.texts.bind(self.combo, _set_plain_name, TITLE)
        note = ToneLabel(context.theme, "muted", self)
        context.texts.bind(note, QLabel.setText, N_("Counts when Twinrig is started again."))
        self.awake = QCheckBox(self)
        text = N_("Keep this computer awake while a server is kept (from its next start on)")
        context.texts.bind(self.awake, QCheckBox.setText, text)
        context.texts.bind(self.awake, QWidget.setAccessibleName, text)
        self.awake.setChecked(context.settings.flag(AWAKE_FLAG))
        self.awake.toggled.connect(lambda on: context.settings.set_flag(AWAKE_FLAG, on))
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addLayout(row(self.combo, note))
        layout.addWidget(self.awake)
        self._names: tuple[str, ...] = ()
        self._fill()
        context.texts.changed.connect(self._fill)
        self.combo.activated.connect(self._choose)

    def set_distros(self, distros: Sequence[WslDistro]) -> None:
        """Offer those that can be used."""
        self._names = tuple(d.name for d in distros if not d.foreign and d.version == 2)
        self._fill()

    def _fill(self) -> None:
        chosen = self._context.settings.distro
        names = sorted({*self._names, chosen} - {""}, key=str.casefold)
        self.combo.clear()
        self.combo.addItem(self._context.texts.tr(N_("WSL's default")), "")
        for name in names:
            self.combo.addItem(name, name)
        self.combo.setCurrentIndex(self.combo.findData(chosen))

    def _choose(self, index: int) -> None:
        self._context.settings.distro = str(self.combo.itemData(index))


def _set_plain_name(widget: QWidget, text: str) -> None:
    widget.setAccessibleName(text.replace("&", ""))

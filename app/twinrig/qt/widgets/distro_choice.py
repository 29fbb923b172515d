"""Which distribution of WSL the panel works with, from its next start on."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtWidgets import QComboBox, QHBoxLayout, QLabel, QWidget

from twinrig.domain.wsl import WslDistro
from twinrig.messages import N_
from twinrig.qt.pages.base import PageContext
from twinrig.qt.widgets.labels import ToneLabel

TITLE = N_("&Distribution of WSL")


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
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.combo)
        layout.addWidget(note)
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

"""The switch that lets Twinrig ask for newer versions: off until somebody turns it on."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from PySide6.QtWidgets import QCheckBox, QVBoxLayout, QWidget

from twinrig import __version__, assets
from twinrig.messages import N_
from twinrig.qt.bridge import TaskHandle
from twinrig.qt.widgets.parts import Label
from twinrig.services.update_check import TABLE, UpdateAnswer, check_for_update, release_address

if TYPE_CHECKING:
    from twinrig.qt.pages.base import PageContext

FLAG = "update-check"
VARIABLE = "TWINRIG_RELEASES"
ASKING = N_("Because the switch is on, this address is asked, and told nothing else: {address}")


class UpdateSwitch(QWidget):
    """Switch, answer, and while it is on the line that completes the one on privacy above.

    Without an address to ask there is a sentence in the place of the switch.
    """

    def __init__(self, context: PageContext, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._context = context
        self._task: TaskHandle | None = None
        self._asked = False
        self._address = release_address(assets.read_text(TABLE), os.environ.get(VARIABLE, ""))
        self.box = QCheckBox(self)
        text = N_("Ask for newer versions when Settings is opened")
        self.promise = Label(context, N_("Nothing is downloaded."), tone="muted")
        context.texts.bind(self.box, QCheckBox.setText, text)
        context.texts.bind(self.box, QWidget.setAccessibleName, text)
        self.box.setChecked(self.on)
        self.box.setEnabled(bool(self._address))
        self.box.toggled.connect(self._switch)
        self.answer = Label(context, tone="muted")
        self.privacy = Label(context, tone="muted")
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        for widget in (self.box, self.promise, self.privacy, self.answer):
            layout.addWidget(widget)
        self._render()

    @property
    def on(self) -> bool:
        """It may ask: switched on, and there is somebody to ask."""
        return bool(self._address) and self._context.settings.flag(FLAG)

    def look(self) -> None:
        """Ask once in this run of the panel, if it may."""
        if self.on and not self._asked:
            self._asked = True
            self.answer.show_text(N_("Asking for the newest version…"))
            self.answer.show()
            work = check_for_update(self._context.workbench.http, self._address, __version__)
            self._task = self._context.bridge.submit(work, self, self._told, self._failed)

    def _switch(self, wanted: bool) -> None:
        self._context.settings.set_flag(FLAG, wanted)
        self._asked = False
        if not wanted and self._task is not None:
            self._task.cancel()
        self._render()
        self.look()

    def _told(self, answer: UpdateAnswer) -> None:
        self.answer.show_text(answer.text)
        self.answer.set_tone("ok" if answer.newer else "muted")

    def _failed(self, _error: Exception) -> None:
        self.answer.show_text(N_("Whether there is a newer version is not known."))

    def _render(self) -> None:
        self.privacy.setVisible(self.on)
        self.privacy.show_text(ASKING, address=self._address)
        for widget in (self.box, self.promise):  # a switch that nobody can use is no offer
            widget.setVisible(bool(self._address))
        if not self._address:
            self.answer.show_text(
                N_(
                    "No update address is part of this build: it never asks for newer versions. "
                    "Look where you got it from."
                )
            )
        self.answer.setVisible(not self._address)

"""Shows the first steps by themselves on a fresh target, and until they are over."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject

from twinrig.qt.bridge import Bridge
from twinrig.qt.main_window import MainWindow
from twinrig.qt.settings import PanelSettings

if TYPE_CHECKING:
    from twinrig.services.workbench import Workbench

PAGE_ID = "first-steps"


class FirstRun(QObject):
    """Lists the page in the navigation while it is wanted, and opens it once at the start."""

    def __init__(
        self,
        workbench: Workbench,
        bridge: Bridge,
        window: MainWindow,
        settings: PanelSettings,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        # Late: with the page come all parts of the panel.
        from twinrig.qt.viewmodels.first_look import Remembered

        self._workbench = workbench
        self._bridge = bridge
        self._window = window
        self._remembered = Remembered(settings, workbench.target)
        window.set_listed(PAGE_ID, False)
        settings.flag_changed.connect(lambda _name: self._follow())

    def begin(self) -> None:
        """Count the profiles, then decide."""
        if PAGE_ID in self._window.page_ids and not self._remembered.over:
            work = asyncio.to_thread(_own_profiles, self._workbench)
            self._bridge.submit(work, self, self._counted, lambda _error: None)

    def _counted(self, profiles: int) -> None:
        if not self._remembered.wanted(profiles):
            return
        self._window.set_listed(PAGE_ID, True)
        if self._window.current_id == self._window.page_ids[0]:  # the user is nowhere else yet
            self._window.navigate(PAGE_ID)

    def _follow(self) -> None:
        if self._remembered.over:
            self._window.set_listed(PAGE_ID, False)


def _own_profiles(workbench: Workbench) -> int:
    return sum(p.target == workbench.target for p in workbench.profiles.list().profiles)

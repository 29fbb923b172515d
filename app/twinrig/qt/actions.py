"""Start and stop from overview, tray and quit dialog: one place, same words."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from twinrig.domain.errors import UsageError
from twinrig.messages import message
from twinrig.qt.bridge import Bridge

if TYPE_CHECKING:
    from twinrig.domain.profile import Profile
    from twinrig.services.workbench import Workbench

REQUESTED_BY = "panel"


class ServerActions(QObject):
    """Asks the controller; never blocks. ``failed`` carries the error of a refused request.

    ``profiles_changed`` fires when ``profiles`` was read anew.
    """

    failed = Signal(object)
    busy_changed = Signal(bool)
    profiles_changed = Signal()

    def __init__(self, workbench: Workbench, bridge: Bridge, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._workbench = workbench
        self._bridge = bridge
        self.busy = False
        self.profiles: tuple[Profile, ...] = ()

    def chosen(self, wanted: str) -> str:
        """The profile that Start means: ``wanted`` while it exists, else the first; "" = none."""
        ids = [profile.id for profile in self.profiles]
        return wanted if wanted in ids else next(iter(ids), "")

    def start(self, profile_id: str) -> None:
        """Ask for the server of a profile."""
        if not profile_id:
            self.failed.emit(
                UsageError(
                    message("There is no profile to start."),
                    message("Make one on the Plan page: choose a model and save."),
                )
            )
            return
        self._ask(self._workbench.controller.start(profile_id, REQUESTED_BY))

    def stop(self, profile_id: str, then: Callable[[], object] | None = None) -> None:
        """Ask the server to stop; ``then`` runs once the request is written."""
        self._ask(self._workbench.controller.stop(profile_id, REQUESTED_BY), then)

    def free(self, profile_id: str) -> None:
        """Give the memory of the cards back: sleep where the server can, else stop."""
        self._ask(self._workbench.controller.free(profile_id, REQUESTED_BY))

    def switch(self, profile_id: str) -> None:
        """Stop what runs and start this profile's server."""
        self._ask(self._workbench.switching().switch(profile_id, REQUESTED_BY))

    def read_profiles(self) -> None:
        """Read the list of profiles in the background."""

        async def read() -> tuple[Profile, ...]:
            target = self._workbench.target
            listing = self._workbench.profiles.list()
            return tuple(p for p in listing.profiles if p.target == target)

        self._bridge.submit(read(), self, self._profiles_read, self.failed.emit)

    def _profiles_read(self, profiles: tuple[Profile, ...]) -> None:
        if profiles != self.profiles:
            self.profiles = profiles
            self.profiles_changed.emit()

    def _ask(self, request: object, then: Callable[[], object] | None = None) -> None:
        self._set_busy(True)

        def done(_result: object) -> None:
            self._set_busy(False)
            if then is not None:
                then()

        def refused(error: Exception) -> None:
            self._set_busy(False)
            self.failed.emit(error)

        self._bridge.submit(request, self, done, refused)

    def _set_busy(self, busy: bool) -> None:
        self.busy = busy
        self.busy_changed.emit(busy)

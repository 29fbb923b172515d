"""What a server's pane offers beside start and stop: back to what worked, switch, set up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QWidget

from twinrig.domain.errors import TwinrigError
from twinrig.domain.profile import Profile
from twinrig.domain.supervision import Failure
from twinrig.messages import N_
from twinrig.qt.viewmodels.runs import load_or_none
from twinrig.qt.viewmodels.setting_up import engine_to_set_up
from twinrig.qt.widgets.failure_box import FailureBox
from twinrig.qt.widgets.parts import Notice
from twinrig.qt.widgets.setup_dialog import open_setup
from twinrig.services.last_good import SettingChange
from twinrig.services.switching import Restarted

if TYPE_CHECKING:
    from twinrig.qt.pages.base import PageContext

REQUESTED_BY = "panel"
Ask = Callable[[str, Coroutine[Any, Any, Any]], None]


class WayBack(QObject):
    """Helps one pane. ``ask`` runs a request with the pane's buttons busy; ``other`` is the id of
    another profile whose server runs ("" = none)."""

    _went_back = Signal(object)

    def __init__(
        self, context: PageContext, box: FailureBox, ask: Ask, notice: Notice, pane: QWidget
    ) -> None:
        super().__init__(pane)
        self._context = context
        self._box = box
        self._ask = ask
        self._notice = notice
        self._pane = pane
        self._seen: tuple[str, Failure | None] = ("", None)
        self._profile_id = ""
        self.other = ""
        self._went_back.connect(self._tell_went_back)  # from the thread that waits
        box.restore_requested.connect(self.restore)
        box.setup_requested.connect(self._set_up)
        box.offer_setup("")

    def look(self, profile_id: str, failure: Failure | None) -> None:
        """A failure is shown: ask once whether settings were changed since it worked."""
        if self._seen == (profile_id, failure):
            return
        self._seen = (profile_id, failure)
        self._profile_id = profile_id
        self._box.offer_restore(())
        self._box.offer_setup("")
        if failure is None or not profile_id:
            return
        work = self._context.workbench
        self._submit(
            asyncio.to_thread(work.last_good().changes, profile_id),
            partial(self._got_changes, self._seen),
        )
        self._submit(load_or_none(work, profile_id), partial(self._got_profile, self._seen))

    def restore(self) -> None:
        """Put the settings that worked back, and start with them."""
        profile_id, work = self._profile_id, self._context.workbench

        async def go_back() -> None:
            await asyncio.to_thread(work.last_good().restore, profile_id)
            await work.controller.start(profile_id, REQUESTED_BY)

        self._box.offer_restore(())
        self._ask("start", go_back())

    def restart(self, profile_id: str) -> None:
        """Anew; changed settings that do not start give way to those that worked."""
        switching = self._context.workbench.switching()

        async def anew() -> None:
            done = await switching.restart(profile_id, REQUESTED_BY)
            if done.went_back:
                self._went_back.emit(done)

        self._ask("restart", anew())

    def switch_actions(self, profile_id: str) -> tuple[tuple[str, Callable[[], object]], ...]:
        """For the sentence that another server has the cards."""
        if not self.other:
            return ()
        switching = self._context.workbench.switching()
        return (
            (
                N_("Stop it and start this one"),
                lambda: self._ask("start", switching.switch(profile_id, REQUESTED_BY)),
            ),
        )

    def _got_changes(
        self, seen: tuple[str, Failure | None], changes: tuple[SettingChange, ...]
    ) -> None:
        if seen == self._seen:
            self._box.offer_restore(changes)

    def _got_profile(
        self,
        seen: tuple[str, Failure | None],
        loaded: tuple[Profile | None, TwinrigError | None],
    ) -> None:
        failure = seen[1]
        if seen == self._seen and failure is not None:
            engine = dict(failure.params).get("engine", "")
            self._box.offer_setup(
                engine_to_set_up(self._context.workbench, failure.finding_id, engine, loaded[0])
            )

    def _set_up(self, engine_id: str) -> None:
        self._submit(
            load_or_none(self._context.workbench, self._profile_id),
            lambda loaded: open_setup(self._context, engine_id, loaded[0], self._pane),
        )

    def _tell_went_back(self, done: Restarted) -> None:
        tr = self._context.texts.tr
        reason = tr(done.failure.text) if done.failure is not None else ""
        self._notice.tell(
            N_(
                "The changed settings did not start: {reason} Those that worked are back; your "
                "change is the previous version of the profile."
            ),
            tone="warn",
            reason=reason,
        )

    def _submit(self, work: Coroutine[Any, Any, Any], then: Callable[[Any], object]) -> None:
        self._context.bridge.submit(work, self, then, lambda _error: None)

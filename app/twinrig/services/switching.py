"""Another profile's server in place of the one that runs, and a restart that may go back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from twinrig.domain.errors import UsageError
from twinrig.domain.server import ACTIVE_STATES, ServerState
from twinrig.domain.supervision import Failure, ServerRecord
from twinrig.messages import message
from twinrig.services.controller import ServerController
from twinrig.services.last_good import LastGood, SettingChange
from twinrig.services.profile_store import ProfileStore

STOP_TIMEOUT_S = 120.0
LOAD_TIMEOUT_S = 3600.0
_DOWN = frozenset({ServerState.STOPPED, ServerState.FAILED})
_FAILED = frozenset({ServerState.FAILED, ServerState.BACKOFF})


@dataclass(frozen=True)
class Restarted:
    """``went_back``: the changed settings did not start (``failure`` says why), so those that
    worked are in force again; ``changes`` are what had been changed."""

    went_back: bool = False
    changes: tuple[SettingChange, ...] = ()
    failure: Failure | None = None


class Switching:
    """Use cases over one controller; ``target`` is the machine's name in profiles."""

    def __init__(
        self, controller: ServerController, profiles: ProfileStore, good: LastGood, target: str
    ) -> None:
        self._controller = controller
        self._profiles = profiles
        self._good = good
        self._target = target

    async def running(self, profile_id: str) -> str:
        """Id of another profile whose server would have to stop first; "" = none."""
        active = await self._controller.active()
        return "" if active is None or active.profile_id == profile_id else active.profile_id

    async def switch(self, profile_id: str, requested_by: str) -> str:
        """Stop what runs and start this profile's server; id of what was stopped, "" = nothing.

        A profile that cannot be started is refused before anything is stopped. Raises as
        ``ServerController.start``.
        """
        profile = await asyncio.to_thread(self._profiles.load, profile_id)
        if profile.target != self._target:
            raise UsageError(
                message(
                    "The profile {id} belongs to the target {target}.",
                    id=profile_id,
                    target=profile.target,
                ),
                message("Use --target {target}, or pick another profile.", target=profile.target),
            )
        other = await self.running(profile_id)
        if other:
            await self._controller.stop(other, requested_by)
            await self._controller.wait_for(other, _DOWN, STOP_TIMEOUT_S)
        await self._controller.start(profile_id, requested_by)
        return other

    async def restart(
        self,
        profile_id: str,
        requested_by: str,
        on_record: Callable[[ServerRecord], None] | None = None,
    ) -> Restarted:
        """Restart; when settings were changed while the server ran and do not start, go back.

        With unchanged settings, or a server that did not run, it is a plain restart and nothing
        is ever put back. Raises as ``ServerController.restart``.
        """
        status = await self._controller.status(profile_id)
        ran = status.record is not None and status.record.state in ACTIVE_STATES
        changes = await asyncio.to_thread(self._good.changes, profile_id) if ran else ()
        await self._controller.restart(profile_id, requested_by)
        if not changes:
            return Restarted()
        ends = {ServerState.READY, *_DOWN, *_FAILED}
        record = await self._controller.wait_for(profile_id, ends, LOAD_TIMEOUT_S, on_record)
        if record.state not in _FAILED:
            return Restarted(changes=changes)
        await self._controller.stop(profile_id, requested_by)
        await self._controller.wait_for(profile_id, _DOWN, STOP_TIMEOUT_S)
        await asyncio.to_thread(self._good.restore, profile_id)
        await self._controller.start(profile_id, requested_by)
        return Restarted(True, changes, record.failure)

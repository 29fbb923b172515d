"""Takes Twinrig back from this computer, one target after the other: what an uninstaller needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from twinrig.domain.errors import TwinrigError
from twinrig.domain.server import ACTIVE_STATES, ServerState
from twinrig.messages import Message, message
from twinrig.services.workbench import Workbench

REQUESTED_BY = "uninstaller"
STOP_LIMIT_S = 120.0

Tell = Callable[[Message], object]


@dataclass(frozen=True)
class Withdrawal:
    """What to do beside stopping servers, and ``tell``, which hears of each thing done.

    Each method returns what stayed behind, as sentences; nothing is raised for that.
    """

    bench: Workbench
    tell: Tell

    async def undo_changes(self) -> tuple[Message, ...]:
        """Take back every change of a fix, newest first; one that resists hinders no other."""
        left = []
        entries = [entry for entry in self.bench.journal.entries() if entry.can_undo]
        for entry in sorted(entries, key=lambda one: one.at_s, reverse=True):
            try:
                await self.bench.fixer.undo(entry.id)
            except TwinrigError as error:
                left.append(
                    message(
                        "Not taken back: {title}. {reason}", title=entry.title, reason=error.text
                    )
                )
            else:
                self.tell(message("Taken back: {title}", title=entry.title))
        problem = self.bench.journal.problem()
        return (*left, *(() if problem is None else (problem,)))

    async def stop_server(self) -> tuple[Message, ...]:
        """Stop the server that runs or was left behind, and wait for its end."""
        controller = self.bench.controller
        try:
            record = await controller.active_record()
            if record is None or record.state not in ACTIVE_STATES:
                return ()
            await controller.stop(record.profile_id, REQUESTED_BY)
            done = {ServerState.STOPPED, ServerState.FAILED}
            record = await controller.wait_for(record.profile_id, done, STOP_LIMIT_S)
        except TwinrigError as error:
            return (error.text,)
        if record.state is ServerState.FAILED and record.failure is not None:
            return (record.failure.text,)
        self.tell(message("Stopped the server of {profile}.", profile=record.profile_id))
        return ()

    async def unregister(self) -> tuple[Message, ...]:
        """Remove the tasks or units that start supervisors."""
        try:
            resisting = await self.bench.controller.unregister_all()
        except TwinrigError as error:
            return (error.text,)
        return tuple(message("Not removed: {name}", name=name) for name in resisting)

    async def forget_keys(self) -> tuple[Message, ...]:
        """Delete the keys of all profiles of this target from the key store."""
        profiles = self.bench.profiles.list().profiles
        names = {p.network.key_name for p in profiles if p.target == self.bench.target}
        try:
            for name in sorted(name for name in names if name):
                await self.bench.secrets.delete(name)
        except TwinrigError as error:
            return (error.text,)
        return ()

"""A task of Windows' Task Scheduler owns the supervisor of a profile."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

from twinrig.domain.errors import HostError
from twinrig.domain.ports import Clock, Lock
from twinrig.hosts.windows.schtasks import Schtasks
from twinrig.hosts.windows.task_names import TaskNames
from twinrig.hosts.windows.task_xml import TaskDefinition, TaskSpec
from twinrig.messages import message

SUPERVISOR_LOCK = "supervisor"
APPEAR_S = 90.0
"""A start is only asked for; a cold disk, a virus scanner and the logon may take so long. Whoever
waits for it has a limit of its own."""

_GRACE_S = 15.0
_POLL_S = 0.1


class WindowsTaskManager:
    """``ServiceManager``. Who runs is told by the lock, never by the scheduler's words.

    ``command`` gives the supervisor's command line for a profile, ``folder`` is where it runs.
    ``lock`` must be an object of its own, used for questions only.
    """

    def __init__(
        self,
        schtasks: Schtasks,
        names: TaskNames,
        command: Callable[[str], Sequence[str]],
        folder: Path,
        lock: Lock,
        clock: Clock,
    ) -> None:
        self._schtasks = schtasks
        self._names = names
        self._command = command
        self._folder = folder
        self._lock = lock
        self._clock = clock
        self._asked_at_s: dict[str, float] = {}

    @property
    def kind(self) -> str:
        """Fixed."""
        return "windows-task"

    async def start(self, profile_id: str) -> None:
        """Write the task when it is not as it should be, then ask for a start. Raises HostError.

        Returns before the supervisor exists; ``is_running`` is None until it is there.
        """
        if await self.is_running(profile_id):
            return
        at_logon = bool(await self.autostart(profile_id))
        name = await self._ensure(profile_id, at_logon)
        if not await self._schtasks.run(name) and not await self._retried(profile_id, at_logon):
            raise HostError(
                message("Windows does not start the task {name}.", name=name),
                message("Sign out of Windows and in again, then try again."),
            )
        self._asked_at_s[profile_id] = self._clock.monotonic()

    async def kill(self, profile_id: str) -> None:
        """End the task. Windows may end nothing of it, or the supervisor alone: then that is
        ended by its process id, and the next start sweeps what is left in Linux."""
        self._asked_at_s.pop(profile_id, None)
        for found in await self._found(profile_id):
            await self._schtasks.end(found.name)
        if not await self._until_gone(profile_id, _GRACE_S):
            pid = self._lock.holder(SUPERVISOR_LOCK)
            if pid is not None:
                with contextlib.suppress(OSError):
                    os.kill(pid, getattr(signal, "SIGKILL", signal.SIGTERM))
                await self._until_gone(profile_id, _GRACE_S)

    async def is_running(self, profile_id: str) -> bool | None:
        """By the lock. None while one that was asked for may still be on its way."""
        if self._lock.holder(SUPERVISOR_LOCK) is not None:
            return self._lock.holder_note(SUPERVISOR_LOCK) == profile_id
        asked_at_s = self._asked_at_s.get(profile_id)
        if asked_at_s is not None and self._clock.monotonic() - asked_at_s < APPEAR_S:
            return None
        return False

    async def set_autostart(self, profile_id: str, enabled: bool) -> None:
        """Start when this user signs in. Raises HostError when Windows refuses that."""
        if enabled or await self._found(profile_id):
            await self._ensure(profile_id, enabled)

    async def autostart(self, profile_id: str) -> bool | None:
        """Whether a task of the profile has a trigger that is switched on."""
        return any(found.at_logon for found in await self._found(profile_id))

    async def unregister_all(self, profile_ids: Sequence[str] = ()) -> tuple[str, ...]:
        """Remove all tasks of this user and place; returns the names of those that resist.

        ``profile_ids`` help where tasks cannot be listed.
        """
        listed = [found.name for found in await self._schtasks.definitions()]
        known = [name for i in profile_ids for name in self._names.candidates(i)]
        resisting = []
        for name in self._names.ours([*listed, *known]):
            if await self._schtasks.definition(name) is None:
                continue
            await self._schtasks.end(name)
            await self._schtasks.delete(name)
            if await self._schtasks.definition(name) is not None:
                resisting.append(name)
        return tuple(resisting)

    async def _found(self, profile_id: str) -> list[TaskDefinition]:
        names = self._names.candidates(profile_id)
        found = [await self._schtasks.definition(name) for name in names]
        return [
            TaskDefinition(**{**vars(one), "name": name})
            for one, name in zip(found, names, strict=True)
            if one is not None
        ]

    async def _ensure(self, profile_id: str, at_logon: bool, *, anew: bool = False) -> str:
        """Name of the task, once it does what it should."""
        found = await self._found(profile_id)
        for one in found:
            if not anew and one.does(self._spec(one.name, profile_id, at_logon)):
                return one.name
        self._check_program(profile_id)
        first, second = self._names.candidates(profile_id)
        present = [one.name for one in found]
        for name in dict.fromkeys((*present, first, second)):
            if await self._schtasks.create(self._spec(name, profile_id, at_logon)):
                for other in present:
                    if other != name:
                        await self._schtasks.delete(other)
                return name
        raise await self._refused(at_logon)

    async def _retried(self, profile_id: str, at_logon: bool) -> bool:
        """A task that was switched off, or lost meanwhile, is written anew."""
        return await self._schtasks.run(await self._ensure(profile_id, at_logon, anew=True))

    def _spec(self, name: str, profile_id: str, at_logon: bool) -> TaskSpec:
        return TaskSpec(
            name,
            self._names.user,
            tuple(self._command(profile_id)),
            str(self._folder),
            f"Keeps the server of the profile “{profile_id}” running. "
            "Made by Twinrig; safe to delete.",
            at_logon,
        )

    def _check_program(self, profile_id: str) -> None:
        program = self._command(profile_id)[0]
        if not Path(program).is_file():
            raise HostError(
                message("The program {path} is missing.", path=program),
                message("Install Twinrig again, then start the server."),
            )
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise HostError(
                message(
                    "{path} cannot be written: {reason}.",
                    path=str(self._folder),
                    reason=str(error.strerror),
                ),
                message("Make the folder writable for this user, then try again."),
            ) from error

    async def _refused(self, at_logon: bool) -> HostError:
        if at_logon:
            return HostError(
                message("Windows does not allow this user to start something at logon."),
                message(
                    "Start the server in Twinrig after you have signed in, or ask who "
                    "administers this computer."
                ),
            )
        return HostError(
            message("Windows does not allow this user to make a task."),
            message("Ask who administers this computer to allow tasks of the Task Scheduler."),
        )

    async def _until_gone(self, profile_id: str, limit_s: float) -> bool:
        deadline_s = self._clock.monotonic() + limit_s
        while await self.is_running(profile_id):
            if self._clock.monotonic() >= deadline_s:
                return False
            await self._clock.sleep(_POLL_S)
        return True

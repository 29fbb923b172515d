"""Starts the supervisor in a session of its own, for systems without a user's systemd."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from twinrig.domain.errors import HostError
from twinrig.domain.ports import Clock, Lock
from twinrig.hosts.local import signals
from twinrig.hosts.local.proc_table import ProcEntry, read_entry
from twinrig.messages import message

SUPERVISOR_LOCK = "supervisor"

# $0 is the file for output, the rest the command. The shell tells the pid and ends at once, so
# that the supervisor is nobody's child here: no zombie, nothing that a closing loop would kill.
_LAUNCHER = '"$@" </dev/null >>"$0" 2>&1 & echo $!'
_APPEAR_S = 5.0
_GRACE_S = 35.0
_POLL_S = 0.05


class DetachedManager:
    """``ServiceManager``. Who runs is told by the lock, which vanishes with its holder.

    ``output`` gets what the supervisor prints before it has a log of its own.
    """

    def __init__(
        self,
        command: Callable[[str], Sequence[str]],
        lock: Lock,
        environment: Mapping[str, str],
        output: Path,
        clock: Clock,
    ) -> None:
        self._command = command
        self._lock = lock
        self._environment = environment
        self._output = output
        self._clock = clock
        self._launched: ProcEntry | None = None

    @property
    def kind(self) -> str:
        """Fixed."""
        return "detached"

    async def start(self, profile_id: str) -> None:
        """Start it, without a terminal; waits a moment for it to take the lock.

        One that is quickly done (a stop that only sweeps) may never be seen; that is no error.
        """
        await self._until(lambda: not self._undecided(), _GRACE_S)
        if await self.is_running(profile_id):
            return
        try:
            self._output.parent.mkdir(parents=True, exist_ok=True)
            shell = await asyncio.create_subprocess_exec(
                "/bin/sh",
                "-c",
                _LAUNCHER,
                str(self._output),
                *self._command(profile_id),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                env=dict(self._environment),
                cwd="/",
                start_new_session=True,
            )
            told, _ = await shell.communicate()
        except OSError as error:
            raise HostError(
                message(
                    "The supervisor cannot be started: {reason}.",
                    reason=error.strerror or str(error),
                ),
                message("Check the installation of Twinrig, then try again."),
            ) from error
        self._launched = read_entry(int(told)) if told.strip().isdigit() else None
        await self._until(
            lambda: self._lock.holder(SUPERVISOR_LOCK) is not None or not self._launched_lives(),
            _APPEAR_S,
        )
        self._arrived(self._lock.holder(SUPERVISOR_LOCK))

    async def kill(self, profile_id: str) -> None:
        """TERM, which lets it end the server; KILL when it does not end."""
        pid = self._lock.holder(SUPERVISOR_LOCK)
        entry = None if pid is None else read_entry(pid)
        if entry is None or not await self.is_running(profile_id):
            return
        signals.send(entry.pid, entry.start_ticks, signal.SIGTERM)
        if not await self._until(lambda: read_entry(entry.pid) != entry, _GRACE_S):
            signals.send(entry.pid, entry.start_ticks, signal.SIGKILL)

    async def is_running(self, profile_id: str) -> bool | None:
        """Whether the lock is held for this profile, or one is on its way to take it."""
        holder = self._lock.holder(SUPERVISOR_LOCK)
        if holder is None:
            return self._launched_lives()
        self._arrived(holder)
        return self._lock.holder_note(SUPERVISOR_LOCK) == profile_id

    def _arrived(self, holder: int | None) -> None:
        """One that has held the lock is on no way to it any more: it lives on while it ends."""
        if self._launched is not None and holder == self._launched.pid:
            self._launched = None

    def _undecided(self) -> bool:
        """Whether the one launched last may be on its way to the lock, or at its end after it."""
        return self._lock.holder(SUPERVISOR_LOCK) is None and self._launched_lives()

    def _launched_lives(self) -> bool:
        known = self._launched
        entry = None if known is None else read_entry(known.pid)
        return known is not None and entry is not None and entry.start_ticks == known.start_ticks

    async def set_autostart(self, profile_id: str, enabled: bool) -> None:
        """Raises HostError: nothing here starts at logon."""
        if enabled:
            raise HostError(
                message("This system cannot start a server at logon: systemd does not run."),
                message("On WSL set “systemd=true” under [boot] in /etc/wsl.conf, restart WSL."),
            )

    async def autostart(self, profile_id: str) -> bool | None:
        """Never."""
        return False

    async def unregister_all(self, profile_ids: Sequence[str] = ()) -> tuple[str, ...]:
        """Nothing is ever registered."""
        return ()

    async def _until(self, condition: Callable[[], bool], limit_s: float) -> bool:
        deadline_s = self._clock.monotonic() + limit_s
        while not condition():
            if self._clock.monotonic() >= deadline_s:
                return False
            await self._clock.sleep(_POLL_S)
        return True

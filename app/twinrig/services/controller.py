"""Start, stop and look at the one server of a target, from any number of panels at once.

The panel's side only writes wishes and reads records: it can crash, update or quit. Nothing
here trusts one source alone: lock, record and endpoint are read together.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass

from twinrig.domain.errors import (
    ConflictError,
    DamagedFileError,
    HostError,
    TwinrigError,
    UsageError,
)
from twinrig.domain.ports import Clock, HttpClient, Lock, ServiceManager
from twinrig.domain.profile import Profile
from twinrig.domain.server import ACTIVE_STATES, ServerState
from twinrig.domain.supervision import Desired, DesiredState, ServerRecord, StateLayout
from twinrig.messages import Message, message
from twinrig.services.log_reader import LogChunk, LogReader, last_line
from twinrig.services.profile_store import ProfileStore
from twinrig.services.server_files import ServerFiles

__all__ = ["LogChunk", "ServerController", "ServerStatus"]

SUPERVISOR_LOCK = "supervisor"
CONTROL_LOCK = "control"
SUPERVISOR_OUTPUT = "supervisor-output.log"
POLL_S = 0.1
PICKUP_TIMEOUT_S = 60.0
"""A supervisor starts in about a second; a cold disk or a loaded machine takes far longer."""
RUNNING_AGE_S = 1.0
"""How often the service manager is asked whether it still runs one that has not reported."""
STOP_TIMEOUT_S = 90.0
ENDPOINT_TIMEOUT_S = 2.0
AUTOSTART_AGE_S = 30.0
ORPHAN_GRACE_S = 10.0

_AT_REST = frozenset({ServerState.STOPPED, ServerState.FAILED})
_FREEABLE = frozenset({ServerState.READY, ServerState.DEGRADED, ServerState.SLEEPING})


@dataclass(frozen=True)
class ServerStatus:
    """What is known of one profile's server, from lock, record and endpoint together.

    ``answering`` None: nobody was asked. ``problem`` is a sentence for the user.
    """

    profile_id: str
    record: ServerRecord | None
    supervisor_alive: bool
    answering: bool | None
    problem: Message | None
    autostart: bool | None


class ServerController:
    """One per target. ``lock`` must be an object of its own, used by nobody else."""

    def __init__(
        self,
        layout: StateLayout,
        manager: ServiceManager,
        profiles: ProfileStore,
        http: HttpClient,
        lock: Lock,
        clock: Clock,
        target: str,
    ) -> None:
        self._layout = layout
        self._manager = manager
        self._profiles = profiles
        self._http = http
        self._lock = lock
        self._clock = clock
        self._target = target
        self._files = ServerFiles(layout)
        self._logs = LogReader()
        self._mutex = asyncio.Lock()
        self._autostart: dict[str, tuple[float, bool | None]] = {}

    async def start(self, profile_id: str, requested_by: str) -> None:
        """See that the profile's server runs; one that starts or runs already is left alone.

        Returns once a supervisor works on it. Raises ConflictError when another profile's
        server is there, HostError when no supervisor takes over, ProfileError and the like.
        """
        self._own_profile(profile_id)
        async with self._control():
            if self._at_work(profile_id):
                return
            await self._until_free(profile_id)
            await self._refuse_orphan(profile_id)
            request = self._wish(profile_id, Desired.RUNNING, requested_by)
            try:
                await self._begin(profile_id, request)
            except TwinrigError:
                if self._holder() != profile_id:  # nobody took it: do not leave a wish behind
                    self._wish(profile_id, Desired.STOPPED, requested_by)
                raise

    async def stop(self, profile_id: str, requested_by: str) -> None:
        """Ask for the server to stop; returns at once. Works without a readable profile.

        With a dead supervisor a new one is started: it sweeps what is left and says STOPPED.
        """
        self._profiles.path(profile_id)
        async with self._control():
            if self._holder() == profile_id:
                self._wish(profile_id, Desired.STOPPED, requested_by)
                return
            try:
                record = self._files.record(profile_id)
                swept = record is None or record.state in _AT_REST
            except DamagedFileError:
                swept = False
            if swept:
                if self._files_say_running(profile_id):
                    self._wish(profile_id, Desired.STOPPED, requested_by)
                return
            self._refuse_other(profile_id)
            request = self._wish(profile_id, Desired.STOPPED, requested_by)
            await self._begin(profile_id, request)

    async def free(self, profile_id: str, requested_by: str) -> ServerState:
        """Ask for the memory of the cards: SLEEPING where the server can sleep, else STOPPED.

        Returns which of them was asked for; ``start`` loads the model again in both cases.
        Raises UsageError while there is no server that has loaded.
        """
        self._profiles.path(profile_id)
        async with self._control():
            record, _damage = self._look(profile_id)
            alive = self._holder() == profile_id
            if not alive or record is None or record.state not in _FREEABLE:
                raise UsageError(
                    message("The server of {profile} holds no card now.", profile=profile_id),
                    message("Wait until it is ready, or stop it."),
                )
            if record.can_sleep:
                self._wish(profile_id, Desired.SLEEPING, requested_by)
                return ServerState.SLEEPING
        await self.stop(profile_id, requested_by)
        return ServerState.STOPPED

    async def restart(self, profile_id: str, requested_by: str) -> None:
        """Stop, wait until it is down, start. Raises as ``start``; HostError on time-out."""
        self._own_profile(profile_id)
        await self.stop(profile_id, requested_by)
        await self.start(profile_id, requested_by)

    def _look(self, profile_id: str) -> tuple[ServerRecord | None, DamagedFileError | None]:
        try:
            return self._files.record(profile_id), None
        except DamagedFileError as error:
            return None, error

    async def status(self, profile_id: str) -> ServerStatus:
        """The merged picture of one profile's server; damaged files are told, not raised."""
        self._profiles.path(profile_id)
        alive = self._holder() == profile_id
        record, damage = self._look(profile_id)
        problem = None if damage is None else damage.text
        active = record is not None and record.state in ACTIVE_STATES
        answering = await self._answering(record) if record is not None and active else None
        if record is not None and active and not alive:
            problem = _orphan_text(answering, self._manager.kind)
        return ServerStatus(
            profile_id, record, alive, answering, problem, await self._autostart_of(profile_id)
        )

    async def active(self) -> ServerStatus | None:
        """Status of the target's server that runs, starts or was left behind; None = none."""
        holder = self._holder()
        if holder:
            return await self.status(holder)
        record = self._files.latest(active=True)
        return None if record is None else await self.status(record.profile_id)

    async def active_record(self) -> ServerRecord | None:
        """The record a monitor shows: at work, else left behind, else failed last.

        Cheap enough for once a second: a stat per profile, no network.
        """
        holder = self._holder()
        try:
            record = self._files.record(holder) if holder else None
        except DamagedFileError:
            return None
        if record is not None:
            return record
        return self._files.latest(active=True) or self._files.latest(active=False)

    async def wait_for(
        self,
        profile_id: str,
        states: Collection[ServerState],
        timeout_s: float,
        on_record: Callable[[ServerRecord], None] | None = None,
    ) -> ServerRecord:
        """The record once it answers the last request and is in one of ``states``.

        ``on_record`` sees each look at a record that answers the request.
        Raises HostError on time-out, or when the supervisor is gone without getting there.
        """
        deadline = self._clock.monotonic() + timeout_s
        gone_since: float | None = None
        while True:
            record, damage = self._look(profile_id)
            if record is not None and self._is_answer(record):
                if on_record is not None:
                    on_record(record)
                if record.state in states:
                    return record
            now = self._clock.monotonic()
            gone_since = None if self._holder() == profile_id else (gone_since or now)
            late = now >= deadline
            gone = gone_since is not None and now - gone_since > ORPHAN_GRACE_S
            if damage is not None and (late or gone):
                raise damage  # a supervisor at work would have put it aside
            if gone:
                raise HostError(
                    message("The supervisor of {profile} is gone.", profile=profile_id),
                    self._look_at_log(profile_id),
                )
            if late:
                raise HostError(
                    message("{profile} did not get there in time.", profile=profile_id),
                    self._look_at_log(profile_id),
                )
            await self._clock.sleep(POLL_S)

    def read_log(
        self, profile_id: str, file_id: str = "", offset: int = -1, limit_bytes: int = 262144
    ) -> LogChunk:
        """A piece of the server's log; see ``LogReader.read``. Blocks for a file read."""
        self._profiles.path(profile_id)
        return self._logs.read(self._layout.log(profile_id), file_id, offset, limit_bytes)

    async def set_autostart(self, profile_id: str, enabled: bool) -> None:
        """Start at logon, or not. Raises HostError where that is not possible."""
        if enabled:
            self._own_profile(profile_id)
        self._autostart.pop(profile_id, None)
        await self._manager.set_autostart(profile_id, enabled)

    async def unregister_all(self) -> tuple[str, ...]:
        """Remove what starts supervisors of this target; returns names of what stays.

        Raises HostError. A server that runs should be stopped before.
        """
        known = {p.id for p in self._profiles.list().profiles} | set(self._files.profile_ids())
        self._autostart.clear()
        return await self._manager.unregister_all(sorted(known))

    # ---------------------------------------------------------------- one at a time

    @asynccontextmanager
    async def _control(self) -> AsyncIterator[None]:
        """One start or stop at a time: in this process by a mutex, between them by a lock."""
        async with self._mutex:
            deadline = self._clock.monotonic() + PICKUP_TIMEOUT_S + STOP_TIMEOUT_S
            while not self._lock.acquire(CONTROL_LOCK):
                if self._clock.monotonic() >= deadline:
                    raise ConflictError(
                        message("Another window or terminal is starting or stopping the server."),
                        message("Wait until it is done, then try again."),
                    )
                await self._clock.sleep(POLL_S)
            try:
                yield
            finally:
                self._lock.release()

    def _holder(self) -> str:
        return self._lock.holder_note(SUPERVISOR_LOCK)

    def _own_profile(self, profile_id: str) -> Profile:
        profile = self._profiles.load(profile_id)
        if profile.target != self._target:
            raise UsageError(
                message(
                    "The profile {id} belongs to the target {target}.",
                    id=profile_id,
                    target=profile.target,
                ),
                message("Use --target {target}, or pick another profile.", target=profile.target),
            )
        return profile

    def _wish(self, profile_id: str, desired: Desired, requested_by: str) -> str:
        request_id = uuid.uuid4().hex
        now = self._clock.now()
        self._files.request(profile_id, DesiredState(desired, request_id, requested_by, now))
        return request_id

    def _files_say_running(self, profile_id: str) -> bool:
        try:
            desired = self._files.desired(profile_id)
        except DamagedFileError:
            return True
        return desired is not None and desired.desired is not Desired.STOPPED

    def _files_say_sleeping(self, profile_id: str) -> bool:
        try:
            desired = self._files.desired(profile_id)
        except DamagedFileError:
            return False
        return desired is not None and desired.desired is Desired.SLEEPING

    # ---------------------------------------------------------------- who is there

    def _refuse_other(self, profile_id: str) -> None:
        holder = self._holder()
        if holder and holder != profile_id:
            raise ConflictError(
                message("The server of {profile} is running on this target.", profile=holder),
                message("Stop it first: one server at a time uses both cards."),
            )

    def _at_work(self, profile_id: str) -> bool:
        """Whether a supervisor is bringing up or keeping this profile's server already."""
        self._refuse_other(profile_id)
        if self._holder() != profile_id or not self._files_say_running(profile_id):
            return False
        if self._files_say_sleeping(profile_id):
            self._wish(profile_id, Desired.RUNNING, "wake")
            return True
        try:
            record = self._files.record(profile_id)
        except DamagedFileError:
            return True
        if record is None or not self._is_answer(record):
            return True  # it has only just begun
        if record.state is ServerState.BACKOFF:
            self._wish(profile_id, Desired.RUNNING, "retry")  # a new request ends the waiting
            return True
        return record.state not in {*_AT_REST, ServerState.STOPPING}

    async def _until_free(self, profile_id: str) -> None:
        """Wait for a supervisor that is on its way out."""
        deadline = self._clock.monotonic() + STOP_TIMEOUT_S
        while self._holder():
            self._refuse_other(profile_id)
            if self._clock.monotonic() >= deadline:
                raise HostError(
                    message("The server of {profile} does not stop.", profile=profile_id),
                    self._look_at_log(profile_id),
                )
            await self._clock.sleep(POLL_S)

    async def _refuse_orphan(self, profile_id: str) -> None:
        record = self._files.latest(active=True)
        if record is None or record.profile_id == profile_id:
            return  # its own leftovers are swept by the supervisor
        if await self._answering(record):
            raise ConflictError(
                message(
                    "The server of {profile} still runs, although its supervisor is gone.",
                    profile=record.profile_id,
                ),
                message("Stop {profile} first; that ends what is left.", profile=record.profile_id),
            )

    async def _begin(self, profile_id: str, request_id: str) -> None:
        """Start a supervisor and wait until it works on the request. Raises HostError."""
        output = self._layout.root / SUPERVISOR_OUTPUT
        seen_bytes = output.stat().st_size if output.is_file() else 0
        await self._manager.start(profile_id)
        deadline = self._clock.monotonic() + PICKUP_TIMEOUT_S
        next_question = 0.0
        while True:
            now = self._clock.monotonic()
            ended = False
            if now >= next_question:  # asked first: one that was quick has left a record
                next_question = now + RUNNING_AGE_S
                ended = await self._manager.is_running(profile_id) is False
            self._refuse_other(profile_id)
            record, _ = self._look(profile_id)
            if self._holder() == profile_id or (record and record.request_id == request_id):
                return
            if ended:
                raise self._did_not_start(profile_id, last_line(output, seen_bytes))
            if now >= deadline:
                raise self._did_not_start(profile_id, "")
            await self._clock.sleep(POLL_S)

    def _did_not_start(self, profile_id: str, reason: str) -> HostError:
        step = self._look_at_output(profile_id)
        if reason:
            return HostError(
                message(
                    "The supervisor of {profile} ended at once: {reason}",
                    profile=profile_id,
                    reason=reason,
                ),
                step,
            )
        return HostError(
            message("The supervisor of {profile} did not start.", profile=profile_id), step
        )

    def _is_answer(self, record: ServerRecord) -> bool:
        """Whether ``record`` is about the last request, not about an earlier run."""
        try:
            desired = self._files.desired(record.profile_id)
        except DamagedFileError:
            return True
        if desired is None or record.request_id in ("", desired.request_id):
            return True
        # A stop that found nothing to stop leaves the record of the earlier run.
        at_rest = record.state in _AT_REST and not self._holder()
        return desired.desired is Desired.STOPPED and at_rest

    async def _answering(self, record: ServerRecord) -> bool:
        if not record.base_url:
            return False
        try:
            response = await self._http.get(
                record.base_url + "/health", timeout_s=ENDPOINT_TIMEOUT_S
            )
        except HostError:
            return False
        return response.status < 500

    async def _autostart_of(self, profile_id: str) -> bool | None:
        known = self._autostart.get(profile_id)
        now = self._clock.monotonic()
        if known is not None and now - known[0] < AUTOSTART_AGE_S:
            return known[1]
        try:
            value = await self._manager.autostart(profile_id)
        except HostError:
            value = None
        self._autostart[profile_id] = (now, value)
        return value

    def _look_at_output(self, profile_id: str) -> Message:
        """What a supervisor prints before it has a log of its own, where that is a file."""
        if self._manager.kind == "systemd-user":
            return message('"journalctl --user -n 50" shows what it said.')
        output = self._layout.root / SUPERVISOR_OUTPUT
        return (
            message("Look at {path}.", path=str(output))
            if output.exists()
            else self._look_at_log(profile_id)
        )

    def _look_at_log(self, profile_id: str) -> Message:
        return message("Look at {path}.", path=str(self._layout.supervisor_log(profile_id)))


def _orphan_text(answering: bool | None, kind: str) -> Message:
    if kind == "windows-task" and not answering:
        return message(
            "The server is gone with what kept it: its task was ended, or you signed out of "
            "Windows. Start begins anew, Stop tidies up what is left."
        )
    if answering:
        return message(
            "The supervisor is gone, but the server still answers. Stop it to tidy up, "
            "or start it again under a new supervisor."
        )
    return message(
        "The supervisor is gone and the server does not answer. Stop it to tidy up what is left."
    )

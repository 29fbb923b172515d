"""Proves that a server stays when everything else is left alone; works on every target.

WSL stops a distribution 15 s after its last Windows program has gone, and its machine a minute
later. So the proof waits longer than both without a single call into Linux, and then compares.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from twinrig.domain.errors import ConflictError, HostError
from twinrig.domain.ports import Clock, Host
from twinrig.domain.server import ANSWERING_STATES, ServerState
from twinrig.domain.supervision import ServerRecord, is_silent
from twinrig.messages import Message, message
from twinrig.services.controller import ServerController, ServerStatus

PROOF_S = 120.0
_LOOK_S = 1.0
_AT_REST = frozenset({ServerState.STOPPED, ServerState.STOPPING, ServerState.SLEEPING})


@dataclass(frozen=True)
class Proof:
    """The verdict. ``kept`` None: nothing is known, since it was stopped meanwhile.

    ``shown`` is what was seen, ``untried`` what this proof does not cover.
    """

    kept: bool | None
    text: Message
    next_step: Message | None = None
    shown: tuple[Message, ...] = ()
    untried: tuple[Message, ...] = ()


class PersistenceProof:
    """``quiet_host`` is one that never starts a machine, None where there is none to start."""

    def __init__(
        self,
        controller: ServerController,
        clock: Clock,
        service_kind: str,
        quiet_host: Host | None = None,
    ) -> None:
        self._controller = controller
        self._clock = clock
        self._kind = service_kind
        self._quiet_host = quiet_host

    async def run(
        self,
        profile_id: str,
        on_progress: Callable[[float], None] = lambda _left_s: None,
        wait_s: float = PROOF_S,
    ) -> Proof:
        """Takes ``wait_s``; ``on_progress`` gets the seconds left. Cancelling harms nothing.

        Raises ConflictError when the server is not ready.
        """
        before = await self._ready(profile_id)
        deadline_s = self._clock.monotonic() + wait_s
        while (left_s := deadline_s - self._clock.monotonic()) > 0:
            on_progress(left_s)
            await self._clock.sleep(min(_LOOK_S, left_s))
            now = await self._controller.active_record()
            if (verdict := self._lost(before, now)) is not None:
                return verdict
        return await self._judge(before, wait_s)

    async def _ready(self, profile_id: str) -> ServerRecord:
        status = await self._controller.status(profile_id)
        record = status.record
        if record is None or record.state is not ServerState.READY or not status.supervisor_alive:
            raise ConflictError(
                message("Only a server that is ready can be proven to stay."),
                message("Start it, wait until it is ready, then try again."),
            )
        return record

    def _lost(self, before: ServerRecord, now: ServerRecord | None) -> Proof | None:
        """Why the waiting need not go on; None = it stands."""
        if now is None or now.profile_id != before.profile_id or now.state in _AT_REST:
            return Proof(
                None,
                message("The server was stopped during the proof; nothing is known."),
                message("Start it and prove it again."),
            )
        if now.run_id == before.run_id and now.state in ANSWERING_STATES:
            if is_silent(now, self._clock.now()):
                return Proof(
                    False,
                    message("What keeps the server does not report any more."),
                    message("Look at the state on the Server page, or with twinrig status."),
                )
            return None
        cause = now.failure
        if cause is None:
            text = message("It did not stay: it ended by itself and was started again.")
            return Proof(False, text, message("Look at the log for the reason."))
        text = message("It did not stay. {cause}", cause=cause.text)
        return Proof(False, text, cause.next_step)

    async def _judge(self, before: ServerRecord, wait_s: float) -> Proof:
        status = await self._controller.status(before.profile_id)
        if (verdict := self._lost(before, status.record)) is not None:
            return verdict
        fault = await self._machine_fault()
        if fault is not None:
            return Proof(False, fault.text, fault.next_step)
        if not status.supervisor_alive:
            return Proof(
                False,
                message("The server still answers, but what kept it is gone."),
                message("Stop it to tidy up, then start it again."),
            )
        if not status.answering:
            return Proof(
                False,
                message("The process of the server lives, but it does not answer."),
                message("Look at the log for the reason."),
            )
        return Proof(
            True,
            message("It stays: nothing had to keep a window or a terminal open for it."),
            None,
            self._shown(status, wait_s),
            (_UNTRIED.get(self._kind, _UNTRIED["detached"]),),
        )

    async def _machine_fault(self) -> HostError | None:
        if self._quiet_host is None:
            return None
        try:
            await self._quiet_host.run(("true",))
        except HostError as error:
            return error
        return None

    def _shown(self, status: ServerStatus, wait_s: float) -> tuple[Message, ...]:
        seconds = f"{wait_s:.0f}"
        waited = (
            message(
                "{seconds} s passed without a call into WSL; WSL stops what nobody uses after 15 s "
                "and its machine a minute later.",
                seconds=seconds,
            )
            if self._quiet_host is not None
            else message("{seconds} s passed without a touch.", seconds=seconds)
        )
        assert status.record is not None
        same = message(
            "The same process answers as before (number {pid}).", pid=status.record.server_pid
        )
        return (waited, same, _OWNERS.get(self._kind, _OWNERS["detached"]))


_OWNERS = {
    "windows-task": message("It belongs to a task of Windows, not to this window."),
    "systemd-user": message("It belongs to a service of this system, not to this window."),
    "detached": message("It belongs to a process of its own, not to this window."),
}
_UNTRIED = {
    "windows-task": message(
        "Not tried: signing out of Windows (that ends it; Start at logon brings it back), sleep of "
        "the computer, and wsl --shutdown."
    ),
    "systemd-user": message("Not tried: logging out, and a restart of the computer."),
    "detached": message("Not tried: logging out. A restart of the computer ends it."),
}

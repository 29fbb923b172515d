"""Restarts WSL so that changed settings are read: tells what stops, and starts the server again.

``wsl --shutdown`` ends the distributions of other programs too, such as Docker Desktop.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Protocol

from twinrig.domain.errors import HostError
from twinrig.domain.fixes import RestartWslStep
from twinrig.domain.ports import Clock, WslDistros
from twinrig.domain.server import ACTIVE_STATES, ServerState
from twinrig.domain.supervision import ServerRecord
from twinrig.messages import message
from twinrig.services.fix_steps import StepPreview
from twinrig.services.journal import AppliedStep

REQUESTED_BY = "wsl-restart"
STOP_TIMEOUT_S = 120.0
DOWN_TIMEOUT_S = 60.0
_PAUSE_S = 0.5
_AT_REST = frozenset({ServerState.STOPPED, ServerState.FAILED})


class Servers(Protocol):
    """What is needed of ``ServerController``."""

    async def active_record(self) -> ServerRecord | None: ...

    async def stop(self, profile_id: str, requested_by: str) -> None: ...

    async def wait_for(
        self, profile_id: str, states: frozenset[ServerState], timeout_s: float
    ) -> ServerRecord: ...

    async def start(self, profile_id: str, requested_by: str) -> None: ...


@dataclass(frozen=True)
class Impact:
    """What a restart stops. ``server`` is the profile whose server is started again, "" = none;
    ``distros`` are those that run now and are ended with everything in them; None: WSL hangs and
    does not say."""

    server: str
    distros: tuple[str, ...] | None


class WslRestart:
    """``distro`` is the target's own, "" = WSL's default one."""

    def __init__(self, distros: WslDistros, servers: Servers, clock: Clock, distro: str) -> None:
        self._distros = distros
        self._servers = servers
        self._clock = clock
        self._distro = distro
        self._one_at_a_time = asyncio.Lock()

    async def impact(self, *, whole: bool = True) -> Impact:
        """What would stop now. A WSL that hangs is no fault here: the restart is its cure."""
        server = await self._server()
        try:
            running = await self._distros.running()
            if not whole:
                own = (await self._distros.choose(self._distro)).name.casefold()
                running = frozenset(name for name in running if name.casefold() == own)
        except HostError:
            return Impact(server, None)
        return Impact(server, tuple(sorted(running)))

    async def run(self, *, whole: bool = True) -> str:
        """Profile of the server that was started again, "" = none ran.

        The server is stopped as by the user, so that nothing of it is lost; when it does not
        stop, WSL is left alone, unless WSL hangs: then nothing but the restart helps. When WSL
        does not stop, the server is started again all the same. Raises HostError.
        """
        async with self._one_at_a_time:
            impact = await self.impact(whole=whole)
            server = impact.server
            if server:
                await self._servers.stop(server, REQUESTED_BY)
                await self._until_at_rest(server, hangs=impact.distros is None)
            try:
                await self._stop(whole)
            finally:
                if server:
                    await asyncio.shield(self._servers.start(server, REQUESTED_BY))
        return server

    async def _until_at_rest(self, server: str, *, hangs: bool) -> None:
        try:
            await self._servers.wait_for(server, _AT_REST, STOP_TIMEOUT_S)
        except HostError:
            if not hangs:
                raise

    async def _server(self) -> str:
        record = await self._servers.active_record()
        if record is None or record.state not in ACTIVE_STATES:
            return ""
        return record.profile_id

    async def _stop(self, whole: bool) -> None:
        if whole:
            await self._distros.shutdown()
            await self._until_down(lambda running: not running)
            return
        name = (await self._distros.choose(self._distro)).name
        await self._distros.terminate(name)
        folded = name.casefold()
        await self._until_down(lambda running: folded not in {n.casefold() for n in running})

    async def _until_down(self, is_down: Any) -> None:
        deadline = self._clock.monotonic() + DOWN_TIMEOUT_S
        while not is_down(await self._distros.running()):
            if self._clock.monotonic() >= deadline:
                raise HostError(
                    message("WSL did not stop within {limit} s.", limit=f"{DOWN_TIMEOUT_S:g}"),
                    message("Restart Windows; the new settings are read then."),
                )
            await self._clock.sleep(_PAUSE_S)


class RestartSteps:
    """The restart as a step of a fix. ``restart`` None: there is no WSL to be restarted here."""

    def __init__(self, restart: WslRestart | None) -> None:
        self._restart = restart

    async def preview(self, step: RestartWslStep) -> StepPreview:
        """The command, and what it stops at this moment."""
        impact = await self._needed().impact(whole=step.whole)
        return StepPreview(message("Restart WSL"), "wsl-restart", _text(step, impact), root=False)

    async def record(self, step: RestartWslStep) -> AppliedStep:
        """Nothing is needed to take it back."""
        impact = await self._needed().impact(whole=step.whole)
        return AppliedStep("wsl-restart", _text(step, impact), {"whole": step.whole})

    async def apply(self, step: RestartWslStep, record: AppliedStep) -> None:
        """Raises HostError when the server or WSL does not stop."""
        await self._needed().run(whole=step.whole)

    async def check_revert(self, record: AppliedStep) -> None:
        """There is nothing to take back."""

    async def revert(self, record: AppliedStep) -> None:
        """There is nothing to take back; what stands before this step is, and is read at the
        next start of WSL."""

    def _needed(self) -> WslRestart:
        if self._restart is None:
            raise HostError(
                message("WSL cannot be restarted from inside WSL or without Windows."),
                message("In PowerShell: wsl --shutdown"),
            )
        return self._restart


def _text(step: RestartWslStep, impact: Impact) -> str:
    """In words of the command line; a list of names needs no translation."""
    names = "?" if impact.distros is None else ", ".join(impact.distros) or "-"
    if not step.whole:
        lines = [f"wsl --terminate {names}" if impact.distros else f"# wsl --terminate: {names}"]
    else:
        lines = ["wsl --shutdown", f"# stops: {names}"]
    if impact.server:
        lines = [
            f"twinrig stop {impact.server}",
            *lines,
            f"twinrig start {impact.server}",
        ]
    return "\n".join(lines)

"""Sleep: when the computer woke, and whether WSL still answers then."""

from __future__ import annotations

import asyncio
import contextlib

from twinrig.domain.errors import HostAwayError, HostError
from twinrig.domain.ports import Clock, WslDistros
from twinrig.hosts.windows.power import ResumeNotice
from twinrig.messages import message

TICK_S = 5.0
GAP_S = 20.0
"""A clock that ran on by so much more than we waited was that of a computer asleep."""


class WakeWatch:
    """``MachineWatch``. Windows tells of it where it can; a gap in time is seen everywhere."""

    def __init__(
        self, distros: WslDistros, clock: Clock, notice: ResumeNotice | None = None
    ) -> None:
        self._distros = distros
        self._clock = clock
        self._notice = notice or ResumeNotice()
        self._running: frozenset[str] = frozenset()

    async def woke(self) -> None:
        """Returns when the computer woke from sleep. Set back or forward clocks count as well:
        that costs one question."""
        with contextlib.suppress(HostError):
            self._running = await self._distros.running()
        event = asyncio.Event()
        with self._notice.telling(event):
            while True:
                began_s = self._clock.now()
                if await self._told(event) or self._clock.now() - began_s > TICK_S + GAP_S:
                    return

    async def fault(self) -> HostError | None:
        """What keeps WSL from answering; None = it answers. Starts no distribution."""
        try:
            await self._distros.running()
        except HostError as error:
            names = ", ".join(sorted(self._running))
            return HostAwayError(
                message("WSL does not answer any more since the computer woke from sleep."),
                message(
                    'Run "wsl --shutdown" in a terminal. That ends everything in WSL: this server '
                    "and what else runs in {names}. Then start the server again.",
                    names=names,
                )
                if names
                else error.next_step,
                finding_id="wsl-catastrophic",
                fixes=("wsl-restart", "wsl-update", "win-reboot"),
            )
        return None

    async def _told(self, event: asyncio.Event) -> bool:
        told = asyncio.ensure_future(event.wait())
        tick = asyncio.ensure_future(self._clock.sleep(TICK_S))
        try:
            await asyncio.wait([told, tick], return_when=asyncio.FIRST_COMPLETED)
            return told.done()
        finally:
            told.cancel()
            tick.cancel()
            await asyncio.gather(told, tick, return_exceptions=True)

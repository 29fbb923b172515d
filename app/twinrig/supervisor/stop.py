"""Ends a server and everything it started, gently first, within half a minute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from twinrig.domain.launch import LaunchSpec, StopSignal
from twinrig.domain.ports import Clock, ProcessInfo, RunningServer, ServerLauncher
from twinrig.supervisor.own_log import OwnLog
from twinrig.supervisor.timing import Timing
from twinrig.supervisor.waiting import within


@dataclass(frozen=True)
class Sweeper:
    """Finds and ends what a run left behind."""

    launcher: ServerLauncher
    clock: Clock
    timing: Timing
    log: OwnLog

    async def stop(self, server: RunningServer, spec: LaunchSpec, run_id: str) -> float:
        """Stop signal to the server, KILL when it does not end in time.

        Returns the seconds that orphans may have for their own clean-up: none after a KILL.
        """
        limit_s = min(spec.stop_timeout_s, self.timing.stop_limit_s)
        began_s = self.clock.monotonic()
        await server.signal(spec.stop_signal)
        ended, status = await within(self.clock, limit_s, server.wait())
        if ended:
            self.log.say(f"server ended by itself after {spec.stop_signal}: {status}")
            left_s = self.timing.stop_limit_s - (self.clock.monotonic() - began_s)
            return min(self.timing.orphan_grace_s, max(0.0, left_s))
        self.log.say(f"server did not end within {limit_s:.0f} s: KILL")
        await server.signal(StopSignal.KILL)
        await within(self.clock, self.timing.kill_wait_s, server.wait())
        return 0.0

    async def sweep(
        self,
        run_id: str,
        shared_memory: Sequence[str],
        grace_s: float,
    ) -> tuple[ProcessInfo, ...]:
        """End all processes of the run, then remove its shared memory; returns what resists.

        TERM goes to the topmost ones, which end their children and clean up (vLLM's EngineCore
        needed up to 19 s); KILL to all that are left after ``grace_s``.
        """
        if not run_id:
            return ()
        found = await self.launcher.survivors(run_id)
        names = set(shared_memory)
        names.update(await self.launcher.shared_memory_of([p.pid for p in found]))
        if found and grace_s > 0:
            self.log.say(f"left over of run {run_id}: {_titles(found)}: TERM")
            await self.launcher.signal_processes(_topmost(found), StopSignal.TERM)
            found = await self._until_gone(run_id, grace_s)
        if found:
            self.log.say(f"left over of run {run_id}: {_titles(found)}: KILL")
            found = await self._kill(run_id, found)
        if names:
            await self.launcher.remove_shared_memory(sorted(names))
        return found

    async def _kill(self, run_id: str, found: tuple[ProcessInfo, ...]) -> tuple[ProcessInfo, ...]:
        deadline_s = self.clock.monotonic() + self.timing.kill_wait_s
        while found and self.clock.monotonic() < deadline_s:
            await self.launcher.signal_processes([p.pid for p in found], StopSignal.KILL)
            await self.clock.sleep(self.timing.poll_exit_s)
            found = await self.launcher.survivors(run_id)
        return found

    async def _until_gone(self, run_id: str, limit_s: float) -> tuple[ProcessInfo, ...]:
        deadline_s = self.clock.monotonic() + limit_s
        while True:
            found = await self.launcher.survivors(run_id)
            if not found or self.clock.monotonic() >= deadline_s:
                return found
            await self.clock.sleep(self.timing.poll_exit_s)


def _topmost(found: Sequence[ProcessInfo]) -> list[int]:
    pids = {process.pid for process in found}
    return [process.pid for process in found if process.parent_pid not in pids]


def _titles(found: Sequence[ProcessInfo]) -> str:
    return ", ".join(f"{process.pid} {process.title[:60]}" for process in found)

"""Watches a serving server until there is evidence that it must be restarted."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from twinrig.domain.metrics import EngineMetrics
from twinrig.messages import Message
from twinrig.supervisor.judge import Judge, Verdict
from twinrig.supervisor.probe import ProbeResult
from twinrig.supervisor.readiness import Asker
from twinrig.supervisor.waiting import cancel


class Listener(Protocol):
    """Is told what the watch found out."""

    def probed(self, result: ProbeResult) -> None:
        """A probe ended; its tokens are the supervisor's own."""
        ...

    def judged(self, verdict: Verdict) -> None:
        """The present conclusion, after each look."""
        ...


async def watch(
    asker: Asker, counters: Callable[[], Awaitable[EngineMetrics | None]], listener: Listener
) -> Message:
    """Look every ``watch_s``; returns the evidence for a restart, and only then.

    A probe runs beside the looks: behind a long reply it may wait for minutes while the moving
    counters show that all is well.
    """
    clock, timing = asker.clock, asker.timing
    judge = Judge(timing, clock.monotonic())
    limit_s = asker.spec.readiness.later_timeout_s
    probe: asyncio.Task[ProbeResult] | None = None
    try:
        while True:
            await clock.sleep(timing.watch_s)
            judge.see_metrics(clock.monotonic(), await counters())
            judge.see_health(await asker.liveness(timing.request_timeout_s))
            if probe is not None and probe.done():
                listener.probed(probe.result())
                judge.see_probe(clock.monotonic(), probe.result(), limit_s)
                probe = None
            if probe is None and judge.probe_due(clock.monotonic()):
                probe = asyncio.ensure_future(asker.probe(limit_s))
            verdict = judge.verdict()
            listener.judged(verdict)
            if verdict.restart is not None:
                return verdict.restart
    finally:
        if probe is not None:
            await cancel(probe)

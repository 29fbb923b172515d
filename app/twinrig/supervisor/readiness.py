"""From launched to READY: the endpoint answers, then one completion succeeds."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from twinrig.domain.launch import Endpoint, LaunchSpec
from twinrig.domain.ports import Clock, HttpClient
from twinrig.domain.supervision import Failure
from twinrig.messages import message
from twinrig.supervisor.health import CUT_OFF, Health, ask_health
from twinrig.supervisor.probe import ProbeOutcome, ProbeResult, run_probe
from twinrig.supervisor.timing import Timing


@dataclass(frozen=True)
class Asker:
    """How to ask one server; shared by readiness and liveness."""

    http: HttpClient
    clock: Clock
    spec: LaunchSpec
    timing: Timing
    refused: Callable[[Endpoint], Awaitable[bool]]
    cut_off: Callable[[Endpoint], Awaitable[bool]]

    async def health(self, timeout_s: float) -> Health:
        """Readiness endpoint."""
        return await ask_health(self.http, self.spec, timeout_s, self._silence)

    async def liveness(self, timeout_s: float) -> Health:
        """What is asked while it serves."""
        path = self.spec.readiness.liveness_path
        return await ask_health(self.http, self.spec, timeout_s, self._silence, path)

    async def probe(self, timeout_s: float) -> ProbeResult:
        """Sampled completion."""
        return await run_probe(self.http, self.clock, self.spec, timeout_s)

    async def _silence(self, endpoint: Endpoint) -> Health:
        if not await self.refused(endpoint):
            return Health.SILENT
        return Health.CUT_OFF if await self.cut_off(endpoint) else Health.REFUSED


@dataclass(frozen=True)
class NotReady:
    """Why a server never became ready. ``permanent``: trying again cannot help."""

    failure: Failure
    permanent: bool


async def until_listening(asker: Asker, deadline_s: float) -> NotReady | None:
    """Wait for the endpoint, up to ``deadline_s`` (monotonic). None = it answers."""
    timing, cut_off_s = asker.timing, 0.0
    while (health := await asker.health(timing.ready_timeout_s)) is not Health.FINE:
        now_s = asker.clock.monotonic()
        cut_off_s = (cut_off_s or now_s) if health is Health.CUT_OFF else 0.0
        if cut_off_s and now_s - cut_off_s >= timing.cut_off_s:
            return NotReady(_cut_off(), permanent=True)
        if now_s >= deadline_s:
            return _too_slow(asker.spec)
        await asker.clock.sleep(timing.ready_poll_s)
    return None


async def until_proven(asker: Asker, deadline_s: float) -> NotReady | ProbeResult:
    """Repeat the completion until it succeeds; a time-out alone ends nothing before the deadline.

    The first gets a generous limit, since communicators are built on the first request.
    """
    limit_s = asker.spec.readiness.first_timeout_s
    while True:
        result = await asker.probe(limit_s)
        if result.outcome is ProbeOutcome.FINE:
            return result
        if result.outcome is ProbeOutcome.REFUSED:
            return NotReady(_refused(result), permanent=True)
        if asker.clock.monotonic() >= deadline_s:
            return _too_slow(asker.spec)
        await asker.clock.sleep(asker.timing.ready_poll_s)
        limit_s = asker.spec.readiness.later_timeout_s


def _too_slow(spec: LaunchSpec) -> NotReady:
    failure = Failure(
        message(
            "The server did not become ready within {limit_s} s.",
            limit_s=round(spec.readiness.load_timeout_s),
        ),
        message("Look at the log for what it waits for; a smaller model or context loads faster."),
    )
    return NotReady(failure, permanent=False)


def _cut_off() -> Failure:
    step = message(
        'Run "wsl --shutdown" in a terminal (it ends everything in WSL), then start the server '
        "again."
    )
    fixes = ("wsl-restart", "use-vm-address")
    return Failure(CUT_OFF, step, finding_id="wsl-localhost-relay", fixes=fixes)


def _refused(result: ProbeResult) -> Failure:
    return Failure(
        message(
            "The server runs, but refused the first test request with status {status}.",
            status=result.status,
        ),
        message("Check that the model is a chat model, and that key and model name are right."),
        root_cause_line=result.excerpt,
    )

"""Pure judgement of a serving server: is it well, is a probe due, must it be restarted?"""

from __future__ import annotations

from dataclasses import dataclass

from twinrig.domain.metrics import EngineMetrics
from twinrig.messages import Message, message
from twinrig.supervisor.health import CUT_OFF, Health
from twinrig.supervisor.probe import ProbeOutcome, ProbeResult
from twinrig.supervisor.timing import Timing


@dataclass(frozen=True)
class Verdict:
    """``degraded`` says why it is not well (None = well). ``restart`` is evidence for a restart."""

    degraded: Message | None = None
    restart: Message | None = None


class Judge:
    """Remembers what was seen; times are monotonic seconds.

    Rules: a probe is due when the server was idle for ``idle_probe_s``, or when requests run and
    no counter moved for ``stall_probe_s``. A probe without an answer makes the server DEGRADED,
    never restarts it. ``degraded_checks`` bad health answers in a row make it DEGRADED too;
    ``restart_checks`` in a row that were refused or 5xx are evidence for a restart; silence is
    not, since a busy event loop is silent. Moving counters or a good probe make it well again.
    """

    def __init__(self, timing: Timing, now_s: float) -> None:
        self._timing = timing
        self._counters: tuple[float | None, float | None] | None = None
        self._busy = False
        self._moved_at_s = now_s
        self._probed_at_s: float | None = None
        self._complaint: Message | None = None
        self._bad = 0
        self._dead = 0
        self._last = Health.FINE

    def see_metrics(self, now_s: float, metrics: EngineMetrics | None) -> None:
        """Counters now; None = not told, which proves nothing."""
        if metrics is None:
            return
        counters = (metrics.generation_tokens, metrics.prompt_tokens)
        moved = self._counters is not None and counters != self._counters
        busy = bool(metrics.requests_running) or bool(metrics.requests_waiting)
        if moved or busy != self._busy:
            self._moved_at_s = now_s
        if moved:
            self._complaint = None
        self._counters, self._busy = counters, busy

    def see_health(self, health: Health) -> None:
        """Answer of the readiness endpoint."""
        self._last = health
        self._bad = 0 if health is Health.FINE else self._bad + 1
        self._dead = self._dead + 1 if health in (Health.SICK, Health.REFUSED) else 0

    def see_probe(self, now_s: float, result: ProbeResult, limit_s: float) -> None:
        """Outcome of a probe that ended now."""
        self._probed_at_s = now_s
        if result.outcome is ProbeOutcome.FINE:
            self._complaint = None
            self._moved_at_s = now_s
        elif result.outcome is ProbeOutcome.SILENT:
            self._complaint = message(
                "No reply to a test request within {limit_s} s.", limit_s=round(limit_s)
            )
        else:
            self._complaint = message(
                "A test request failed with status {status}.", status=result.status
            )

    def probe_due(self, now_s: float) -> bool:
        """Whether to send a probe now."""
        if self._probed_at_s is not None and self._complaint is not None:
            return now_s - self._probed_at_s >= self._timing.probe_pause_s
        limit_s = self._timing.stall_probe_s if self._busy else self._timing.idle_probe_s
        since_s = max(self._moved_at_s, self._probed_at_s or self._moved_at_s)
        return now_s - since_s >= limit_s

    def verdict(self) -> Verdict:
        """The conclusion so far."""
        restart = self._restart_evidence() if self._dead >= self._timing.restart_checks else None
        if self._bad >= self._timing.degraded_checks:
            return Verdict(_HEALTH_TEXT[self._last], restart)
        return Verdict(self._complaint, restart)

    def _restart_evidence(self) -> Message:
        return message(
            "The process lives, but its health check failed {count} times in a row.",
            count=self._dead,
        )


_HEALTH_TEXT = {
    Health.SICK: message("The health check says that the engine has failed."),
    Health.REFUSED: message("The port does not accept connections."),
    Health.SILENT: message("The health check does not answer."),
    Health.CUT_OFF: CUT_OFF,
    Health.FINE: message("The health check does not answer."),
}

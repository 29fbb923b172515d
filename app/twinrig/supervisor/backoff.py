"""How long to wait before a restart, and when to stop trying."""

from __future__ import annotations

from dataclasses import dataclass, replace

from twinrig.supervisor.timing import Timing


@dataclass(frozen=True)
class Backoff:
    """Quick failures in a row: an exit before READY, or within ``quick_s`` (60 s) after it.

    A run that served longer forgets the earlier ones. Waits of 5, 15, 60, 300 s; the fifth
    quick failure in a row is the last.
    """

    timing: Timing
    quick_failures: int = 0
    pause_s: float = 0.0
    """Least wait that the last failure asks for."""

    def after(self, served_s: float | None) -> Backoff:
        """The state after one more failure; ``served_s`` is the time since READY, None = never."""
        quick = served_s is None or served_s < self.timing.quick_s
        return replace(self, quick_failures=self.quick_failures + 1 if quick else 0)

    @property
    def exhausted(self) -> bool:
        """No further try."""
        return self.quick_failures >= self.timing.quick_failures_limit

    @property
    def delay_s(self) -> float:
        """Wait before the next try."""
        steps = self.timing.backoff_s
        step_s = steps[min(max(self.quick_failures - 1, 0), len(steps) - 1)]
        return max(step_s, self.pause_s)

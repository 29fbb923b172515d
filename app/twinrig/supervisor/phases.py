"""Load phases of one run with the time each took in the last successful start."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from twinrig.domain.server import Phase
from twinrig.domain.supervision import PhaseTime
from twinrig.files import read_small, write_atomic

_ORDER = {phase: number for number, phase in enumerate(Phase)}


class PhaseTracker:
    """Phases only go forward: a late log line of an earlier phase changes nothing."""

    def __init__(self, expected_s: Mapping[Phase, float]) -> None:
        self._expected_s = expected_s
        self.phases: tuple[PhaseTime, ...] = ()

    def begin(self, phase: Phase, now_s: float, progress: float | None = None) -> bool:
        """Enter ``phase``, or note its progress (0 to 1); False when nothing changed."""
        if progress is not None:
            progress = min(1.0, max(0.0, progress)) if math.isfinite(progress) else None
        last = self.phases[-1] if self.phases else None
        if last is not None and last.phase == phase:
            if progress is None or progress == last.progress:
                return False
            self.phases = (*self.phases[:-1], replace(last, progress=progress))
            return True
        if last is not None and _ORDER[phase] < _ORDER[last.phase]:
            return False
        entry = PhaseTime(phase, now_s, self._expected_s.get(phase), progress)
        self.phases = (*self.phases, entry)
        return True

    def durations_s(self) -> dict[Phase, float]:
        """Seconds of each phase that has ended."""
        pairs = zip(self.phases, self.phases[1:], strict=False)
        return {a.phase: max(0.0, b.started_at_s - a.started_at_s) for a, b in pairs}


def load_timings(path: Path) -> dict[Phase, float]:
    """Expected seconds; empty when there was no success yet or the file is damaged.

    A loss is no harm: the next success writes it anew.
    """
    try:
        data = json.loads(read_small(path, 64 * 1024))["phases"]
        pairs = [(Phase(name), float(seconds)) for name, seconds in data.items()]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}
    return {phase: seconds for phase, seconds in pairs if 0 <= seconds < math.inf}


def save_timings(path: Path, durations_s: Mapping[Phase, float]) -> None:
    """Keep the durations of a successful start; a full disk costs them, nothing else."""
    phases = {phase.value: round(seconds, 2) for phase, seconds in durations_s.items()}
    with contextlib.suppress(OSError):
        write_atomic(path, json.dumps({"schema_version": 1, "phases": phases}).encode())

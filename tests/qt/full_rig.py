"""A workbench that has everything: the demo rig's services, and made-up live data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

from qt.pages_rig import PageWorkbench, make_profile
from qt.panel_rig import NOW_S, RigMonitor, busy_picture, record, snapshot
from twinrig.domain.metrics import Snapshot


@dataclass
class FullWorkbench(PageWorkbench):
    """For walks over all pages, and for screenshots."""

    picture: Callable[[int], Snapshot] = lambda number: snapshot(
        record(), taken_at_s=NOW_S + number
    )
    pause_s: float = 0.02
    open_monitors: int = 0
    intervals_s: list[float] = field(default_factory=list)
    closed: bool = False

    @property
    def http(self) -> SimpleNamespace:
        async def close() -> None:
            self.closed = True

        return SimpleNamespace(close=close)

    def monitor(self, interval_s: float = 1.0) -> RigMonitor:
        return RigMonitor(self, interval_s)


def full_workbench(root: Path, picture: Callable[[int], Snapshot] = busy_picture) -> FullWorkbench:
    """Two profiles, busy cards."""
    workbench = FullWorkbench(root, picture=picture)
    make_profile(workbench, "Qwen 27B")
    make_profile(workbench, "Gemma 12B", "/models/gemma-3-12b")
    return workbench

"""A small stand-in for the workbench, and made-up snapshots, for tests of the panel's shell.

It follows the contract's dataclasses; what a test needs to go wrong can be made to.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

from twinrig.domain.gpu import GpuInfo, GpuSample
from twinrig.domain.metrics import ServerSetup, Snapshot, Throughput
from twinrig.domain.profile import EngineRef, ModelRef, Network, Profile
from twinrig.domain.server import Phase, ServerState
from twinrig.domain.supervision import PhaseTime, ServerRecord, StateLayout
from twinrig.services.lan import LanState

GIB = 1024**3
NOW_S = 1_800_000_000.0


@dataclass(frozen=True)
class RigFolders:
    config: Path
    state: Path
    cache: Path
    log: Path

    @classmethod
    def below(cls, root: Path) -> RigFolders:
        return cls(root / "config", root / "state", root / "cache", root / "log")


def gpu(index: int) -> GpuInfo:
    return GpuInfo(index, f"GPU-{index}", "NVIDIA GeForce RTX 5070", 12 * GIB, simulated=True)


def sample(index: int, load: int | None = 50, taken_at_s: float = NOW_S, **changes) -> GpuSample:
    values = {
        "utilisation_percent": load,
        "memory_used_bytes": round(9.8 * GIB),
        "memory_total_bytes": 12 * GIB,
        "power_w": 142.0,
        "power_limit_w": 250.0,
        "temperature_c": 61,
        "clock_sm_mhz": 2610,
    }
    values.update(changes)
    return GpuSample(f"GPU-{index}", taken_at_s, **values)


def record(state: ServerState = ServerState.READY, **changes) -> ServerRecord:
    values = {
        "profile_id": "qwen",
        "target": "demo",
        "engine_id": "demo",
        "run_id": "run-1",
        "state": state,
        "updated_at_s": NOW_S,
        "supervisor_pid": 4711,
        "started_at_s": NOW_S - 200,
        "ready_at_s": NOW_S - 100,
        "base_url": "http://127.0.0.1:8000",
        "model_id": "Qwen3.6-27B",
    }
    values.update(changes)
    return ServerRecord(**values)


def loading_record(**changes) -> ServerRecord:
    phases = (
        PhaseTime(Phase.LAUNCH, NOW_S - 40, 3.0),
        PhaseTime(Phase.WEIGHTS, NOW_S - 30, 60.0),
    )
    return record(ServerState.LOADING, phases=phases, ready_at_s=None, **changes)


def snapshot(
    server: ServerRecord | None = None,
    loads: tuple[int | None, ...] = (63, 61),
    tps: float | None = 42.5,
    running: int | None = 1,
    taken_at_s: float = NOW_S,
    **changes,
) -> Snapshot:
    values = {
        "taken_at_s": taken_at_s,
        "demo": True,
        "gpus": tuple(gpu(i) for i in range(len(loads))),
        "samples": tuple(sample(i, load, taken_at_s) for i, load in enumerate(loads)),
        "server": server,
        "setup": ServerSetup(2, 1, 8) if server is not None else None,
        "throughput": Throughput(tps, None if tps is None else 0.0, running, 0, 0.2),
    }
    values.update(changes)
    return Snapshot(**values)


def profile(profile_id: str = "qwen", name: str = "Qwen 27B") -> Profile:
    return Profile(profile_id, name, "demo", EngineRef("demo"), ModelRef("/models/qwen"), Network())


class RigController:
    """Remembers what it was asked; refuses when ``error`` is set."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.error: Exception | None = None

    async def start(self, profile_id: str, requested_by: str) -> None:
        await self._take("start", profile_id)

    async def stop(self, profile_id: str, requested_by: str) -> None:
        await self._take("stop", profile_id)

    async def free(self, profile_id: str, requested_by: str) -> None:
        await self._take("free", profile_id)

    async def _take(self, verb: str, profile_id: str) -> None:
        if self.error is not None:
            raise self.error
        self.asked.append((verb, profile_id))


class RigMonitor:
    """Tells what ``picture(n)`` returns, n = 0, 1, 2 ...; ``pause_s`` between two."""

    def __init__(self, rig: RigWorkbench, interval_s: float) -> None:
        self._rig = rig
        self._interval_s = interval_s

    async def snapshots(self) -> AsyncIterator[Snapshot]:
        self._rig.open_monitors += 1
        self._rig.intervals_s.append(self._interval_s)
        try:
            number = 0
            while True:
                yield self._rig.picture(number)
                number += 1
                await asyncio.sleep(self._rig.pause_s)
        finally:
            self._rig.open_monitors -= 1


class RigStore:
    """Keeps in memory what would be written; fails when ``error`` is set."""

    def __init__(self) -> None:
        self.kept: list = []
        self.marked: list = []
        self.error: Exception | None = None

    def write(self, minutes, events) -> None:
        if self.error is not None:
            raise self.error
        self.kept += minutes
        self.marked += events

    def minutes(self, since_s: float, until_s: float = 1e18) -> tuple:
        if self.error is not None:
            raise self.error
        return tuple(m for m in self.kept if since_s <= m.start_s <= until_s)

    def events(self, since_s: float) -> tuple:
        return tuple(e for e in self.marked if e.at_s >= since_s)


class RigClock:
    def now(self) -> float:
        return NOW_S


class RigLan:
    """Sharing with other devices: ``told`` is what other devices find."""

    def __init__(self) -> None:
        self.told = LanState(False)

    async def state(self, profile: Profile) -> LanState:
        return self.told


@dataclass
class RigWorkbench:
    """As much of a workbench as the shell uses."""

    picture: Callable[[int], Snapshot] = lambda number: snapshot(
        record(), taken_at_s=NOW_S + number
    )
    pause_s: float = 0.02
    target: str = "demo"
    label: str = "Demo rig"
    demo: bool = True
    distros: None = None
    open_monitors: int = 0
    intervals_s: list[float] = field(default_factory=list)
    controller: RigController = field(default_factory=RigController)
    stored: list[Profile] = field(default_factory=lambda: [profile()])
    closed: bool = False
    store: RigStore = field(default_factory=RigStore)
    clock: RigClock = field(default_factory=RigClock)
    sharing: RigLan = field(default_factory=RigLan)
    layout: StateLayout = field(default_factory=lambda: StateLayout(Path("/nowhere")))

    def lan(self) -> RigLan:
        return self.sharing

    @property
    def profiles(self) -> SimpleNamespace:
        return SimpleNamespace(
            list=lambda: SimpleNamespace(profiles=tuple(self.stored), broken=()),
            load=lambda wanted: next(p for p in self.stored if p.id == wanted),
        )

    @property
    def http(self) -> SimpleNamespace:
        async def close() -> None:
            self.closed = True

        return SimpleNamespace(close=close)

    def monitor(self, interval_s: float = 1.0) -> RigMonitor:
        return RigMonitor(self, interval_s)

    def history_store(self) -> RigStore:
        return self.store


def busy_picture(number: int) -> Snapshot:
    """Two cards at work, a little restless, as a chat looks like."""
    loads = (
        round(58 + 14 * math.sin(number / 3)),
        round(56 + 13 * math.sin(number / 3 + 0.8)),
    )
    tps = 41 + 6 * math.sin(number / 4)
    moment = NOW_S + number
    server = record(updated_at_s=moment)
    return snapshot(server, loads, tps, taken_at_s=moment)

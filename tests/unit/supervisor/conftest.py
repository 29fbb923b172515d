"""A supervisor in virtual time, and what a test may turn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import pytest_asyncio

from fixtures.supervision import (
    FakeEngine,
    FakeHttp,
    FakeLauncher,
    FakeServer,
    MemoryLock,
    VirtualClock,
    make_profile,
    make_spec,
    plain_explain,
    read_record,
)
from twinrig.domain.errors import DamagedFileError
from twinrig.domain.launch import Endpoint
from twinrig.domain.server import ServerState
from twinrig.domain.supervision import ServerRecord, StateLayout
from twinrig.supervisor.parts import SupervisorParts
from twinrig.supervisor.supervise import supervise


@dataclass
class Rig:
    """Everything of one supervisor under test; ``seen`` are the states it wrote, in order."""

    layout: StateLayout
    clock: VirtualClock
    http: FakeHttp
    launcher: FakeLauncher
    parts: SupervisorParts
    lock: MemoryLock
    seen: list[ServerState] = field(default_factory=list)
    task: asyncio.Task[int] | None = None

    @property
    def record(self) -> ServerRecord:
        return read_record(self.layout)

    @property
    def server(self) -> FakeServer:
        return self.launcher.servers[-1]

    def start(self) -> None:
        self.task = asyncio.ensure_future(supervise("main", self.parts))

    async def until(self, condition: Callable[[ServerRecord], bool], limit_s: float = 5000) -> None:
        deadline_s = self.clock.now() + limit_s
        while not self._holds(condition):
            assert self.task is None or not self.task.done(), f"it ended: {self.record}"
            assert self.clock.now() < deadline_s, f"never happened: {self.record}"
            await self.clock.sleep(0.25)

    def _holds(self, condition: Callable[[ServerRecord], bool]) -> bool:
        try:
            return condition(self.record)
        except (FileNotFoundError, DamagedFileError):
            return False

    async def until_state(self, state: ServerState, limit_s: float = 5000) -> None:
        await self.until(lambda record: record.state is state, limit_s)

    async def end(self) -> int:
        assert self.task is not None
        return await self.task

    def becomes_ready(self, server: FakeServer, output: Callable[[bytes], None]) -> None:
        """A launch that serves at once."""
        asyncio.get_running_loop().call_soon(output, b"config read\nloading weights\nserving\n")
        self.http.health = 200


@pytest_asyncio.fixture
async def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Rig]:
    async def prepare(_profile):
        return make_spec()

    async def free(_endpoint: Endpoint) -> bool:
        return False

    async with VirtualClock() as clock:
        http = FakeHttp(clock)

        async def refused(_endpoint: Endpoint) -> bool:
            return http.health is None and not http.silent

        launcher = FakeLauncher()
        lock = MemoryLock()
        run_ids = iter(f"run{number}" for number in range(1, 100))
        layout = StateLayout(tmp_path)
        parts = SupervisorParts(
            layout=layout,
            load_profile=lambda _id: make_profile(),
            prepare=prepare,
            engine_for=lambda _p: FakeEngine(lambda _t: http.metrics),
            launcher=launcher,
            http=http,
            clock=clock,
            lock=lock,
            explain=plain_explain,
            is_permanent=lambda failure: failure.finding_id == "fatal",
            port_in_use=free,
            is_refused=refused,
            make_run_id=lambda: next(run_ids),
        )
        made = Rig(layout, clock, http, launcher, parts, lock)
        _record_states(made, monkeypatch)
        launcher.on_launch = made.becomes_ready
        yield made
        if made.task is not None and not made.task.done():
            made.task.cancel()
            await asyncio.gather(made.task, return_exceptions=True)


def _record_states(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    from twinrig.supervisor.record_store import RecordStore

    original = RecordStore.enter

    def enter(self, state, **changes):
        original(self, state, **changes)
        if not rig.seen or rig.seen[-1] is not state:
            rig.seen.append(state)

    monkeypatch.setattr(RecordStore, "enter", enter)

"""The supervisor with real processes: the local launcher, real HTTP, a server that misbehaves."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from fixtures.supervision import (
    FakeEngine,
    make_profile,
    make_spec,
    own_log,
    plain_explain,
    read_record,
    write_desired,
)
from twinrig.domain.errors import DamagedFileError
from twinrig.domain.metrics import EngineMetrics
from twinrig.domain.server import ServerState
from twinrig.domain.supervision import Desired, ServerRecord, StateLayout
from twinrig.hosts.clock import SystemClock
from twinrig.hosts.http import HttpxClient
from twinrig.hosts.local.launcher import LocalServerLauncher
from twinrig.hosts.local.proc_table import read_entry
from twinrig.hosts.locks import FileLock
from twinrig.supervisor.parts import SupervisorParts
from twinrig.supervisor.supervise import supervise
from twinrig.supervisor.timing import Timing

S = ServerState
FAKE_SERVER = Path(__file__).parents[2] / "fixtures" / "fake_server.py"
FAST = Timing(
    desired_poll_s=0.02,
    ready_poll_s=0.02,
    watch_s=0.05,
    backoff_s=(0.05,),
    stop_limit_s=0.5,
    orphan_grace_s=0.3,
    kill_wait_s=2.0,
    poll_exit_s=0.02,
)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def parse(text: str) -> EngineMetrics:
    counts = json.loads(text)
    return EngineMetrics(float(counts["generation"]), float(counts["prompt"]), 0.0, 0.0)


def make_parts(root: Path, http: HttpxClient, port: int, timing: Timing = FAST) -> SupervisorParts:
    async def prepare(_profile):
        argv = (sys.executable, "-S", "-E", str(FAKE_SERVER), str(root / "config.json"))
        return make_spec(port, argv=argv)

    return SupervisorParts(
        layout=StateLayout(root),
        load_profile=lambda _id: make_profile(),
        prepare=prepare,
        engine_for=lambda _p: FakeEngine(parse),
        launcher=LocalServerLauncher(os.environ, root / "runs"),
        http=http,
        clock=SystemClock(),
        lock=FileLock(root, "main"),
        explain=plain_explain,
        timing=timing,
    )


class Real:
    """One supervisor with real processes below ``root``."""

    def __init__(self, root: Path, http: HttpxClient) -> None:
        self.root = root
        self.port = free_port()
        self.layout = StateLayout(root)
        self.control = root / "control"
        self.control.mkdir()
        self.parts = make_parts(root, http, self.port)
        self.task: asyncio.Task[int] | None = None

    def config(self, **values: object) -> None:
        values = {"port": self.port, "control": str(self.control), **values}
        values["pid_file"] = str(self.root / "pids.json")
        (self.root / "config.json").write_text(json.dumps(values))

    def start(self) -> None:
        self.task = asyncio.ensure_future(supervise("main", self.parts))

    @property
    def pids(self) -> dict[str, int]:
        found: dict[str, int] = json.loads((self.root / "pids.json").read_text())
        return found

    async def until(self, condition: Callable[[ServerRecord], bool]) -> ServerRecord:
        async with asyncio.timeout(20):
            while True:
                try:
                    record = read_record(self.layout)
                    if condition(record):
                        return record
                except (FileNotFoundError, DamagedFileError):
                    pass
                assert self.task is None or not self.task.done(), own_log(self.layout)
                await asyncio.sleep(0.01)

    async def ready(self) -> ServerRecord:
        return await self.until(lambda record: record.state is S.READY)

    async def stop(self) -> int:
        write_desired(self.layout, Desired.STOPPED, "stop")
        assert self.task is not None
        async with asyncio.timeout(20):
            return await self.task


def alive(pid: int) -> bool:
    return read_entry(pid) is not None


@pytest_asyncio.fixture
async def real(tmp_path: Path) -> AsyncIterator[Real]:
    http = HttpxClient()
    it = Real(tmp_path, http)
    it.config()
    yield it
    if it.task is not None and not it.task.done():
        await it.stop()
    await http.close()


async def test_a_whole_life(real):
    write_desired(real.layout, Desired.RUNNING)
    real.start()
    record = await real.ready()
    assert record.server_pid == real.pids["server"]
    assert record.environment_mismatch == ()
    assert (record.probe_prompt_tokens, record.probe_generation_tokens) in ((0, 0), (3, 8))
    assert FileLock(real.root).holder("supervisor") == os.getpid()
    assert FileLock(real.root).holder_note("supervisor") == "main"
    assert await real.stop() == 0
    assert not alive(record.server_pid)
    assert read_record(real.layout).state is S.STOPPED
    assert real.layout.log("main").read_text() == "loading weights\nlistening\n"
    assert FileLock(real.root).holder("supervisor") is None
    assert list((real.root / "runs").iterdir()) == []


async def test_a_stop_takes_all_descendants_and_nobody_else(real):
    stranger = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(60)"])
    try:
        real.config(grandchildren=["plain", "wiped", "escaped", "stubborn"])
        real.start()
        await real.ready()
        pids = real.pids
        assert all(alive(pid) for pid in pids.values())
        await real.stop()
        assert {name for name, pid in pids.items() if alive(pid)} == set()
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


async def test_a_server_that_ignores_the_signal(real):
    real.config(ignore_term=True, grandchildren=["wiped"])
    real.start()
    await real.ready()
    pids = real.pids
    await real.stop()
    assert not any(alive(pid) for pid in pids.values())
    assert "KILL" in own_log(real.layout)


async def test_kill_9_of_the_server_sweeps_what_it_left_and_starts_again(real):
    name = f"twinrig-test-{os.getpid()}"
    real.config(grandchildren=["wiped", "stubborn"], shm=name)
    real.start()
    record = await real.ready()
    pids = real.pids
    await real.until(lambda r: r.shared_memory == (f"/dev/shm/{name}",))
    os.kill(pids["server"], signal.SIGKILL)
    again = await real.until(lambda r: r.state is S.READY and r.run_id != record.run_id)
    assert again.last_exit == "signal 9"
    assert again.restarts == 1
    assert not any(alive(pid) for pid in pids.values())
    assert again.server_pid != record.server_pid
    await real.stop()
    assert not Path(f"/dev/shm/{name}").exists()


@pytest.mark.parametrize("code", [0, 1, 2])
async def test_an_exit_while_serving(real, code):
    real.start()
    record = await real.ready()
    (real.control / f"exit-{code}").touch()
    again = await real.until(lambda r: r.state is S.READY and r.run_id != record.run_id)
    assert again.last_exit == f"exit code {code}"


async def test_it_gives_up_after_five_quick_failures_with_the_cause(real):
    real.config(exit_before_load=3)
    real.start()
    async with asyncio.timeout(20):
        assert await real.task == 1
    record = read_record(real.layout)
    assert record.state is S.FAILED
    assert record.quick_failures == 5
    assert record.failure.log_line_no == 1
    assert record.failure.root_cause_line == "fatal: no luck today"
    assert real.layout.log("main").read_text() == "fatal: no luck today\n"


async def test_output_that_is_not_text(real):
    real.config(garbage=True)
    real.start()
    await real.ready()
    await real.stop()
    log = real.layout.log("main").read_bytes()
    assert log.startswith(bytes(range(256)) * 64)
    assert read_record(real.layout).dropped_log_lines == 0


async def test_a_probe_that_hangs_keeps_it_from_ready_but_not_from_stopping(real):
    (real.control / "hang").touch()
    real.start()
    await real.until(lambda r: r.phases and r.phases[-1].phase.value == "probe")
    assert read_record(real.layout).state is S.LOADING
    assert await real.stop() == 0


async def test_a_dead_engine_behind_a_live_process_is_restarted(real):
    real.start()
    record = await real.ready()
    (real.control / "sick").touch()
    await real.until(lambda r: r.state is S.DEGRADED)
    await real.until(lambda r: r.state is S.BACKOFF)
    (real.control / "sick").unlink()
    again = await real.until(lambda r: r.state is S.READY and r.run_id != record.run_id)
    assert not alive(record.server_pid)
    assert again.restarts == 1


async def test_a_used_port_is_told_before_anything_starts(real):
    with socket.socket() as other:
        other.bind(("127.0.0.1", real.port))
        other.listen()
        real.start()
        async with asyncio.timeout(20):
            assert await real.task == 1
    assert read_record(real.layout).failure.text.params == {"port": real.port}
    assert not (real.root / "pids.json").exists()


async def test_a_second_supervisor_ends_at_once(real, tmp_path):
    real.start()
    record = await real.ready()
    http = HttpxClient()
    second = make_parts(tmp_path, http, real.port)
    assert await supervise("main", second) == 3
    await http.close()
    assert alive(record.server_pid)
    assert read_record(real.layout).run_id == record.run_id


SUPERVISOR = """
import asyncio, importlib.util, sys
from pathlib import Path
spec = importlib.util.spec_from_file_location("real", sys.argv[1])
real = importlib.util.module_from_spec(spec)
spec.loader.exec_module(real)
root, port = Path(sys.argv[2]), int(sys.argv[3])
parts = real.make_parts(root, real.HttpxClient(), port)
sys.exit(asyncio.run(real.supervise("main", parts)))
"""


def spawn_supervisor(real: Real) -> subprocess.Popen[bytes]:
    tests = str(Path(__file__).parents[2])
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([tests, *sys.path])}
    argv = [sys.executable, "-c", textwrap.dedent(SUPERVISOR), __file__]
    return subprocess.Popen(
        [*argv, str(real.root), str(real.port)], env=environ, start_new_session=True
    )


async def test_kill_9_of_the_supervisor_and_a_following_start_sweeps(real):
    real.config(grandchildren=["wiped", "escaped", "stubborn"])
    first = spawn_supervisor(real)
    try:
        record = await real.ready()
        pids = real.pids
    finally:
        first.kill()
        first.wait()
    assert alive(pids["server"])
    assert FileLock(real.root).holder("supervisor") is None
    real.parts = replace(real.parts, launcher=LocalServerLauncher(os.environ, real.root / "runs"))
    real.start()
    again = await real.until(lambda r: r.run_id != record.run_id and r.state is S.READY)
    assert not any(alive(pid) for pid in pids.values())
    assert alive(again.server_pid)


async def test_a_closed_terminal_and_then_a_polite_end(real):
    supervisor = spawn_supervisor(real)
    try:
        record = await real.ready()
        supervisor.send_signal(signal.SIGHUP)
        await asyncio.sleep(0.1)
        assert supervisor.poll() is None
        supervisor.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(supervisor.wait, 20) == 0
    finally:
        supervisor.kill()
        supervisor.wait()
    assert read_record(real.layout).state is S.STOPPED
    assert not alive(record.server_pid)

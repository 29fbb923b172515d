"""The whole way with a real vLLM: start, phases, speed, a dead panel, re-attach, a clean stop."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import dataclass, field

import pytest

from real.client import StreamingClient, answers, counter, settle
from real.rig import Rig, free_port, shared_memory, shared_memory_of, still_alive, wait_until
from twinrig.composition.targets import open_workbench
from twinrig.hosts.paths import find_paths
from twinrig.services.workbench import Workbench

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]

PROFILE = "tiny"
GENERATED = "vllm:generation_tokens_total"
SURVIVAL_S = 120.0
SPEED_S = 20.0


@dataclass
class Terminal:
    """A terminal of its own, as a window gives it; ``close`` is what closing the window does."""

    environ: dict[str, str]
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._master, self._slave = pty.openpty()

    def run(self, *argv: str) -> subprocess.Popen[bytes]:
        """Start a program whose controlling terminal this is."""
        process = subprocess.Popen(
            argv,
            stdin=self._slave,
            stdout=self._slave,
            stderr=self._slave,
            env=self.environ,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        self.processes.append(process)
        return process

    def close(self) -> None:
        """Hang up; the kernel sends SIGHUP to what still runs here."""
        os.close(self._slave)
        os.close(self._master)


@dataclass
class Journey:
    """What the steps of this module tell each other."""

    rig: Rig
    port: int
    seen_phases: set[str] = field(default_factory=set)
    terminal: Terminal | None = None
    panel: subprocess.Popen[bytes] | None = None
    killed_at: float = 0.0
    log_offset: int = 0


@pytest.fixture(scope="module")
def journey(rig: Rig) -> Iterator[Journey]:
    port = free_port()
    rig.add_profile(PROFILE, port)
    yield Journey(rig, port)


def workbench_of(rig: Rig) -> Workbench:
    """A second panel's view: everything read afresh from disk."""
    return open_workbench("local", find_paths(rig.environ))


def test_preflight_of_the_profile_has_no_broken_check(journey: Journey) -> None:
    """No card here: that is a finding (1), and no check may break on it."""
    done = journey.rig.twinrig("--json", "doctor", "--profile", PROFILE)
    assert done.returncode == 1, done.stdout + done.stderr
    assert '"status": "error"' not in done.stdout
    assert "vllm" in done.stdout.lower()


def test_start_from_a_terminal_shows_the_phases_and_gets_ready(journey: Journey) -> None:
    terminal = Terminal(dict(journey.rig.environ))
    journey.terminal = terminal
    started = terminal.run(
        sys.executable, "-m", "twinrig", "--target", "local", "start", PROFILE, "--no-wait"
    )
    assert started.wait(60) == 0
    journey.panel = terminal.run(sys.executable, "-m", "twinrig", "--target", "local")

    def ready() -> bool:
        record = journey.rig.record(PROFILE)
        journey.seen_phases |= {phase["phase"] for phase in record.get("phases", ())}
        assert record.get("state") != "failed", record.get("failure")
        return record.get("state") == "ready"

    seconds = wait_until(ready, 420, "READY")
    print(f"\nREADY after {seconds:.0f} s; phases {sorted(journey.seen_phases)}")
    assert {"config", "workers", "weights", "memory", "listen", "probe"} <= journey.seen_phases
    assert journey.panel.poll() is None, "the panel ended by itself"


def test_the_monitors_speed_integrates_to_the_servers_own_counter(journey: Journey) -> None:
    before = settle(journey.port, GENERATED)
    probe_before = journey.rig.record(PROFILE)["probe_generation_tokens"]
    clients = [StreamingClient(journey.port, "tiny") for _ in range(3)]
    integral, rates = asyncio.run(_watch(workbench_of(journey.rig), clients))
    after = settle(journey.port, GENERATED)
    probe = journey.rig.record(PROFILE)["probe_generation_tokens"] - probe_before
    counted = after - before - probe
    replied = sum(client.tokens for client in clients)
    faults = [fault for client in clients for fault in client.faults]
    print(
        f"\ncounter {counted:.0f}, monitor {integral:.0f} ({integral / counted - 1:+.2%}), "
        f"clients {replied}, highest rate {max(rates):.0f} T/s"
    )
    assert not faults
    assert counted > 1000
    assert replied == counted
    assert integral == pytest.approx(counted, rel=0.02)


async def _watch(bench: Workbench, clients: list[StreamingClient]) -> tuple[float, list[float]]:
    """Integral of the monitor's generation T/s from before the clients start to after they end."""
    integral, rates = 0.0, []
    began = time.monotonic()
    idle = 0
    async with aclosing(bench.monitor().snapshots()) as snapshots:
        async for snapshot in snapshots:
            rate, interval_s = snapshot.throughput.generation_tps, snapshot.throughput.interval_s
            if rate is not None:
                assert interval_s is not None
                integral += rate * interval_s
                rates.append(rate)
            if len(rates) == 2:
                for client in clients:
                    if client.ident is None:
                        client.start()
            if time.monotonic() - began > SPEED_S:
                for client in clients:
                    client.stop()
                idle = idle + 1 if not any(client.is_alive() for client in clients) else 0
            if idle == 4:
                break
    await bench.http.close()
    return integral, rates


def test_a_killed_panel_and_a_closed_terminal_leave_the_server_alone(journey: Journey) -> None:
    assert journey.terminal is not None
    assert journey.panel is not None
    run_id = journey.rig.record(PROFILE)["run_id"]
    chunk = asyncio.run(_log_end(journey))
    journey.log_offset = chunk
    journey.panel.send_signal(signal.SIGKILL)
    journey.panel.wait(10)
    journey.terminal.close()
    journey.killed_at = time.monotonic()
    while time.monotonic() - journey.killed_at < SURVIVAL_S:
        time.sleep(1)
    assert answers(journey.port)
    record = journey.rig.record(PROFILE)
    assert record["run_id"] == run_id
    assert record["restarts"] == 0
    assert record["state"] == "ready"


async def _log_end(journey: Journey) -> int:
    bench = workbench_of(journey.rig)
    chunk = bench.controller.read_log(PROFILE)
    return chunk.offset + len(chunk.text.encode())


def test_a_new_panel_finds_state_uptime_and_log_position(journey: Journey) -> None:
    started_at = journey.rig.record(PROFILE)["started_at_s"]
    answers(journey.port)

    async def look() -> None:
        bench = workbench_of(journey.rig)
        status = await bench.controller.active()
        assert status is not None
        assert status.record is not None
        assert status.profile_id == PROFILE
        assert status.supervisor_alive
        assert status.answering is True
        assert status.problem is None
        assert status.record.state.value == "ready"
        assert status.record.started_at_s == started_at
        assert time.time() - started_at > SURVIVAL_S
        chunk = bench.controller.read_log(PROFILE, offset=0)
        assert "Application startup complete" in chunk.text
        await bench.http.close()

    asyncio.run(look())
    shown = journey.rig.twinrig("status", PROFILE)
    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert "Ready" in shown.stdout


def test_stop_leaves_no_process_and_no_shared_memory(journey: Journey) -> None:
    processes = journey.rig.processes_of(PROFILE)
    assert any("VLLM::EngineCore" in command for command in processes.values())
    segments = shared_memory_of(pid for pid, _ in processes)
    assert segments
    began = time.monotonic()
    done = journey.rig.twinrig("stop", PROFILE)
    assert done.returncode == 0, done.stdout + done.stderr
    print(f"\nstopped after {time.monotonic() - began:.1f} s")
    assert journey.rig.record(PROFILE)["state"] == "stopped"
    assert still_alive(processes) == []
    assert segments & shared_memory() == set()
    assert counter_is_gone(journey.port)


def counter_is_gone(port: int) -> bool:
    """Nobody listens any more."""
    try:
        counter(port, GENERATED)
    except OSError:
        return True
    return False

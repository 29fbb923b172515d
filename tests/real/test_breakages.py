"""What goes wrong with a real vLLM: killed, busy for minutes, and started with wrong settings."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from real.client import StreamingClient, answers
from real.rig import Rig, free_port, shared_memory, shared_memory_of, still_alive, wait_until
from twinrig.domain.profile import EngineRef, ModelRef

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(900)]

START_S = 420.0
LONG_REPLY_S = 180.0


def ready(rig: Rig, profile_id: str) -> bool:
    record = rig.record(profile_id)
    assert record.get("state") != "failed", record.get("failure")
    return record.get("state") == "ready"


@pytest.fixture
def stopping(rig: Rig) -> Iterator[list[str]]:
    """Profiles to stop at the end of the test, whatever happened."""
    names: list[str] = []
    yield names
    for name in names:
        rig.twinrig("stop", name)


def test_a_killed_server_is_noticed_swept_and_ready_again(rig: Rig, stopping: list[str]) -> None:
    port = free_port()
    rig.add_profile("killed", port)
    stopping.append("killed")
    assert rig.twinrig("start", "killed", "--no-wait").returncode == 0
    wait_until(lambda: ready(rig, "killed"), START_S, "READY")
    first = rig.record("killed")
    family = rig.processes_of("killed")
    segments = shared_memory_of(pid for pid, _ in family)
    assert len(family) >= 3, family
    os.kill(first["server_pid"], signal.SIGKILL)
    noticed = wait_until(lambda: rig.record("killed")["state"] != "ready", 10, "the kill noticed")
    back = wait_until(
        lambda: rig.record("killed")["run_id"] != first["run_id"] and ready(rig, "killed"),
        START_S,
        "READY again by itself",
    )
    print(f"\nnoticed after {noticed:.1f} s, READY again after {back:.0f} s")
    assert rig.record("killed")["restarts"] == 1
    assert still_alive(family) == []
    assert segments & shared_memory() == set()
    assert answers(port)


def test_a_reply_of_three_minutes_is_no_reason_to_restart(rig: Rig, stopping: list[str]) -> None:
    """One batch slot: a liveness probe would wait behind it, and must not end the server."""
    port = free_port()
    settings = {"context_length": 2048, "enforce_eager": True, "max_num_seqs": 1}
    rig.add_profile("busy", port, settings=settings)
    stopping.append("busy")
    assert rig.twinrig("start", "busy", "--no-wait").returncode == 0
    wait_until(lambda: ready(rig, "busy"), START_S, "READY")
    run_id = rig.record("busy")["run_id"]
    states: set[str] = set()
    # vLLM is made slow by stopping its processes most of the time: one reply lasts minutes.
    client = StreamingClient(port, "tiny", max_tokens=1500, counting=True)
    pids = [pid for pid, _ in rig.processes_of("busy")]
    brake = Brake(pids, lambda seconds: client.under_way > 1400 * seconds / LONG_REPLY_S)
    brake.start()
    began = time.monotonic()
    client.start()
    while client.replies == 0 and not client.faults and time.monotonic() - began < 500:
        states.add(rig.record("busy")["state"])
        if time.monotonic() - began > LONG_REPLY_S:
            brake.stop()
        time.sleep(1)
    seconds = time.monotonic() - began
    brake.stop()
    client.stop()
    print(f"\nthe reply took {seconds:.0f} s; states seen {sorted(states)}")
    assert client.faults == []
    assert client.replies >= 1
    assert seconds >= LONG_REPLY_S
    assert states <= {"ready", "degraded"}
    assert rig.record("busy")["run_id"] == run_id
    assert rig.record("busy")["restarts"] == 0
    wait_until(lambda: ready(rig, "busy"), 90, "READY after the long reply")


class Brake(threading.Thread):
    """Lets processes run one part in 200 of the time, as a card with a huge prompt seems to.

    They stay stopped while ``ahead(seconds)``: a fast machine takes as long as a slow one.
    """

    def __init__(self, pids: list[int], ahead: Callable[[float], bool]) -> None:
        super().__init__(daemon=True)
        self._pids = pids
        self._ahead = ahead
        self._halt = threading.Event()

    def run(self) -> None:
        began = time.monotonic()
        while not self._halt.wait(0.02):
            self._send(signal.SIGSTOP)
            self._halt.wait(4.0)
            while self._ahead(time.monotonic() - began) and not self._halt.wait(0.5):
                pass
            self._send(signal.SIGCONT)

    def stop(self) -> None:
        self._halt.set()
        self.join()
        self._send(signal.SIGCONT)

    def _send(self, number: signal.Signals) -> None:
        for pid in self._pids:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue


def failed(rig: Rig, profile_id: str, **changes: Any) -> dict[str, Any]:
    """Start and wait for FAILED; the failure as the user gets it."""
    port = changes.pop("port", None) or free_port()
    rig.add_profile(profile_id, port, **changes)
    done = rig.twinrig("start", profile_id, timeout_s=START_S)
    record = rig.record(profile_id)
    assert done.returncode == 1, done.stdout + done.stderr
    assert record["state"] == "failed", record
    failure = record["failure"]
    print(f"\n{profile_id}: {failure['finding_id']}: {failure['text']['msgid']}")
    assert failure["next_step"]["msgid"]
    assert rig.processes_of(profile_id) == {} or not still_alive(rig.processes_of(profile_id))
    text = done.stdout + done.stderr
    assert "Next:" in text, text
    return failure


def test_a_wrong_model_path(rig: Rig) -> None:
    failure = failed(rig, "wrong-path", model=ModelRef("/nonexistent/model", "tiny"))
    assert failure["finding_id"] == "model-path-missing"


def test_a_taken_port(rig: Rig) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        failure = failed(rig, "taken-port", port=holder.getsockname()[1])
    assert failure["finding_id"] == "port-in-use"


def test_a_context_that_the_model_does_not_have(rig: Rig) -> None:
    settings = {"context_length": 8192, "enforce_eager": True}
    failure = failed(rig, "long-context", settings=settings)
    assert failure["finding_id"] == "max-len-over-model"


def test_a_context_that_does_not_fit_into_memory(rig: Rig, tmp_path: Path) -> None:
    from real.tiny_model import write_model

    model = write_model(tmp_path / "long", context=4_000_000, layers=8, hidden=128)
    settings = {"context_length": 4_000_000, "enforce_eager": True}
    failure = failed(rig, "no-fit", settings=settings, model=ModelRef(str(model), "tiny"))
    assert failure["finding_id"] == "kv-max-len"


def test_a_missing_engine(rig: Rig, tmp_path: Path) -> None:
    empty = tmp_path / "no-engine-here"
    empty.mkdir()
    failure = failed(rig, "no-engine", engine=EngineRef("vllm", str(empty)))
    assert failure["finding_id"] == "engine-not-installed"


def test_two_starts_at_once_give_one_server(rig: Rig, stopping: list[str]) -> None:
    profile = rig.add_profile("twice", free_port())
    rig.add_profile("other", free_port(), model=replace(profile.model))
    stopping.append("twice")
    results: list[int] = []
    threads = [
        threading.Thread(
            target=lambda: results.append(rig.twinrig("start", "twice", "--no-wait").returncode)
        )
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [0, 0, 0]
    other = rig.twinrig("start", "other", "--no-wait")
    assert other.returncode == 1, other.stdout + other.stderr
    assert "twice" in other.stdout + other.stderr
    wait_until(lambda: rig.record("twice").get("server_pid") is not None, 60, "the launch")
    servers = [
        process
        for process in Path("/proc").iterdir()
        if process.name.isdigit() and _serves(process, "twice")
    ]
    assert len(servers) == 1, servers


def _serves(process: Path, profile_id: str) -> bool:
    try:
        command = (process / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
    except OSError:
        return False
    return "serve" in command and any(profile_id in word for word in command)

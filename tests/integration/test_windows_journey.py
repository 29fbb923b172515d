"""Panel, task, supervisor and WSL together: what a user of Windows has, wholly on doubles."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fixtures.scheduler_rig import environment, open_store, set_scheduler, tasks_of
from integration.test_tabby_journey import Tabby
from twinrig.domain.supervision import StateLayout

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="the doubles stand for Windows"),
    pytest.mark.slow,
    pytest.mark.timeout(900),
]


class Computer:
    """Windows with one user, WSL and Twinrig; a server program stands ready in WSL."""

    def __init__(self, root: Path) -> None:
        self.store = open_store(root / "pc")
        self.home = root / "app data 日本"
        self.home.mkdir()
        common = {
            **environment(self.store),
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring",
        }
        set_scheduler(self.store, environment=common)
        self.environ = {**common, "TWINRIG_HOME": str(self.home)}
        self.tabby = Tabby(root / "linux")
        self.layout = StateLayout(self.home / "state" / "wsl")
        self.store.set(idle_s=15.0, clock=5.0)

    def popen(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "twinrig", "--target", "wsl", *words],
            env=self.environ,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def run(self, *words: str, code: int = 0) -> str:
        process = self.popen(*words)
        out, err = process.communicate(timeout=300)
        assert process.returncode == code, f"{words}: {process.returncode}\n{out}\n{err}"
        return out + err

    def new_profile(self) -> None:
        self.run(
            *("profiles", "new", "Main", "--engine", "tabbyapi"),
            *("--environment", str(self.tabby.checkout), "--model", str(self.tabby.model)),
            *("--set", f"network.port={self.tabby.port}"),
        )

    def status(self) -> dict[str, Any]:
        process = self.popen("status", "main", "--json")
        out, _ = process.communicate(timeout=300)
        return json.loads(out)["status"]

    @property
    def record(self) -> dict[str, Any]:
        return json.loads(self.layout.state("main").read_text())

    def task_name(self) -> str:
        (name,) = tasks_of(self.store).names()
        return str(name)

    def supervisor(self) -> int:
        (instance,) = tasks_of(self.store).instances(self.task_name())
        return int(instance["pid"])

    def answers(self) -> bool:
        url = f"http://127.0.0.1:{self.tabby.port}/health"
        try:
            with urllib.request.urlopen(url, timeout=5) as reply:
                return reply.status == 200
        except OSError:
            return False

    def until(self, condition, limit_s: float = 240.0) -> None:
        deadline = time.monotonic() + limit_s
        while not condition():
            log = self.layout.supervisor_log("main")
            told = log.read_text() if log.exists() else ""
            assert time.monotonic() < deadline, f"not within {limit_s} s:\n{told}"
            time.sleep(0.1)

    def state(self) -> str:
        try:
            return str(self.record["state"])
        except (OSError, ValueError):
            return ""


@pytest.fixture
def computer(tmp_path: Path) -> Iterator[Computer]:
    made = Computer(tmp_path)
    yield made
    for name in tasks_of(made.store).names():
        for instance in tasks_of(made.store).instances(name):
            os.kill(instance["pid"], signal.SIGKILL)
    made.store.close()


def test_start_close_everything_and_stop(computer: Computer) -> None:
    computer.new_profile()
    start = computer.popen("start")
    computer.until(lambda: computer.state() in ("starting", "loading", "ready"))
    start.kill()  # the panel is gone in the middle of the load
    start.communicate()
    computer.until(lambda: computer.state() == "ready")
    first = computer.record["server_pid"]
    time.sleep(16.0 / 5.0)  # longer than WSL waits for a client
    assert computer.answers()
    seen = computer.status()
    assert (seen["supervisor_alive"], seen["answering"], seen["record"]["state"]) == (
        True,
        True,
        "ready",
    )
    panels = [computer.popen("start") for _ in range(2)]
    for panel in panels:
        out, _ = panel.communicate(timeout=300)
        assert panel.returncode == 0
        assert f"Base URL: http://127.0.0.1:{computer.tabby.port}/v1" in out
    assert computer.record["server_pid"] == first, "two panels, one server"
    assert computer.record["server_pid"] != computer.supervisor()
    assert computer.run("stop").splitlines()[-1] == "Stopped"
    assert not computer.answers()
    assert not Path(f"/proc/{first}").exists()
    computer.until(lambda: not tasks_of(computer.store).instances(computer.task_name()))
    assert (computer.home / "state" / "wsl" / "supervisor-output.log").exists()


@pytest.mark.parametrize("mode", ["tree", "root"])
def test_a_task_that_is_ended_from_outside_is_explained_and_swept(
    computer: Computer, mode: str
) -> None:
    set_scheduler(computer.store, end=mode)
    computer.new_profile()
    computer.run("start")
    first = computer.record["server_pid"]
    tasks_of(computer.store).end(computer.task_name())
    seen = computer.status()
    assert seen["supervisor_alive"] is False
    told = "its task was ended" if mode == "tree" else "gone"
    assert told in str(seen["problem"])
    computer.run("start")  # sweeps what was left, then begins anew
    assert not Path(f"/proc/{first}").exists(), "nothing holds the cards"
    assert computer.record["server_pid"] != first
    computer.run("stop")


def test_signing_out_ends_it_and_signing_in_brings_it_back(computer: Computer) -> None:
    computer.new_profile()
    computer.run("start")
    name = computer.task_name()
    tick = subprocess.run(
        [sys.executable, "-c", TICK], env=computer.environ, capture_output=True, text=True
    )
    assert tick.returncode == 0, tick.stderr
    first = computer.record
    computer.store.end_session()
    assert not computer.answers()
    assert computer.record["run_id"] == first["run_id"], "the files are whole"
    computer.until(lambda: not Path(f"/proc/{first['server_pid']}").exists(), 10)
    computer.until(lambda: tasks_of(computer.store).instances(name) == [], 10)
    computer.store.set(clock=200.0)
    tasks_of(computer.store).logon()
    computer.until(lambda: computer.state() == "ready" and computer.record != first)
    assert computer.answers()
    assert computer.task_name() == name
    computer.store.set(clock=5.0)
    computer.run("stop")


TICK = """
import asyncio, os
from twinrig.composition.targets import open_workbench
from twinrig.hosts.paths import find_paths
bench = open_workbench("wsl", find_paths(os.environ))
asyncio.run(bench.controller.set_autostart("main", True))
assert asyncio.run(bench.controller.status("main")).autostart is True
"""


def test_a_program_that_was_removed_is_said_before_anything_is_asked(computer: Computer) -> None:
    computer.new_profile()
    set_scheduler(computer.store, denied=True)
    out = computer.run("start", code=3)
    assert "does not allow this user to make a task" in out

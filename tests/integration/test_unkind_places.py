"""Read-only folders, a full disk, kills at any moment, a profile that changes below a server."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fixtures.demo_rig import Rig
from fixtures.modes import bound_by_modes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


class BoundRig(Rig):
    """The command line of somebody who is not root."""

    def popen(self, *words: str, target: str = "demo") -> subprocess.Popen[str]:
        return subprocess.Popen(
            bound_by_modes([sys.executable, "-m", "twinrig", "--target", target, *words]),
            env=self.environ,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    @property
    def state(self) -> Path:
        return self.home / "state" / "demo"

    @property
    def server(self) -> Path:
        return self.state / "servers" / "demo"


@pytest.fixture
def bound(tmp_path: Path) -> Iterator[BoundRig]:
    rig = BoundRig(tmp_path / "home")
    rig.home.mkdir()
    yield rig
    for folder, names, _files in os.walk(rig.home):
        for name in names:
            (Path(folder) / name).chmod(0o755)
    for pid in rig.processes():
        os.kill(pid, signal.SIGKILL)


@contextmanager
def read_only(folder: Path) -> Iterator[dict[str, bytes]]:
    """Nothing below may change; what was there is compared at the end."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    before = {path.name: path.read_bytes() for path in files}
    for path in files:
        path.chmod(0o444)
    folder.chmod(0o555)
    try:
        yield before
    finally:
        folder.chmod(0o755)
        for path in files:
            path.chmod(0o644)
    assert {path.name: path.read_bytes() for path in files} == before


def error_of(rig: Rig, *words: str, codes: tuple[int, ...] = (1, 3)) -> dict[str, str]:
    process = rig.popen(*words, "--json")
    out, err = process.communicate(timeout=60)
    assert process.returncode in codes, f"{process.returncode}\n{out}\n{err}"
    assert "Traceback" not in out + err
    error = json.loads(out)["error"]
    assert error["next_step"]
    return error


def refused_fix(rig: Rig) -> str:
    (refused,) = rig.json("fix", "sysctl-ptrace-0", "--yes", code=1)["fixes"]
    assert not refused["applied"]
    return refused["error"]


def test_a_read_only_journal_changes_nothing(bound: BoundRig) -> None:
    bound.new_profile()
    (done,) = bound.json("fix", "sysctl-ptrace-0", "--yes")["fixes"]
    bound.run("undo", done["entry"])
    journal = bound.state / "journal.jsonl"
    journal.chmod(0o444)
    before = journal.read_bytes()
    assert str(journal) in refused_fix(bound)
    assert journal.read_bytes() == before
    found = [r for r in bound.json("doctor", code=1)["results"] if r["status"] == "fail"]
    assert [r["check_id"] for r in found] == ["ptrace-scope"]
    journal.chmod(0o644)
    bound.json("fix", "sysctl-ptrace-0", "--yes")


def test_a_read_only_wish_is_told_and_the_server_stays(bound: BoundRig) -> None:
    bound.new_profile()
    bound.run("start")
    with read_only(bound.server):
        error = error_of(bound, "stop")
        assert str(bound.server / "desired.json") in error["text"]
        assert bound.health() == 200
        seen = bound.json("status", "demo")["status"]
        assert (seen["supervisor_alive"], seen["answering"]) == (True, True)
    bound.run("stop")
    bound.until(lambda: bound.processes() == {}, 10)


def test_a_read_only_state_starts_nothing(bound: BoundRig) -> None:
    bound.new_profile()
    bound.server.mkdir(parents=True)
    with read_only(bound.server):
        error = error_of(bound, "start")
        assert str(bound.server) in error["text"]
        bound.until(lambda: bound.processes() == {}, 10)
    bound.run("start")
    bound.run("stop")


def test_a_state_that_turns_read_only_does_not_end_the_server(bound: BoundRig) -> None:
    bound.new_profile()
    bound.run("start")
    stamp = bound.status()["record"]["updated_at_s"]
    with read_only(bound.server):
        time.sleep(6)  # longer than a heartbeat
        assert bound.health() == 200
        assert bound.status()["record"]["updated_at_s"] == stamp
    bound.until(lambda: bound.status()["record"]["updated_at_s"] > stamp, 20)
    bound.run("stop")


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(folder)], capture_output=True
    )
    if made.returncode != 0:
        pytest.skip("no small file system can be mounted here: needs root")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_neither_ends_the_server_nor_loses_a_file(rig: Rig) -> None:
    rig.new_profile()
    state = rig.home / "state"
    with small_disk(state, "1m"):
        rig.run("start")
        filler = state / "filler"
        with filler.open("wb", buffering=0) as handle:
            try:
                while True:
                    handle.write(bytes(4096))
            except OSError:
                pass
        record = state / "demo/servers/demo/state.json"
        before = json.loads(record.read_bytes())
        error = error_of(rig, "stop")
        assert "No space left" in error["text"]
        assert "journal" in refused_fix(rig)
        time.sleep(6)
        assert rig.health() == 200
        assert json.loads(record.read_bytes())["server_pid"] == before["server_pid"]
        filler.unlink()
        assert rig.status()["supervisor_alive"]
        rig.run("stop")
        rig.until(lambda: rig.processes() == {}, 10)


def test_a_start_that_is_killed_at_any_moment_is_picked_up(rig: Rig) -> None:
    rig.new_profile()
    moments = random.Random(5)
    for _ in range(6):
        start = rig.popen("start")
        time.sleep(moments.uniform(0.1, 1.6))
        start.kill()
        start.communicate()
        assert rig.json("status", "demo")["status"] is not None
    assert "Ready" in rig.run("start")
    names = list(rig.processes().values())
    assert sum("demo-server" in name for name in names) == 1
    assert sum("supervise demo" in name for name in names) == 1
    for _ in range(3):
        stop = rig.popen("stop")
        time.sleep(moments.uniform(0.1, 0.8))
        stop.kill()
        stop.communicate()
    rig.run("stop")
    rig.until(lambda: rig.processes() == {}, 10)


def test_a_profile_edited_below_its_server_counts_at_the_next_start(rig: Rig) -> None:
    rig.new_profile()
    rig.run("start")
    first = rig.port
    other = Rig(rig.home)
    out = rig.run("profiles", "edit", "demo", "set", f"network.port={other.port}")
    assert "keeps its old settings until a restart" in out
    assert rig.health() == 200
    assert f":{first}/" in rig.status()["record"]["base_url"] + "/"
    rig.run("stop")
    rig.until(lambda: rig.processes() == {}, 10)
    rig.run("start")
    assert other.health() == 200
    rig.run("stop")


def test_a_profile_that_vanishes_below_its_server(rig: Rig) -> None:
    rig.new_profile()
    rig.run("start")
    refused = error_of(rig, "profiles", "delete", "demo", codes=(2,))
    assert "running" in refused["text"]
    (rig.home / "config/profiles/demo.yaml").unlink()
    assert rig.health() == 200
    assert rig.status()["answering"]
    assert "Stopped" in rig.run("stop", "demo")
    rig.until(lambda: rig.processes() == {}, 10)

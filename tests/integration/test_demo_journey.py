"""The main job on the demo rig, through real processes: what a newcomer does, in seconds."""

from __future__ import annotations

import os
import signal
import socket
import sys
from pathlib import Path

import pytest

from fixtures.demo_rig import Keyboard, Rig

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def test_find_fix_prove_undo(rig: Rig) -> None:
    rig.new_profile()
    found = [r for r in rig.json("doctor", code=1)["results"] if r["status"] == "fail"]
    assert [r["check_id"] for r in found] == ["ptrace-scope"]
    (done,) = rig.json("fix", "sysctl-ptrace-0", "--yes")["fixes"]
    assert done["proven"]
    rig.run("doctor")
    rig.run("undo", done["entry"])
    rig.json("doctor", code=1)


def test_start_watch_stop_leaves_nothing(rig: Rig) -> None:
    rig.new_profile()
    assert rig.processes() == {}
    out = rig.run("start")
    assert "Loading weights" in out
    assert f"Base URL: http://127.0.0.1:{rig.port}/v1" in out
    assert rig.health() == 200
    seen = rig.status()
    assert (seen["record"]["state"], seen["supervisor_alive"], seen["answering"]) == (
        "ready",
        True,
        True,
    )
    first_pid = seen["record"]["server_pid"]
    assert "Ready" in rig.run("watch", "--seconds", "1")
    rig.run("start")
    assert rig.status()["record"]["server_pid"] == first_pid
    assert rig.run("stop").splitlines()[-1] == "Stopped"
    rig.until(lambda: rig.processes() == {}, 5)
    assert rig.json("status")["status"] is None
    assert rig.status()["record"]["state"] == "stopped"


def test_two_starts_at_once_are_one_server(rig: Rig) -> None:
    rig.new_profile()
    starts = [rig.popen("start") for _ in range(3)]
    for start in starts:
        out, err = start.communicate(timeout=60)
        assert (start.returncode, err) == (0, ""), out
        assert "Ready" in out
    names = list(rig.processes().values())
    assert sum("demo-server" in name for name in names) == 1
    assert sum("supervise demo" in name for name in names) == 1
    log = (rig.home / "state/demo/servers/demo/supervisor.log").read_text()
    assert log.count("starting -> loading") == 1
    rig.run("stop")


def test_a_second_profile_is_refused_by_name(rig: Rig) -> None:
    rig.new_profile()
    rig.new_profile("Other")
    rig.run("start", "demo")
    refused = rig.json("start", "other", code=1)
    assert "The server of demo is running" in refused["error"]["text"]
    rig.run("stop")


def test_a_killed_supervisor_is_told_and_swept(rig: Rig) -> None:
    rig.new_profile()
    rig.run("start")
    (supervisor,) = (pid for pid, name in rig.processes().items() if "supervise demo" in name)
    os.kill(supervisor, signal.SIGKILL)
    rig.until(lambda: supervisor not in rig.processes())
    seen = rig.json("status", "demo", code=1)["status"]
    assert (seen["supervisor_alive"], seen["answering"], seen["record"]["state"]) == (
        False,
        True,
        "ready",
    )
    assert "still answers" in seen["problem"]
    rig.run("stop")
    rig.until(lambda: rig.processes() == {}, 5)
    assert rig.status()["record"]["state"] == "stopped"


def test_a_server_that_cannot_start_says_why(rig: Rig) -> None:
    rig.new_profile()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", rig.port))
        taken.listen()
        out = rig.run("start", code=1)
    assert str(rig.port) in out
    assert "Next:" in out
    failed = rig.json("status", "demo", code=1)["status"]["record"]
    assert failed["state"] == "failed"
    assert failed["failure"]["next_step"]
    rig.until(lambda: rig.processes() == {}, 5)
    assert "Ready" in rig.run("start")
    rig.run("stop")


def test_up_does_the_whole_job_with_nobody_there(rig: Rig) -> None:
    rig.new_profile()
    out = rig.run("up", "--seconds", "6")  # on a busy machine the first rate comes late
    order = [
        "Demo rig",
        "Preflight",
        "ptrace_scope is 1",
        "Plan",
        "Start",
        "Ready after",
        "First reply",
        "demo engine",
        "everything works",
        "A demo client",
        "[Demo rig]",
        "Stopped",
    ]
    places = [out.find(word) for word in order]
    assert -1 not in places
    assert places == sorted(places)
    live = [line for line in out.splitlines() if line.startswith("[Demo rig]")]
    assert len(live) >= 3
    assert any(" 0.0 T/s" not in line and "n/a prompt" not in line for line in live)
    rig.until(lambda: rig.processes() == {}, 5)


def test_up_can_keep_the_server_and_attaches_to_it(rig: Rig) -> None:
    rig.new_profile()
    assert "goes on by itself" in rig.run("up", "--seconds", "0", "--keep")
    assert rig.health() == 200
    assert "It runs already" in rig.run("up", "--seconds", "0")
    assert rig.health() == 200
    rig.run("stop")


def test_start_that_is_interrupted_leaves_the_server_loading(rig: Rig) -> None:
    rig.new_profile(scale=0.5)
    start = rig.popen("start")
    rig.until(lambda: any("demo-server" in name for name in rig.processes().values()))
    start.send_signal(signal.SIGINT)
    out, err = start.communicate(timeout=20)
    assert (start.returncode, err) == (130, "")
    assert "not stopped by this" in out
    assert "Ready" in rig.run("start")
    rig.run("stop")


def test_a_broken_pipe_is_no_error(rig: Rig) -> None:
    process = rig.popen("watch", "--seconds", "20")
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(timeout=20) == 0
    assert process.stderr is not None
    assert process.stderr.read() == ""
    process.stderr.close()


@pytest.mark.skipif(Path("/proc/driver/nvidia").exists(), reason="this computer has a card")
def test_up_shows_the_demo_rig_where_nothing_is(rig: Rig) -> None:
    out = rig.run("up", "--seconds", "1", target="auto")
    order = [
        "Target: This computer",
        "There is no NVIDIA card and no server here.",
        "Demo rig: simulated",
        "Made the profile",
        "Ready after",
        "Stopped",
    ]
    places = [out.find(word) for word in order]
    assert -1 not in places
    assert places == sorted(places)
    rig.until(lambda: rig.processes() == {}, 5)


def test_up_at_a_terminal_asks_and_ctrl_c_ends_the_view_only(rig: Rig) -> None:
    rig.new_profile()
    person = Keyboard(rig, "up")
    person.wait_for("Apply this fix? [y/N]")
    person.type("n\n")
    person.wait_for("Start the server now? [Y/n]")
    person.type("\n")
    person.wait_for("Ctrl+C ends the view.")
    person.type("\x03")
    person.wait_for("Leave the server running? [Y/n]")
    person.type("y\n")
    person.wait_for("goes on by itself")
    assert person.end() == 0
    assert rig.health() == 200
    rig.run("stop")
    rig.until(lambda: rig.processes() == {}, 5)

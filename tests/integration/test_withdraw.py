"""``twinrig withdraw``: what an uninstaller leaves running, and what it takes back."""

from __future__ import annotations

import os
import signal
import sys

import pytest

from fixtures.demo_rig import Rig

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def test_a_running_server_is_stopped_and_nothing_stays(rig: Rig) -> None:
    rig.new_profile()
    rig.run("start")
    assert rig.processes()
    assert rig.json("withdraw") == {"left": []}
    rig.until(lambda: rig.processes() == {}, 5)
    assert rig.status()["record"]["state"] == "stopped"
    assert rig.run("profiles", "list"), "user data stays"
    assert rig.json("withdraw") == {"left": []}


def test_a_dead_supervisor_is_swept(rig: Rig) -> None:
    rig.new_profile()
    rig.run("start")
    owner = next(pid for pid, words in rig.processes().items() if "supervise" in words)
    os.kill(owner, signal.SIGKILL)
    rig.until(lambda: owner not in rig.processes(), 5)
    assert rig.json("withdraw") == {"left": []}
    rig.until(lambda: rig.processes() == {}, 5)


def test_changes_are_taken_back_only_when_asked(rig: Rig) -> None:
    rig.new_profile()
    rig.run("fix", "sysctl-ptrace-0", "--yes")
    rig.run("withdraw")
    rig.run("doctor")
    assert "Taken back" in rig.run("withdraw", "--undo-changes")
    rig.json("doctor", code=1)
    assert rig.json("withdraw", "--undo-changes") == {"left": []}


def test_nothing_was_ever_used(rig: Rig) -> None:
    assert rig.json("withdraw", "--undo-changes", "--forget-keys") == {"left": []}
    assert not (rig.home / "state").exists(), "asking made folders"

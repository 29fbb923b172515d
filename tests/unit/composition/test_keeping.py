"""Who keeps servers: chosen by the machine; what a task has to find out by itself."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from fixtures.scheduler_rig import SID
from twinrig.composition import keeping
from twinrig.composition.keeping import (
    be_a_task,
    be_a_unit,
    machine_watch,
    renew_wish,
    server_launcher,
    service_manager,
    use_home,
    windowless,
)
from twinrig.composition.targets import open_rig
from twinrig.domain.errors import HostError
from twinrig.domain.server import ServerState
from twinrig.domain.supervision import Desired, DesiredState, ServerRecord, StateLayout
from twinrig.hosts.local.launcher import LocalServerLauncher
from twinrig.hosts.paths import find_paths
from twinrig.hosts.windows.task_manager import WindowsTaskManager
from twinrig.hosts.wsl.launcher import WslServerLauncher
from twinrig.services.server_files import ServerFiles

WINDOWS = {
    "TWINRIG_SCHTASKS_EXE": "/pc/schtasks.exe",
    "TWINRIG_WSL_EXE": sys.executable,
    "TWINRIG_USER_SID": SID,
}


@pytest.fixture
def files(tmp_path):
    return ServerFiles(StateLayout(tmp_path))


def wish(files, desired, at_s):
    files.request("main", DesiredState(desired, "r1", "panel", at_s))


def test_a_task_owns_supervisors_where_there_is_a_scheduler(tmp_path):
    manager = service_manager("wsl", tmp_path, {**WINDOWS, "TWINRIG_HOME": str(tmp_path)}, "Debian")
    assert isinstance(manager, WindowsTaskManager)
    command = manager._command("main")
    assert command[1:] == (
        *("-m", "twinrig", "--target", "wsl", "--distro", "Debian"),
        *("supervise", "main", "--home", str(tmp_path)),
    ), "a task has none of our variables"
    usual = service_manager("demo", tmp_path, WINDOWS)
    assert "--home" not in usual._command("main")
    assert service_manager("local", tmp_path, {}).kind in ("systemd-user", "detached")


def test_without_a_user_there_is_no_task(tmp_path):
    with pytest.raises(HostError, match="who is signed in"):
        service_manager("wsl", tmp_path, {**WINDOWS, "TWINRIG_USER_SID": ""})


def test_launchers_by_target(tmp_path):
    paths = find_paths({"TWINRIG_HOME": str(tmp_path)})
    wsl = open_rig("wsl", paths, WINDOWS)
    assert isinstance(server_launcher(wsl, tmp_path, WINDOWS), WslServerLauncher)
    assert machine_watch(wsl) is not None
    demo = open_rig("demo", paths, {})
    assert isinstance(server_launcher(demo, tmp_path, {}), LocalServerLauncher)
    assert machine_watch(demo) is None


def test_the_python_without_a_console(tmp_path):
    python, other = tmp_path / "python.exe", tmp_path / "pythonw.exe"
    assert windowless(python) == python
    other.touch()
    assert windowless(python) == other
    assert windowless(tmp_path / "PYTHON.EXE") == other
    assert windowless(other) == other
    assert windowless(Path("/usr/bin/python3")) == Path("/usr/bin/python3")


def test_a_start_that_nobody_asked_for_is_the_logon(files):
    wish(files, Desired.STOPPED, 1000.0)
    renew_wish(files, "main", 1000.0 + 8 * 3600)
    now = files.desired("main")
    assert now.desired is Desired.RUNNING
    assert (now.requested_by, now.requested_at_s) == ("logon", 1000.0 + 8 * 3600)


@pytest.mark.parametrize("age_s", [0.0, 60.0, -500.0])
def test_a_stop_of_just_now_holds(files, age_s):
    wish(files, Desired.STOPPED, 1000.0)
    renew_wish(files, "main", 1000.0 + age_s)
    assert files.desired("main").desired is Desired.STOPPED


def test_other_wishes_and_damage_are_left_alone(files, tmp_path):
    renew_wish(files, "main", 5000.0)
    assert files.desired("main") is None
    wish(files, Desired.RUNNING, 1000.0)
    renew_wish(files, "main", 50_000.0)
    assert files.desired("main").request_id == "r1"
    path = StateLayout(tmp_path).desired("main")
    path.write_text("{")
    renew_wish(files, "main", 50_000.0)
    assert path.read_text() == "{"


def unit_environ():
    return {"SYSTEMD_EXEC_PID": str(os.getpid())}


def keep_record(root, state, updated_at_s):
    record = ServerRecord("main", "local", "vllm", "run", state, updated_at_s, 1)
    path = StateLayout(root).state("main")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(record.to_json())


def test_a_unit_that_the_logon_started_runs_what_was_stopped_the_day_before(files, tmp_path):
    wish(files, Desired.STOPPED, time.time() - 8 * 3600)
    be_a_unit(tmp_path, "main", {})
    be_a_unit(tmp_path, "main", {"SYSTEMD_EXEC_PID": "1"})
    assert files.desired("main").desired is Desired.STOPPED, "a child of a unit is no unit"
    keep_record(tmp_path, ServerState.STOPPED, time.time() - 8 * 3600)
    be_a_unit(tmp_path, "main", unit_environ())
    assert files.desired("main").desired is Desired.RUNNING


def test_a_unit_that_a_stop_from_twinrig_started_stops(files, tmp_path):
    wish(files, Desired.STOPPED, time.time())
    be_a_unit(tmp_path, "main", unit_environ())
    assert files.desired("main").desired is Desired.STOPPED


@pytest.mark.parametrize(("booted", "wanted"), [(False, Desired.STOPPED), (True, Desired.RUNNING)])
def test_a_stop_that_was_cut_off_holds_until_the_computer_restarts(
    files, tmp_path, monkeypatch, booted, wanted
):
    now_s = time.time()
    wish(files, Desired.STOPPED, now_s - 600)
    keep_record(tmp_path, ServerState.STOPPING, now_s - 300)
    start_s = now_s - (100 if booted else 900)
    monkeypatch.setattr("twinrig.composition.keeping.boot_at_s", lambda: start_s)
    be_a_unit(tmp_path, "main", unit_environ())
    assert files.desired("main").desired is wanted


def test_a_record_that_cannot_be_read_renews_nothing(files, tmp_path):
    wish(files, Desired.STOPPED, 1000.0)
    StateLayout(tmp_path).state("main").write_text("{")
    be_a_unit(tmp_path, "main", unit_environ())
    assert files.desired("main").desired is Desired.STOPPED


def test_what_a_task_prints_goes_into_a_file(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stdout", sys.stdout)
    monkeypatch.setattr(sys, "stderr", sys.stderr)
    be_a_task(tmp_path / "wsl", "main", {})
    assert not (tmp_path / "wsl").exists()
    be_a_task(tmp_path / "wsl", "main", WINDOWS)
    sys.stderr.write("no module named x\n")
    sys.stderr.close()
    told = (tmp_path / "wsl" / "supervisor-output.log").read_text()
    assert told == "no module named x\n"


def test_the_place_of_files_comes_as_words(monkeypatch):
    monkeypatch.setenv("TWINRIG_HOME", "/before")
    use_home(("--target", "wsl", "supervise", "main"))
    use_home(("--home", "/not/for/other/verbs", "status"))
    use_home(("supervise", "main", "--home"))
    assert os.environ["TWINRIG_HOME"] == "/before"
    use_home(("supervise", "main", "--home", "/place"))
    assert os.environ["TWINRIG_HOME"] == "/place"


@pytest.mark.parametrize(
    ("ini", "environ", "wanted"),
    [
        (None, {}, False),
        ("[flags]\nkeep-awake=false\n", {}, False),
        ("[flags]\nkeep-awake=true\n", {}, True),
        ("[General]\nkeep-awake=true\n", {}, False),
        ("[flags]\nkeep-awake=false\n", {"TWINRIG_KEEP_AWAKE": "1"}, True),
        ("[flags]\nkeep-awake=true\n", {"TWINRIG_KEEP_AWAKE": "0"}, False),
        ("\x00broken", {}, False),
    ],
)
def test_the_computer_stays_awake_only_when_asked(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    ini: str | None,
    environ: dict[str, str],
    wanted: bool,
) -> None:
    asked: list[int] = []

    def set_state(state: int) -> int:
        asked.append(state)
        return 1

    monkeypatch.setattr(keeping, "set_execution_state", set_state)
    if ini is not None:
        (tmp_path / "panel.ini").write_text(ini)
    with keeping.staying_awake(tmp_path, environ):
        assert asked == ([0x80000001] if wanted else [])
    assert len(asked) == (2 if wanted else 0)

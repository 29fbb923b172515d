"""The task that owns a supervisor: its life on the double of the Task Scheduler."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from fixtures.scheduler_rig import SID, environment, scheduler, set_scheduler, tasks_of
from service_fakes import ManualClock
from twinrig.domain.errors import HostError
from twinrig.hosts.clock import SystemClock
from twinrig.hosts.locks import FileLock
from twinrig.hosts.windows.task_manager import APPEAR_S, WindowsTaskManager
from twinrig.hosts.windows.task_names import TaskNames
from twinrig.hosts.windows.task_xml import TaskSpec

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="the double stands for Windows"),
    pytest.mark.timeout(300),
]

SUPERVISOR = """
import sys, time
from pathlib import Path
from twinrig.hosts.locks import FileLock
lock = FileLock(Path(sys.argv[1]), sys.argv[2])
assert lock.acquire("supervisor")
time.sleep(60)
"""


class Owner:
    """A manager whose supervisors are real processes of the double."""

    def __init__(self, root: Path, schtasks, store) -> None:
        self.root, self.schtasks, self.store = root, schtasks, store
        self.script = root / "supervisor.py"
        self.script.write_text(SUPERVISOR)
        self.program = sys.executable
        set_scheduler(
            store, environment={**environment(store), "PYTHONPATH": os.pathsep.join(sys.path)}
        )
        self.manager = self.make(SystemClock())

    def make(self, clock) -> WindowsTaskManager:
        return WindowsTaskManager(
            self.schtasks,
            TaskNames(SID),
            lambda i: (self.program, str(self.script), str(self.root), i),
            self.root,
            FileLock(self.root),
            clock,
        )

    @property
    def tasks(self):
        return tasks_of(self.store)

    async def up(self) -> int:
        deadline = time.monotonic() + 30
        while (pid := FileLock(self.root).holder("supervisor")) is None:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        return pid

    def creations(self) -> int:
        return sum("/Create" in call["cmdline"] for call in self.store.calls("schtasks"))


@pytest.fixture
def owner(tmp_path):
    with scheduler(tmp_path / "pc") as (schtasks, _, store):
        made = Owner(tmp_path, schtasks, store)
        yield made
        pid = FileLock(tmp_path).holder("supervisor")
        if pid:
            os.kill(pid, signal.SIGKILL)


async def test_a_life(owner):
    manager = owner.manager
    assert manager.kind == "windows-task"
    assert await manager.is_running("main") is False
    await manager.start("main")
    assert await manager.is_running("main") is not False, "it may be on its way"
    pid = await owner.up()
    assert await manager.is_running("main") is True
    assert await manager.is_running("other") is False
    await manager.start("main")
    assert FileLock(owner.root).holder("supervisor") == pid
    assert owner.creations() == 1
    await manager.kill("main")
    assert FileLock(owner.root).holder("supervisor") is None
    assert await manager.is_running("main") is False
    await manager.start("main")
    await owner.up()
    assert owner.creations() == 1, "written once, not at each start"
    await manager.kill("main")


async def test_one_that_does_not_appear_is_given_up(owner):
    clock = ManualClock()
    manager = owner.make(clock)
    owner.script.write_text("raise SystemExit(1)")
    await manager.start("main")
    assert await manager.is_running("main") is None
    clock.time_s += APPEAR_S
    assert await manager.is_running("main") is False


@pytest.mark.parametrize("mode", ["root", "nothing"])
async def test_an_end_that_ends_nothing_is_done_by_the_process_id(owner, mode, monkeypatch):
    from twinrig.hosts.windows import task_manager

    monkeypatch.setattr(task_manager, "_GRACE_S", 0.5)
    set_scheduler(owner.store, end=mode)
    await owner.manager.start("main")
    await owner.up()
    await owner.manager.kill("main")
    assert FileLock(owner.root).holder("supervisor") is None


async def test_an_end_that_takes_a_while_is_waited_for(owner):
    """Windows asks windows to close first, and we have none."""
    set_scheduler(owner.store, end="slow", close_s=1.5)
    await owner.manager.start("main")
    await owner.up()
    began_s = time.monotonic()
    await owner.manager.kill("main")
    assert time.monotonic() - began_s > 1.0
    assert FileLock(owner.root).holder("supervisor") is None
    (status,) = [owner.tasks.status(name) for name in owner.tasks.names()]
    assert status["result"] == 0x41306, "ended by the scheduler, not by the process id"


@pytest.mark.parametrize("how", ["deleted", "damaged"])
async def test_a_task_that_is_lost_behind_our_back_is_written_anew(owner, how):
    await owner.manager.start("main")
    await owner.up()
    await owner.manager.kill("main")
    (name,) = owner.tasks.names()
    if how == "deleted":
        owner.tasks.delete(name)
    else:
        owner.tasks.path(name).write_bytes(b"\x00\x01not a task")
        assert await owner.schtasks.definition(name) is None
    assert await owner.manager.autostart("main") is False
    await owner.manager.start("main")
    await owner.up()
    assert owner.creations() == 2
    await owner.manager.kill("main")


async def test_autostart_is_ticked_kept_and_unticked(owner):
    manager = owner.manager
    await manager.set_autostart("main", False)
    assert owner.creations() == 0, "there is nothing to untick"
    assert await manager.autostart("main") is False
    await manager.set_autostart("main", True)
    assert await manager.autostart("main") is True
    await manager.start("main")
    await owner.up()
    assert await manager.autostart("main") is True, "a start does not untick it"
    await manager.set_autostart("main", False)
    assert await manager.autostart("main") is False
    await manager.kill("main")


async def test_a_tick_that_windows_refuses_changes_nothing(owner):
    await owner.manager.start("main")
    await owner.up()
    set_scheduler(owner.store, logon_denied=True)
    with pytest.raises(HostError, match="start something at logon"):
        await owner.manager.set_autostart("main", True)
    assert await owner.manager.autostart("main") is False
    assert await owner.manager.is_running("main") is True
    await owner.manager.kill("main")


async def test_without_a_folder_of_ours_the_root_has_to_do(owner):
    set_scheduler(owner.store, folder_denied=True)
    await owner.manager.start("main")
    await owner.up()
    assert owner.tasks.names() == ["\\twinrig-server-main-1001"]
    await owner.manager.kill("main")


async def test_a_changed_or_disabled_task_is_written_anew(owner):
    await owner.manager.set_autostart("main", True)
    name = "\\Twinrig\\server-main-1001"
    owner.tasks.enable(name, False)
    assert await owner.manager.autostart("main") is False, "the user has switched it off"
    await owner.manager.start("main")
    await owner.up()
    assert owner.tasks.state(name) == "running"
    assert await owner.manager.autostart("main") is False
    await owner.manager.kill("main")
    owner.program = str(owner.root / "pythonw.exe")
    Path(owner.program).symlink_to(sys.executable)
    await owner.manager.start("main")
    await owner.up()
    assert owner.tasks.value(name, "Actions/Exec/Command") == owner.program
    await owner.manager.kill("main")


@pytest.mark.parametrize("setting", [{"denied": True}, {"service": False}], ids=str)
async def test_a_refusal_is_said_in_words(owner, setting):
    set_scheduler(owner.store, **setting)
    with pytest.raises(HostError, match="does not allow this user to make a task"):
        await owner.manager.start("main")
    assert await owner.manager.is_running("main") is False


async def test_nobody_signed_in_is_said(owner):
    set_scheduler(owner.store, signed_in=False)
    with pytest.raises(HostError, match="does not start the task"):
        await owner.manager.start("main")


async def test_a_program_that_is_gone_is_said_before_windows_is_asked(owner):
    owner.program = str(owner.root / "gone.exe")
    with pytest.raises(HostError, match=r"gone\.exe is missing"):
        await owner.manager.start("main")
    assert owner.creations() == 0


async def test_removing_all_takes_ours_and_nobody_elses(owner):
    for profile_id in ("main", "second"):
        await owner.manager.set_autostart(profile_id, True)
    stranger = TaskSpec("\\Twinrig\\server-x-1002", SID, (sys.executable,), str(owner.root), "x")
    assert await owner.schtasks.create(stranger)
    await owner.manager.start("main")
    pid = await owner.up()
    assert await owner.manager.unregister_all(["main"]) == ()
    assert owner.tasks.names() == ["\\twinrig\\server-x-1002"]
    assert FileLock(owner.root).holder("supervisor") != pid
    assert await owner.manager.unregister_all(["main"]) == ()


async def test_removing_says_what_resists(owner):
    await owner.manager.set_autostart("main", True)
    set_scheduler(owner.store, denied=True)
    assert await owner.manager.unregister_all() == ("\\Twinrig\\server-main-1001",)

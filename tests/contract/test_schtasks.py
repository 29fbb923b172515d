"""What Twinrig relies on in ``schtasks.exe``: run against the double, or the real one.

``TWINRIG_CONTRACT_SCHTASKS`` names the real one. Tests that set a scene (another language, a
refusal, a sign-out) need the double.
"""

from __future__ import annotations

import subprocess
import sys
import time
import uuid
from dataclasses import replace

import pytest

from fixtures.scheduler_rig import REAL, scheduler, set_scheduler, tasks_of
from twinrig.domain.errors import HostError
from twinrig.hosts.windows import schtasks as schtasks_module
from twinrig.hosts.windows.task_xml import TaskSpec, task_xml

double_only = pytest.mark.skipif(bool(REAL), reason="sets a scene that only the double can play")

WRITER = (
    "import os, sys, pathlib, time;"
    "p = pathlib.Path(sys.argv[1]); p.with_suffix('.new').write_text(str(os.getpid()));"
    "p.with_suffix('.new').replace(p); time.sleep(float(sys.argv[2]))"
)


class Scene:
    """One scheduler and one task that writes its process id into a file."""

    def __init__(self, tmp_path, rig):
        self.schtasks, self.sid, self.store = rig
        self.folder = tmp_path / "a folder ü 日本"
        self.folder.mkdir()
        self.file = self.folder / "pid.txt"
        self.spec = self.make(60)

    def make(self, seconds, **changes):
        name = f"\\Twinrig\\test-{uuid.uuid4().hex[:12]}"
        words = (sys.executable, "-c", WRITER, str(self.file), str(seconds))
        spec = TaskSpec(name, self.sid, words, str(self.folder), "A test; safe to delete & <x>.")
        return replace(spec, **changes)

    @property
    def tasks(self):
        return tasks_of(self.store)

    def started(self, limit_s=30.0):
        """Process id of the task's program."""
        deadline = time.monotonic() + limit_s
        while not self.file.exists():
            assert time.monotonic() < deadline, "the task did not start"
            time.sleep(0.02)
        return int(self.file.read_text())

    def never_starts(self, seconds=0.6):
        time.sleep(seconds)
        assert not self.file.exists()


@pytest.fixture
def scene(tmp_path):
    with scheduler(tmp_path / "double") as rig:
        made = Scene(tmp_path, rig)
        yield made
        if REAL:
            name = made.spec.name
            for verb in ("/End", "/Delete"):
                words = ["schtasks.exe", verb, "/TN", name, *(["/F"] if verb == "/Delete" else [])]
                subprocess.run(words, capture_output=True, check=False)


def alive(pid: int) -> bool:
    if sys.platform != "win32":
        from scheduler import alive as lives

        return lives(pid)
    out = subprocess.run(["tasklist", "/FI", f"PID eq {pid}"], capture_output=True, check=False)
    return str(pid).encode() in out.stdout


def gone(pid: int, limit_s: float = 20.0) -> bool:
    deadline = time.monotonic() + limit_s
    while alive(pid):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


async def test_what_is_registered_is_read_back(scene):
    assert await scene.schtasks.definition(scene.spec.name) is None
    assert await scene.schtasks.create(scene.spec)
    found = await scene.schtasks.definition(scene.spec.name)
    assert found is not None
    assert found.name == scene.spec.name
    assert found.does(scene.spec)
    assert not found.does(replace(scene.spec, command=("C:\\other.exe",)))
    assert not found.does(replace(scene.spec, at_logon=True))
    assert scene.spec.name in {one.name for one in await scene.schtasks.definitions()}


async def test_a_start_at_logon_can_be_ticked_and_unticked(scene):
    ticked = replace(scene.spec, at_logon=True)
    assert await scene.schtasks.create(ticked)
    found = await scene.schtasks.definition(scene.spec.name)
    assert found.at_logon
    assert found.does(ticked)
    assert await scene.schtasks.create(scene.spec)
    assert not (await scene.schtasks.definition(scene.spec.name)).at_logon


async def test_run_end_delete(scene):
    assert await scene.schtasks.create(scene.spec)
    assert await scene.schtasks.run(scene.spec.name)
    pid = scene.started()
    assert await scene.schtasks.run(scene.spec.name), "a second start is no error"
    time.sleep(0.5)
    assert int(scene.file.read_text()) == pid, "and no second process"
    assert await scene.schtasks.end(scene.spec.name)
    assert gone(pid)
    assert await scene.schtasks.end(scene.spec.name), "nothing to end is no error"
    assert await scene.schtasks.delete(scene.spec.name)
    assert await scene.schtasks.definition(scene.spec.name) is None
    assert not await scene.schtasks.delete(scene.spec.name)
    assert not await scene.schtasks.run(scene.spec.name)


async def test_words_arrive_as_they_were(scene):
    words = ['a "quoted" word', "back\\slash\\", "", "50%", "日本 & <x>"]
    code = "import sys, pathlib; pathlib.Path(sys.argv[1]).write_text(repr(sys.argv[2:]), 'utf-8')"
    command = (sys.executable, "-c", code, str(scene.file), *words)
    scene.spec = replace(scene.spec, command=command)
    assert await scene.schtasks.create(scene.spec)
    assert await scene.schtasks.run(scene.spec.name)
    deadline = time.monotonic() + 30
    while not scene.file.exists() or not scene.file.read_text("utf-8"):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert scene.file.read_text("utf-8") == repr(words)


async def test_a_definition_in_the_wrong_encoding_is_refused(scene, monkeypatch):
    def narrow(spec):
        return task_xml(spec)[2:].decode("utf-16-le").encode()

    monkeypatch.setattr(schtasks_module, "task_xml", narrow)
    assert not await scene.schtasks.create(scene.spec)


async def test_another_user_is_refused(scene):
    assert not await scene.schtasks.create(replace(scene.spec, user="S-1-5-21-1-2-3-1999"))


@double_only
@pytest.mark.parametrize(("language", "oem"), [("ja", "cp932"), ("de", "cp850"), ("en", "cp437")])
async def test_every_language_and_code_page(tmp_path, language, oem):
    with scheduler(tmp_path / "double", language=language, oem=oem) as rig:
        scene = Scene(tmp_path, rig)
        assert await scene.schtasks.create(scene.spec)
        found = await scene.schtasks.definition(scene.spec.name)
        assert found.does(scene.spec), "letters that the code page lacks count as equal"
        assert await scene.schtasks.definition("\\Twinrig\\none") is None
        answer = await scene.schtasks._call("/Query", "/TN", "\\Twinrig\\none", "/XML")
        assert (answer.code, answer.output) == (1, b"")
        assert answer.errors.decode(oem).startswith(("ERROR: ", "エラー: ", "FEHLER: "))


@double_only
@pytest.mark.parametrize(
    "setting", [{"denied": True}, {"service": False}, {"folder_denied": True}], ids=str
)
async def test_refusals_are_told_by_the_exit_code(scene, setting):
    set_scheduler(scene.store, **setting)
    assert not await scene.schtasks.create(scene.spec)


@double_only
async def test_a_logon_trigger_may_be_refused(scene):
    set_scheduler(scene.store, logon_denied=True)
    assert not await scene.schtasks.create(replace(scene.spec, at_logon=True))
    assert await scene.schtasks.create(scene.spec)


@double_only
async def test_a_task_needs_its_user_signed_in(scene):
    await scene.schtasks.create(scene.spec)
    set_scheduler(scene.store, signed_in=False)
    assert not await scene.schtasks.run(scene.spec.name)
    scene.never_starts()


@double_only
async def test_a_program_that_is_missing_is_tried_again_and_told_to_nobody(scene):
    scene.spec = replace(scene.spec, command=("/nowhere/pythonw.exe",))
    await scene.schtasks.create(scene.spec)
    scene.store.set(clock=600.0)
    assert await scene.schtasks.run(scene.spec.name)
    scene.never_starts(1.0)
    assert scene.tasks.status(scene.spec.name)["result"] == 0x80070002


@double_only
async def test_a_folder_that_is_missing_keeps_it_from_starting(scene):
    scene.spec = replace(scene.spec, folder=str(scene.folder / "none"))
    await scene.schtasks.create(scene.spec)
    assert await scene.schtasks.run(scene.spec.name)
    scene.never_starts()


@double_only
async def test_no_limit_and_no_battery_ends_it(scene):
    """The defaults would: 72 hours, and an end when mains power is gone."""
    scene.store.set(clock=72 * 3600 / 0.3)
    await scene.schtasks.create(scene.spec)
    await scene.schtasks.run(scene.spec.name)
    pid = scene.started()
    scene.tasks.battery()
    time.sleep(0.8)
    assert alive(pid)
    await scene.schtasks.end(scene.spec.name)
    scene.file.unlink()
    assert await scene.schtasks.run(scene.spec.name), "it starts on battery, too"
    assert scene.started()


@double_only
@pytest.mark.parametrize("missing", ["ExecutionTimeLimit", "StopIfGoingOnBatteries"])
async def test_the_double_would_end_it_by_its_defaults(scene, monkeypatch, missing):
    def without(spec):
        lines = task_xml(spec)[2:].decode("utf-16-le").splitlines()
        kept = [line for line in lines if missing not in line]
        return b"\xff\xfe" + "\r\n".join(kept).encode("utf-16-le")

    monkeypatch.setattr(schtasks_module, "task_xml", without)
    scene.store.set(clock=72 * 3600 / 1.5)
    await scene.schtasks.create(scene.spec)
    assert not (await scene.schtasks.definition(scene.spec.name)).does(scene.spec)
    await scene.schtasks.run(scene.spec.name)
    pid = scene.started()
    scene.tasks.battery()
    assert gone(pid)


@double_only
@pytest.mark.parametrize(("mode", "expected"), [("tree", False), ("root", True)])
async def test_what_end_does_to_children_is_not_documented(scene, mode, expected):
    set_scheduler(scene.store, end=mode)
    child = "import subprocess, sys; subprocess.run(sys.argv[1:])"
    inner = (sys.executable, "-c", WRITER, str(scene.file), "60")
    scene.spec = replace(scene.spec, command=(sys.executable, "-c", child, *inner))
    await scene.schtasks.create(scene.spec)
    await scene.schtasks.run(scene.spec.name)
    pid = scene.started()
    assert await scene.schtasks.end(scene.spec.name)
    assert alive(pid) is expected
    if expected:
        from scheduler import kill

        kill(pid, tree=False)


@double_only
async def test_a_hidden_task_cannot_be_ended(scene, monkeypatch):
    def hidden(spec):
        text = task_xml(spec)[2:].decode("utf-16-le")
        return b"\xff\xfe" + text.replace("<Hidden>false</Hidden>", "<Hidden>true</Hidden>").encode(
            "utf-16-le"
        )

    monkeypatch.setattr(schtasks_module, "task_xml", hidden)
    await scene.schtasks.create(scene.spec)
    await scene.schtasks.run(scene.spec.name)
    pid = scene.started()
    assert await scene.schtasks.end(scene.spec.name)
    assert alive(pid)
    assert not (await scene.schtasks.definition(scene.spec.name)).does(scene.spec)


@double_only
async def test_signing_out_ends_it_and_signing_in_starts_what_is_ticked(scene):
    await scene.schtasks.create(replace(scene.spec, at_logon=True))
    await scene.schtasks.run(scene.spec.name)
    pid = scene.started()
    scene.store.end_session()
    assert gone(pid)
    scene.file.unlink()
    scene.store.set(clock=200.0)
    scene.tasks.logon()
    assert scene.started() != pid


@double_only
async def test_a_scheduler_that_hangs_is_told(scene, monkeypatch):
    scene.store.flag("schtasks_hangs")
    monkeypatch.setattr(schtasks_module, "TIMEOUT_S", 0.3)
    with pytest.raises(HostError, match="does not answer"):
        await scene.schtasks.run(scene.spec.name)


async def test_a_missing_program_is_told(tmp_path):
    missing = schtasks_module.Schtasks(str(tmp_path / "none.exe"), {})
    with pytest.raises(HostError, match="cannot be started"):
        await missing.run("\\x")


@double_only
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("<Count>3</Count>", "<Count>0</Count>"),
        ("<Interval>PT1M</Interval>", "<Interval>PT30S</Interval>"),
        ("<Priority>5</Priority>", "<Priority>11</Priority>"),
        ("<WakeToRun>", "<WakeToWalk>"),
        ("<RunLevel>LeastPrivilege", "<RunLevel>HighestAvailable"),
        ("      <UserId>S-1-5-21-1111-2222-3333-1001</UserId>\r\n      <Delay>", "      <Delay>"),
    ],
)
async def test_the_double_refuses_what_windows_refuses(scene, monkeypatch, old, new):
    def broken(spec):
        text = task_xml(spec)[2:].decode("utf-16-le")
        assert old in text
        text = (
            text.replace(old, new).replace("</WakeToRun>", "</WakeToWalk>")
            if ("Walk" in new)
            else text.replace(old, new)
        )
        return b"\xff\xfe" + text.encode("utf-16-le")

    monkeypatch.setattr(schtasks_module, "task_xml", broken)
    assert not await scene.schtasks.create(replace(scene.spec, at_logon=True))

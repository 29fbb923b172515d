"""The task's XML and its names, and what ``schtasks.exe`` answers, read without its words."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from twinrig.domain.errors import HostError
from twinrig.hosts.windows.schtasks import Answer, Schtasks, find_schtasks
from twinrig.hosts.windows.task_names import TaskNames
from twinrig.hosts.windows.task_xml import TaskSpec, read_all, read_definition, task_xml

SID = "S-1-5-21-1111-2222-3333-1001"
SPEC = TaskSpec(
    "\\Twinrig\\server-main-1001",
    SID,
    ("C:\\Users\\田中 太郎\\Programs\\pythonw.exe", "-m", "twinrig", "supervise", 'a "b" & <c>'),
    "C:\\Users\\田中 太郎\\AppData",
    "Keeps “it” & more",
)


def test_the_definition_is_what_windows_takes_and_needs():
    data = task_xml(SPEC)
    assert data.startswith(b"\xff\xfe<\0")
    text = data[2:].decode("utf-16-le")
    assert "\n" not in text.replace("\r\n", "")
    assert "<Triggers>" not in text, "nothing starts by itself unless it was ticked"
    for line in (
        "<ExecutionTimeLimit>PT0S</ExecutionTimeLimit>",
        "<DisallowStartIfOnBatteries>false</DisallowStartIfOnBatteries>",
        "<StopIfGoingOnBatteries>false</StopIfGoingOnBatteries>",
        "<MultipleInstancesPolicy>IgnoreNew</MultipleInstancesPolicy>",
        "<Hidden>false</Hidden>",
        "<RunLevel>LeastPrivilege</RunLevel>",
        "<LogonType>InteractiveToken</LogonType>",
        "<Priority>5</Priority>",
    ):
        assert line in text
    ElementTree.fromstring(text.partition("?>")[2])
    ticked = task_xml(replace(SPEC, at_logon=True))[2:].decode("utf-16-le")
    trigger = ticked.partition("<LogonTrigger>")[2].partition("</LogonTrigger>")[0]
    assert f"<UserId>{SID}</UserId>" in trigger
    assert "BootTrigger" not in ticked


def test_it_is_read_back():
    found = read_definition(task_xml(SPEC)[2:].decode("utf-16-le"))
    assert found is not None
    assert found.command == SPEC.command[0]
    assert found.arguments == '-m twinrig supervise "a \\"b\\" & <c>"'
    assert found.does(SPEC)


@pytest.mark.parametrize("page", ["cp932", "cp437", "cp850", "ascii"])
def test_a_code_page_that_lacks_letters_is_no_drift(page):
    text = task_xml(SPEC)[2:].decode("utf-16-le")
    found = read_definition(text.encode(page, "replace").decode(page))
    assert found is not None
    assert found.does(SPEC)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("pythonw.exe", "python.exe"),
        ("supervise", "watch"),
        ("AppData", "Temp"),
        ("PT0S", "PT72H"),
        ("<Priority>5", "<Priority>7"),
        ("<StopIfGoingOnBatteries>false</StopIfGoingOnBatteries>", ""),
        ("<ExecutionTimeLimit>PT0S</ExecutionTimeLimit>", ""),
        ("<Enabled>true</Enabled>", "<Enabled>false</Enabled>"),
        ("IgnoreNew", "Parallel"),
    ],
)
def test_what_somebody_changed_is_seen(old, new):
    text = task_xml(SPEC)[2:].decode("utf-16-le")
    assert old in text
    found = read_definition(text.replace(old, new))
    assert found is not None
    assert not found.does(SPEC)


@pytest.mark.parametrize("text", ["", "エラー", "<a/>", "<Task/>", '<?xml version="1.0"?><x>'])
def test_what_is_no_task_is_none(text):
    assert read_definition(text) is None


def test_a_trigger_that_is_switched_off_does_not_start_it():
    text = task_xml(replace(SPEC, at_logon=True))[2:].decode("utf-16-le")
    assert read_definition(text).at_logon
    off = text.replace("<LogonTrigger>\r\n      <Enabled>true", "<LogonTrigger><Enabled>false")
    assert not read_definition(off).at_logon
    disabled = text.replace("<Enabled>true</Enabled>\r\n    <Exec", "<Enabled>false</Enabled><Exec")
    assert not read_definition(disabled).at_logon


def test_many_tasks_in_either_form():
    one = task_xml(SPEC)[2:].decode("utf-16-le")
    two = task_xml(replace(SPEC, name="\\Other"))[2:].decode("utf-16-le")
    names = ["\\Twinrig\\server-main-1001", "\\Other"]
    assert [found.name for found in read_all(one + "\n" + two)] == names
    bare = one.partition("?>")[2].replace(
        ' xmlns="http://schemas.microsoft.com/windows/2004/02/mit/task"', ""
    )
    assert [found.name for found in read_all(f"<Tasks>{bare}</Tasks>")] == names[:1]
    assert read_all("INFO: none") == ()


def test_names_keep_users_and_places_apart():
    mine, other = TaskNames(SID), TaskNames(SID, "D:\\portable")
    first, second = mine.candidates("main")
    assert (first, second) == ("\\Twinrig\\server-main-1001", "\\Twinrig-server-main-1001")
    assert other.candidates("main")[0] != first
    strangers = ["\\Twinrig\\server-main-1002", "\\Microsoft\\x", other.candidates("main")[0]]
    assert mine.ours([first, second, first, *strangers]) == (first, second)
    assert other.ours([first, other.candidates("main")[0]]) == (other.candidates("main")[0],)


def test_letters_of_a_path_survive_as_they_are():
    text = task_xml(SPEC)[2:].decode("utf-16-le")
    assert "田中 太郎\\AppData</WorkingDirectory>" in text
    found = read_definition("\ufeff" + text)
    assert found is not None
    assert (found.name, found.folder) == (SPEC.name, SPEC.folder)
    assert not found.does(replace(SPEC, folder="C:\\Users\\田中 太郎\\Other"))
    assert not found.does(replace(SPEC, command=("C:\\x.exe", *SPEC.command[1:])))


@pytest.mark.parametrize("at_logon", [True, False])
def test_a_trigger_more_or_less_is_drift(at_logon):
    found = read_definition(task_xml(replace(SPEC, at_logon=at_logon))[2:].decode("utf-16-le"))
    assert found.at_logon is at_logon
    assert found.does(replace(SPEC, at_logon=at_logon))
    assert not found.does(replace(SPEC, at_logon=not at_logon))


def test_a_task_without_settings_or_action_is_read_and_is_not_ours():
    space = "http://schemas.microsoft.com/windows/2004/02/mit/task"
    found = read_definition(f'<Task xmlns="{space}"><Actions/></Task>')
    assert found is not None
    assert (found.name, found.command, found.enabled, found.at_logon) == ("", "", True, False)
    assert found.settings == ()
    assert not found.does(SPEC)


@pytest.mark.parametrize(
    ("platform", "environ", "path"),
    [
        ("win32", {}, "C:\\Windows\\System32\\schtasks.exe"),
        ("win32", {"SystemRoot": "D:\\W"}, "D:\\W\\System32\\schtasks.exe"),
        ("win32", {"SYSTEMROOT": "E:\\W"}, "E:\\W\\System32\\schtasks.exe"),
        ("linux", {}, None),
        ("linux", {"TWINRIG_SCHTASKS_EXE": " /x/schtasks.exe "}, "/x/schtasks.exe"),
        ("linux", {"TWINRIG_SCHTASKS_EXE": "  "}, None),
    ],
)
def test_which_program_is_asked(platform, environ, path):
    assert find_schtasks(environ, platform) == path


class Program:
    """``schtasks.exe`` that answers always the same, and notes its words."""

    def __init__(self, folder: Path, code: int = 0, out: bytes = b"") -> None:
        (folder / "out").write_bytes(out)
        self._said = folder / "said"
        self._copy = folder / "copy.xml"
        self.path = folder / "schtasks.exe"
        self.path.write_text(
            "#!/bin/sh\n"
            f"for word; do printf '%s\\n' \"$word\" >> {self._said}; done\n"
            f'[ -z "$5" ] || cp "$5" {self._copy}\n'
            f'[ -z "$STUBBORN" ] || sleep 20\n'
            f'read -r line && echo "typed $line" >> {self._said}\n'
            f"cat {folder / 'out'}; exit {code}\n"
        )
        self.path.chmod(0o755)

    def schtasks(self, oem: str = "", **environ: str) -> Schtasks:
        return Schtasks(str(self.path), {"PATH": "/usr/bin:/bin", **environ}, oem)

    @property
    def said(self) -> list[str]:
        return self._said.read_text().splitlines()

    @property
    def written(self) -> bytes:
        return self._copy.read_bytes()


@pytest.mark.parametrize("code", [0, 1])
async def test_the_words_of_each_call_and_its_exit_code(tmp_path, code):
    program = Program(tmp_path, code)
    schtasks, name = program.schtasks(), "\\Twinrig\\x"
    done = [await schtasks.run(name), await schtasks.end(name), await schtasks.delete(name)]
    assert done == [code == 0] * 3
    assert program.said == [
        *("/Run", "/TN", name),
        *("/End", "/TN", name),
        *("/Delete", "/TN", name, "/F"),
    ], "nothing was typed: without /F it would ask"


@pytest.mark.parametrize("code", [0, 1])
async def test_a_task_is_made_of_a_file_that_is_gone_afterwards(tmp_path, code):
    program = Program(tmp_path, code)
    assert await program.schtasks().create(SPEC) is (code == 0)
    verb, tn, name, xml, path, force = program.said
    assert (verb, tn, name, xml, force) == ("/Create", "/TN", SPEC.name, "/XML", "/F")
    assert program.written == task_xml(SPEC)
    assert not Path(path).exists()


@pytest.mark.parametrize("page", ["utf-16", "utf-16-le", "utf-8", "cp932"])
async def test_a_definition_is_read_in_every_encoding(tmp_path, page):
    """It claims UTF-16 in all of them; through a pipe it comes as the console has it."""
    text = task_xml(replace(SPEC, description="説明"))[2:].decode("utf-16-le")
    program = Program(tmp_path, 0, text.encode(page))
    found = await program.schtasks("cp932").definition(SPEC.name)
    assert found is not None
    assert found.command == SPEC.command[0]
    assert program.said == ["/Query", "/TN", SPEC.name, "/XML"]
    assert [one.name for one in await program.schtasks("cp932").definitions()] == [SPEC.name]
    assert program.said[4:] == ["/Query", "/XML"]


async def test_letters_outside_the_code_page_become_marks_not_faults(tmp_path):
    text = task_xml(SPEC)[2:].decode("utf-16-le")
    program = Program(tmp_path, 0, text.encode("cp850", "replace") + b"\x81")
    found = await program.schtasks().definition(SPEC.name)
    assert found is None, "a broken end is no task"
    program = Program(tmp_path, 0, text.replace("”", "é").encode("cp437", "replace"))
    assert (await program.schtasks().definition(SPEC.name)).does(SPEC)


async def test_a_refused_query_is_no_task(tmp_path):
    text = task_xml(SPEC)[2:].decode("utf-16-le")
    schtasks = Program(tmp_path, 1, text.encode("utf-8")).schtasks()
    assert await schtasks.definition(SPEC.name) is None
    assert await schtasks.definitions() == ()


def test_only_zero_is_success():
    assert Answer(0, b"", b"").done
    assert not Answer(1, b"", b"").done
    assert not Answer(-1, b"", b"").done
    assert not Answer(None, b"", b"").done


async def test_one_that_hangs_or_is_missing_is_told(tmp_path, monkeypatch):
    from twinrig.hosts.windows import schtasks as module

    assert module.TIMEOUT_S == 30.0
    monkeypatch.setattr(module, "TIMEOUT_S", 0.2)
    with pytest.raises(HostError, match="does not answer") as hung:
        await Program(tmp_path).schtasks(STUBBORN="1").run("\\x")
    assert "Restart Windows" in str(hung.value.next_step)
    with pytest.raises(HostError, match=r"none\.exe cannot be started: No such file") as missing:
        await Schtasks(str(tmp_path / "none.exe"), {}).run("\\x")
    assert "not blocked" in str(missing.value.next_step)


async def test_a_disk_without_room_for_the_task_is_told(tmp_path, monkeypatch):
    from twinrig.hosts.windows import schtasks as module

    def full(*_args, **_more):
        raise OSError(28, "No space left on device")

    program = Program(tmp_path)
    monkeypatch.setattr(module.tempfile, "TemporaryDirectory", full)
    with pytest.raises(HostError, match="cannot be written: No space left") as caught:
        await program.schtasks().create(SPEC)
    assert "Free some space" in str(caught.value.next_step)

"""Both ends of a step with administrator rights, joined by a stand-in for Windows' question."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from twinrig.domain.elevation import (
    AdminAction,
    AdminTask,
    ElevationCancelledError,
    ElevationRefusedError,
)
from twinrig.domain.errors import HostError
from twinrig.hosts.windows.elevated_helper import (
    program_path,
    run_helper,
    run_hidden,
    run_task,
)
from twinrig.hosts.windows.elevation import RESULT_FOLDER, LaunchEnd, UacElevation

NAT = AdminAction(
    AdminTask.OPEN_NAT, (("profile", "big"), ("port", "8000"), ("address", "172.20.1.5"))
)
ENVIRON = {"SystemRoot": "C:\\Windows", "PATH": "C:\\evil"}


def split(parameters: str) -> list[str]:
    """The helper's words; none of ours needs quotes but a path with blanks."""
    return [a or b for a, b in re.findall(r'"([^"]*)"|(\S+)', parameters)]


class Windows:
    """Starts the helper in this process. ``codes`` are return codes by program and first word."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.codes: dict[str, int] = {}
        self.ran: list[Sequence[str]] = []
        self.error = 0
        self.silent = False

    def launch(self, program: str, parameters: str) -> LaunchEnd:
        if self.error:
            return LaunchEnd(self.error)
        assert program == "C:\\Twin rig\\pythonw.exe"
        words = split(parameters)
        assert words[:4] == ["-m", "twinrig", "elevated", "--result"]
        if self.silent:
            return LaunchEnd(0, 3)
        return LaunchEnd(0, run_task(words[5:], words[4], ENVIRON, self.run))

    def run(self, argv: Sequence[str]) -> tuple[int, str]:
        self.ran.append(argv)
        return self.codes.get(argv[3], 0), "アクセスが拒否されました。"


@pytest.fixture
def windows(tmp_path: Path) -> Windows:
    return Windows(tmp_path / "私の state")


def elevation(windows: Windows) -> UacElevation:
    program = ("C:\\Twin rig\\pythonw.exe", "-m", "twinrig")
    return UacElevation(program, windows.folder, windows.launch)


async def test_a_task_is_run_by_programs_of_the_system_folder_and_leaves_nothing(
    windows: Windows,
) -> None:
    await elevation(windows).run(NAT)

    assert [argv[0] for argv in windows.ran] == ["C:\\Windows\\System32\\netsh.exe"] * 4
    assert [tuple(argv[1:]) for argv in windows.ran] == [c.argv[1:] for c in NAT.commands()]
    assert list((windows.folder / RESULT_FOLDER).iterdir()) == []


async def test_what_need_not_be_there_may_fail_to_be_removed(windows: Windows) -> None:
    windows.codes = {"delete": 1}
    await elevation(windows).run(NAT)

    assert len(windows.ran) == 4


async def test_a_command_that_fails_ends_the_task_and_is_told(windows: Windows) -> None:
    windows.codes = {"add": 1}
    with pytest.raises(HostError) as caught:
        await elevation(windows).run(NAT)

    assert not isinstance(caught.value, (ElevationCancelledError, ElevationRefusedError))
    assert "portproxy add" in str(caught.value.text) and "アクセス" in str(caught.value.text)
    assert len(windows.ran) == 3
    assert list((windows.folder / RESULT_FOLDER).iterdir()) == []


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (1223, ElevationCancelledError),
        (5, ElevationRefusedError),
        (740, ElevationRefusedError),
        (1260, ElevationRefusedError),
        (1314, ElevationRefusedError),
        (2, HostError),
        (-1, HostError),
    ],
)
async def test_no_refused_and_impossible_are_told_apart(
    windows: Windows, code: int, kind: type[HostError]
) -> None:
    windows.error = code
    with pytest.raises(HostError) as caught:
        await elevation(windows).run(NAT)

    assert type(caught.value) is kind
    assert caught.value.next_step is not None
    assert windows.ran == []


async def test_a_helper_that_tells_nothing_is_no_success(windows: Windows) -> None:
    windows.silent = True
    with pytest.raises(HostError) as caught:
        await elevation(windows).run(NAT)

    assert "without telling how (code 3)" in str(caught.value.text)


GOOD_NAME = "elevated-" + "a" * 32 + ".json"


def refused(run: Callable[[], int]) -> None:
    assert run() == 2


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("run", "calc"),
        ("open-nat", "profile=big", "port=8000"),
        ("open-nat", "profile=big", "port=8000", "address=1.2.3.4&calc"),
        ("close-nat", "profile=big'; calc; '", "port=8000"),
    ],
)
def test_words_off_the_list_run_nothing(tmp_path: Path, words: tuple[str, ...]) -> None:
    ran: list[Sequence[str]] = []

    def run(argv: Sequence[str]) -> tuple[int, str]:
        ran.append(argv)
        return 0, ""

    result = tmp_path / RESULT_FOLDER / GOOD_NAME
    result.parent.mkdir()
    refused(lambda: run_task(words, str(result), ENVIRON, run))
    assert ran == [] and not result.exists()


@pytest.mark.parametrize("name", ["hosts", "elevated-1.json", f"../{GOOD_NAME}", f"y/{GOOD_NAME}"])
def test_the_result_goes_nowhere_else(tmp_path: Path, name: str) -> None:
    folder = tmp_path / RESULT_FOLDER
    folder.mkdir()
    result = f"{folder}/{name}"
    refused(lambda: run_task(NAT.to_words(), result, ENVIRON, lambda argv: (0, "")))
    assert list(tmp_path.rglob("*")) == [folder]


def test_a_file_that_is_there_is_never_overwritten(tmp_path: Path) -> None:
    result = tmp_path / RESULT_FOLDER / GOOD_NAME
    result.parent.mkdir()
    result.write_text("precious")
    refused(lambda: run_task(NAT.to_words(), str(result), ENVIRON, lambda argv: (0, "")))

    assert result.read_text() == "precious"


def test_a_program_off_the_list_has_no_path() -> None:
    assert program_path("powershell", ENVIRON) == (
        "C:\\Windows\\System32\\WindowsPowerShell\\v1.0\\powershell.exe"
    )
    with pytest.raises(ValueError):
        program_path("cmd", ENVIRON)


@pytest.mark.parametrize(
    ("environ", "root"), [({}, "C:\\Windows"), ({"SYSTEMROOT": "D:\\W"}, "D:\\W")]
)
def test_the_system_folder_by_either_name_or_the_usual_one(environ, root) -> None:
    assert program_path("reg", environ) == f"{root}\\System32\\reg.exe"


@pytest.mark.parametrize("code", [0, 1])
def test_the_hidden_verb_runs_a_task_of_the_list(tmp_path: Path, monkeypatch, code: int) -> None:
    from twinrig.hosts.windows import elevated_helper

    ran: list[Sequence[str]] = []

    def run(argv: Sequence[str]) -> tuple[int, str]:
        ran.append(argv)
        return code, "x" * 3000

    monkeypatch.setattr(elevated_helper, "run_hidden", run)
    result = tmp_path / RESULT_FOLDER / GOOD_NAME
    result.parent.mkdir()
    argv = ("--result", str(result), "set-tdr-delay", "seconds=10")
    assert run_helper(argv, ENVIRON) == code
    told = json.loads(result.read_text("utf-8"))
    assert told["ok"] is (code == 0)
    assert ran[0][0] == "C:\\Windows\\System32\\reg.exe"
    assert len(told.get("output", "x" * 2000)) == 2000, "the end of what it said"


def test_a_program_that_does_not_end_has_failed(monkeypatch) -> None:
    from twinrig.hosts.windows import elevated_helper

    monkeypatch.setattr(elevated_helper, "_TIMEOUT_S", 0.2)
    assert run_hidden((sys.executable, "-c", "import time; time.sleep(20)")) == (-1, "time-out")


def test_a_failed_task_is_told_in_the_file_and_by_the_exit_code(tmp_path: Path) -> None:
    result = tmp_path / RESULT_FOLDER / GOOD_NAME
    result.parent.mkdir()
    words = ("set-tdr-delay", "seconds=10")
    code = run_task(words, str(result), ENVIRON, lambda argv: (1, "no"))

    told = json.loads(result.read_text("utf-8"))
    assert code == 1
    assert (told["ok"], told["code"], told["output"]) == (False, 1, "no")


def test_programs_are_really_run_to_their_end() -> None:
    code, output = run_hidden((sys.executable, "-c", "print('ok'); raise SystemExit(4)"))

    assert (code, output) == (4, "ok")
    assert run_hidden(("/nonexistent/program",))[0] == -1


@pytest.mark.parametrize(
    "argv",
    [(), ("--result",), ("--result", "x"), ("run", "x", "calc"), ("--result", "x", "calc")],
)
def test_the_hidden_verb_refuses_other_words(argv: tuple[str, ...]) -> None:
    assert run_helper(argv, ENVIRON) == 2

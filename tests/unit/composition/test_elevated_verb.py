"""The hidden verb that Windows starts with administrator rights."""

from __future__ import annotations

from pathlib import Path

import pytest

from twinrig.composition.terminal import run_terminal
from twinrig.hosts.windows.elevation import RESULT_FOLDER, VERB


@pytest.fixture
def result(tmp_path: Path) -> Path:
    folder = tmp_path / RESULT_FOLDER
    folder.mkdir()
    return folder / f"elevated-{'a' * 32}.json"


@pytest.mark.parametrize(
    "words",
    [
        ("calc",),
        ("run", "calc"),
        ("open-nat", "profile=big", "port=8000", "address=1.2.3.4", "command=calc"),
        ("set-tdr-delay", "seconds=10&calc"),
        ("--yes", "set-tdr-delay", "seconds=10"),
    ],
)
def test_nothing_off_the_list_is_done(result: Path, words: tuple[str, ...]) -> None:
    assert run_terminal([VERB, "--result", str(result), *words]) == 2
    assert not result.exists()


def test_a_task_of_the_list_reports_what_became_of_it(result: Path) -> None:
    """Here its program does not exist, which is told like any failure."""
    assert run_terminal([VERB, "--result", str(result), "set-tdr-delay", "seconds=10"]) == 1

    text = result.read_text("utf-8")
    assert '"ok": false' in text and "TdrDelay" in text


def test_it_is_not_shown_to_people(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_terminal(["--help"]) == 0
    assert VERB not in capsys.readouterr().out

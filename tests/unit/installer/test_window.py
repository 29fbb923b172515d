"""The start without a console: faults reach the message box, a panel that lives is left alone."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bootstrap import window
from bootstrap.places import Places
from bootstrap.problems import Problem
from bootstrap.progress import Progress

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def places(tmp_path: Path) -> Places:
    """A checkout whose environment has a Python that runs ``panel.sh``."""
    found = Places(str(tmp_path / "私の 箱"), windows=False)
    Path(found.scripts).mkdir(parents=True)
    return found


def panel(places: Places, script: str) -> None:
    Path(places.python).write_text(f"#!/bin/sh\n{script}\n")
    Path(places.python).chmod(0o755)


def test_a_panel_that_ends_at_once_shows_what_it_said(places: Places) -> None:
    panel(places, "echo 'Traceback: no Qt' >&2; exit 3")
    shown: list[str] = []
    assert window.start_panel(places, ["--target", "demo"], shown.append) == 3
    assert "exit code 3" in shown[0]
    assert "no Qt" in shown[0]
    assert "panel-start.log" in shown[0]


def test_a_panel_that_was_open_already_ends_well_and_shows_nothing(places: Places) -> None:
    panel(places, "exit 0")
    shown: list[str] = []
    assert window.start_panel(places, [], shown.append) == 0
    assert shown == []


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_panel_that_lives_is_left_alone(
    places: Places, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(window, "EARLY_S", 0.2)
    pid = tmp_path / "pid"
    panel(places, f"echo $$ > {pid}; exec sleep 30")
    shown: list[str] = []
    code = window.start_panel(places, [], shown.append)
    assert (code, shown) == (0, [])
    os.kill(int(pid.read_text()), signal.SIGKILL)
    os.waitpid(int(pid.read_text()), 0)


def test_a_problem_while_setting_up_is_shown_with_the_next_step(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise Problem("No network.", "Check it.")

    monkeypatch.setattr(window, "set_up", fail)
    monkeypatch.setattr(window, "with_window", lambda work: work(window.Silent()))
    shown: list[str] = []
    assert window.run(places.root, [], shown.append) == 1
    assert shown == ["No network.\n\nCheck it."]


def test_without_a_screen_the_work_is_done_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DISPLAY", raising=False)
    done: list[Progress] = []
    window.with_window(done.append)
    assert len(done) == 1


@pytest.mark.xserver
def test_the_window_shows_progress_and_passes_faults_on() -> None:
    pytest.importorskip("tkinter")
    if not os.environ.get("DISPLAY"):
        pytest.skip("no display")

    def work(progress: Progress) -> None:
        for percent in range(0, 100, 10):
            progress.show(percent, "Downloading")
        raise Problem("It broke.", "Mend it.")

    with pytest.raises(Problem, match="It broke"):
        window.with_window(work)


def test_start_pyw_tells_an_unsupported_python(tmp_path: Path) -> None:
    source = (ROOT / "installer" / "start.pyw").read_text("utf-8")
    changed = source.replace("sys.version_info[:2] not in SUPPORTED", "True")
    assert changed != source
    script = tmp_path / "start.py"
    script.write_text(changed)
    done = subprocess.run(
        [sys.executable, script], capture_output=True, encoding="utf-8", check=False
    )
    assert done.returncode == 1
    assert "needs Python 3.11, 3.12 or 3.13" in done.stderr
    assert "Traceback" not in done.stderr


def test_start_pyw_tells_any_other_fault(tmp_path: Path) -> None:
    (tmp_path / "start.pyw").write_text((ROOT / "installer" / "start.pyw").read_text("utf-8"))
    done = subprocess.run(
        [sys.executable, tmp_path / "start.pyw"], capture_output=True, encoding="utf-8", check=False
    )
    assert done.returncode == 1
    assert done.stderr.startswith("Starting Twinrig failed: ModuleNotFoundError")


def test_the_command_file_opens_no_console_of_its_own() -> None:
    text = (ROOT / "installer" / "start.cmd").read_bytes()
    assert b"\r\n" in text and b"\n" not in text.replace(b"\r\n", b"")
    assert b'start "" /b pyw' in text
    assert text.startswith(b"@echo off\r\n")


def test_no_program_of_a_double_click_opens_a_console() -> None:
    """``main`` runs in a console; ``apt`` exists on Linux only."""
    bare, seen = [], 0
    for path in sorted((ROOT / "installer" / "bootstrap").glob("*.py")):
        if path.name in ("main.py", "apt.py"):
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("subprocess."):
                seen += 1
                if not any(word.arg == "creationflags" for word in node.keywords):
                    bare.append(f"{path.name}:{node.lineno}")
    assert seen >= 4
    assert bare == []

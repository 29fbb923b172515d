"""``twinrig --smoke FILE``, and everything without standard streams, as pythonw.exe runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtWidgets import QLabel, QWidget

from twinrig.composition.smoke import run_smoke
from twinrig.qt.self_test import is_blank, round_trip

CLOSED = ("/bin/sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh")


def without_streams(home: Path, *words: str) -> int:
    environ = {**os.environ, "TWINRIG_HOME": str(home), "QT_QPA_PLATFORM": "offscreen"}
    command = [*CLOSED, sys.executable, "-m", "twinrig", *words]
    return subprocess.run(command, env=environ, timeout=100, check=False).returncode


PAINTED = """
import os, sys
import twinrig.qt.welcome as welcome
from twinrig.__main__ import main
build = welcome.WelcomePane.__init__
def tell():
    heavy = ("asyncio", "yaml", "httpx", "twinrig.composition.targets", "twinrig.checks.registry")
    print([name for name in heavy if name in sys.modules], flush=True)
    os._exit(0)
def build_and_listen(pane, *given):
    build(pane, *given)
    pane.painted.connect(tell)
welcome.WelcomePane.__init__ = build_and_listen
main(["--target", "demo"])
"""


def test_the_window_is_painted_before_anything_heavy_is_loaded(tmp_path: Path) -> None:
    environ = {**os.environ, "TWINRIG_HOME": str(tmp_path), "QT_QPA_PLATFORM": "offscreen"}
    command = [sys.executable, "-c", PAINTED]
    done = subprocess.run(command, env=environ, capture_output=True, timeout=100, check=True)
    assert done.stdout == b"[]\n"


def test_the_whole_panel_without_streams(tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    code = without_streams(tmp_path / "home", "--target", "demo", "--smoke", str(result))
    found = json.loads(result.read_text("utf-8"))
    assert (code, found["faults"], found["fine"]) == (0, [], True)
    assert found["window_shown"] and found["first_paint_unix_s"] > 0
    assert found["pages"][0] == "overview" and "preflight" in found["pages"]
    assert found["languages"]["en"] != found["languages"]["ja"]
    assert len(found["languages"]["ja"]) == len(found["pages"])
    assert found["key_store"]["round_trip"]
    settings = tmp_path / "home" / "config" / "panel.ini"
    assert not settings.exists() or "language" not in settings.read_text("utf-8")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--target", "demo", "doctor", "--json"), 0),
        (("--target", "demo", "status"), 0),
        (("--help",), 0),
        (("--version",), 0),
        (("no-such-verb",), 2),
        (("--target", "demo", "profiles", "show", "absent"), 2),
    ],
)
def test_the_command_line_without_streams(tmp_path: Path, words: tuple[str, ...], code: int):
    assert without_streams(tmp_path, *words) == code
    assert not (tmp_path / "log" / "last-fault.txt").exists()


def failing_panel(tmp_path: Path, code: str) -> dict[str, Any]:
    """Result of a self-test in a process that ran ``code`` first; its exit code must be 1."""
    result = tmp_path / "result.json"
    program = (
        f"{code}\nimport sys\nfrom twinrig.__main__ import main\n"
        f"sys.exit(main(['--target', 'demo', '--smoke', {str(result)!r}]))"
    )
    environ = {**os.environ, "TWINRIG_HOME": str(tmp_path), "QT_QPA_PLATFORM": "offscreen"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environ, capture_output=True, timeout=100, check=False
    )
    assert done.returncode == 1, done.stderr
    found: dict[str, Any] = json.loads(result.read_text("utf-8"))
    assert not found["fine"]
    return found


def test_a_page_that_cannot_be_built_is_a_fault(tmp_path: Path) -> None:
    code = (
        "from twinrig.qt.pages.settings import SettingsPage\n"
        "def broken(self, *_): raise RuntimeError('no such luck')\n"
        "SettingsPage.__init__ = broken"
    )
    assert "no such luck" in " ".join(failing_panel(tmp_path, code)["faults"])


def test_live_data_that_breaks_is_a_fault(tmp_path: Path) -> None:
    code = (
        "from twinrig.hosts.locks import FileLock\n"
        "def broken(*_): raise AttributeError('O_CLOEXEC')\n"
        "FileLock.holder_note = broken"
    )
    assert "O_CLOEXEC" in " ".join(failing_panel(tmp_path, code)["faults"])


def test_a_target_that_cannot_be_opened_is_a_fault_and_logged(tmp_path: Path) -> None:
    code = (
        "import twinrig.composition.targets as targets\n"
        "def refuse(*_): raise OSError('the rig is away')\n"
        "targets.open_workbench = refuse"
    )
    found = failing_panel(tmp_path, code)
    assert "the rig is away" in found["faults"][0]
    assert "the rig is away" in (tmp_path / "log" / "panel.log").read_text("utf-8")


def test_without_qt_or_display_the_result_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = tmp_path / "result.json"
    assert run_smoke(str(result), "demo", None, {}) == 1
    assert json.loads(result.read_text())["faults"] == ["there is no display to show a window on"]

    def broken(*_: object, **__: object) -> int:
        raise ImportError("DLL load failed")

    monkeypatch.setattr("twinrig.composition.smoke.open_panel", broken)
    assert run_smoke(str(result), "demo", None, {"DISPLAY": ":0"}) == 1
    assert "DLL load failed" in result.read_text()


def test_a_result_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    assert run_smoke(str(tmp_path / "file" / "x.json"), "demo", None, {"DISPLAY": ":0"}) == 3
    assert "cannot be written" in capsys.readouterr().err


class ForgetfulStore:
    """Keeps only ASCII, as a store in the wrong encoding would."""

    place = "nowhere"
    lasting = True

    def __init__(self) -> None:
        self._kept: dict[str, str] = {}

    async def get(self, name: str) -> str | None:
        return self._kept.get(name)

    async def set(self, name: str, value: str) -> None:
        self._kept[name] = value.encode("ascii", "replace").decode()

    async def delete(self, name: str) -> None:
        self._kept.clear()


async def test_a_damaged_key_is_no_round_trip() -> None:
    assert not (await round_trip(ForgetfulStore()))["round_trip"]


def test_a_blank_window_is_told_from_one_with_text(qtbot) -> None:
    widget = QWidget()
    qtbot.addWidget(widget)
    widget.resize(300, 200)
    assert is_blank(widget)
    QLabel("Overview", widget)
    assert not is_blank(widget)

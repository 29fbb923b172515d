"""The panel as a process: start, second start, signals, language, failures to open."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication

from qt.panel_rig import RigFolders, RigWorkbench
from twinrig.domain.errors import HostError
from twinrig.messages import message
from twinrig.qt.application import Starter

TESTS = Path(__file__).resolve().parents[1]
PANEL = f"""
import sys
from pathlib import Path
sys.path.insert(0, {str(TESTS)!r})
from qt.panel_rig import RigFolders, RigWorkbench
from twinrig.qt.application import run_panel, Starter
import twinrig.qt.panel as panel
from twinrig.qt.pages.overview import OverviewPage
old = panel.Panel.start
def start(self):
    old(self)
    self.live.snapshot.connect(lambda _s: print("live", flush=True))
panel.Panel.start = start
shown = panel.MainWindow.bring_up
def bring_up(self):
    shown(self)
    print("shown", flush=True)
panel.MainWindow.bring_up = bring_up
panel.Panel.__init__.__defaults__ = (panel.ask_quit, (OverviewPage,), panel.ask_switch)
folders = RigFolders.below(Path(sys.argv[1]))
hidden = "--hidden" in sys.argv
sys.exit(run_panel(lambda target: RigWorkbench(), "demo", "en", folders, hidden=hidden))
"""


def start_panel(root: Path, *arguments: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-c", PANEL, str(root), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "QT_QPA_PLATFORM": "offscreen"},
    )


def wait_for_line(process: subprocess.Popen, wanted: str) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if line.strip() == wanted:
            return
    raise AssertionError(f"{wanted!r} never came: {process.stderr.read()}")


@pytest.fixture
def first(tmp_path: Path) -> Iterator[subprocess.Popen]:
    process = start_panel(tmp_path)
    wait_for_line(process, "live")
    yield process
    if process.poll() is None:
        process.kill()
    process.communicate(timeout=20)


def test_second_start_shows_the_first_and_ends_with_0(tmp_path: Path, first) -> None:
    second = start_panel(tmp_path)
    second.communicate(timeout=30)
    assert second.returncode == 0
    wait_for_line(first, "shown")
    assert first.poll() is None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_end_it_in_good_order(tmp_path: Path, first, number: signal.Signals) -> None:
    first.send_signal(number)
    _, errors = first.communicate(timeout=20)
    assert first.returncode == 0, errors
    assert errors == ""
    assert (tmp_path / "config" / "panel.ini").exists()


def test_after_kill_9_the_next_start_is_first(tmp_path: Path, first) -> None:
    first.kill()
    first.wait(20)
    again = start_panel(tmp_path, "--hidden")
    try:
        wait_for_line(again, "live")
    finally:
        again.terminate()
        again.communicate(timeout=20)
    assert again.returncode == 0


# -- the starter, in this process ----------------------------------------------------------------


@pytest.fixture
def hooks() -> Iterator[None]:
    import threading

    old = sys.excepthook, threading.excepthook
    yield
    sys.excepthook, threading.excepthook = old


def test_a_machine_that_cannot_be_opened_is_explained(
    qtbot, qapp: QApplication, folders: RigFolders
) -> None:
    tried: list[str] = []

    def opener(target: str):
        tried.append(target)
        if target != "demo":
            raise HostError(message("No such machine."), message("Use the demo rig."))
        return RigWorkbench(stored=[])

    starter = Starter(qapp, opener, "local", "en", folders)
    welcome = starter.window.welcome
    starter.window.show()
    try:
        starter._open()
        qtbot.waitUntil(lambda: welcome._reason.text() != "")
        assert welcome._reason.text() == "No such machine.\nUse the demo rig."
        assert welcome._again.isVisible()
        welcome._again.click()
        qtbot.waitUntil(lambda: len(tried) == 2)
        qtbot.waitUntil(welcome._rig.isVisible)
        welcome._rig.click()
        qtbot.waitUntil(lambda: starter.panel is not None)
        assert tried == ["local", "local", "demo"]
    finally:
        starter.end()
        starter.window.deleteLater()


def test_closing_while_it_opens_ends_it(qtbot, qapp, folders: RigFolders) -> None:
    starter = Starter(qapp, lambda _t: RigWorkbench(), "demo", "en", folders)
    starter.window.show()
    with qtbot.waitSignal(qapp.aboutToQuit, raising=False, timeout=10):
        starter.window.close()
    qtbot.waitUntil(lambda: starter._ended)
    starter.window.deleteLater()


def test_language_order_is_argument_setting_system(
    qapp, folders: RigFolders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("twinrig.qt.application.system_language", lambda: "ja")
    made = []

    def language(argument: str | None) -> str:
        starter = Starter(qapp, lambda _t: RigWorkbench(), "demo", argument, folders)
        made.append(starter)
        return starter.texts.language

    assert language(None) == "ja"
    assert language("en") == "en"
    made[0].settings.language = "en"
    made[0].settings.sync()
    assert language(None) == "en"
    assert language("ja") == "ja"
    for starter in made:
        starter.apply_language("en")
        starter.window.deleteLater()


def test_qt_speaks_japanese_too(qapp, folders: RigFolders) -> None:
    starter = Starter(qapp, lambda _t: RigWorkbench(), "demo", "ja", folders)
    try:
        assert qapp.translate("QPlatformTheme", "Cancel") == "キャンセル"
        starter.apply_language("en")
        assert qapp.translate("QPlatformTheme", "Cancel") == "Cancel"
        starter.apply_language("ja")
    finally:
        starter.end()
        starter.window.deleteLater()
    assert qapp.translate("QPlatformTheme", "Cancel") == "Cancel", "nothing stays behind"


def test_what_nobody_caught_is_logged_and_shown(
    qtbot, qapp, folders: RigFolders, hooks: None, caplog, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Signals and Qt's messages belong to the test runner in this process.
    monkeypatch.setattr("twinrig.qt.start_log.start_log", lambda _folder: None)
    monkeypatch.setattr("twinrig.qt.signals.EndOnSignals", lambda _end, _parent: None)
    starter = Starter(qapp, lambda _t: RigWorkbench(), "demo", "en", folders)
    try:
        starter.begin(hidden=False)
        qtbot.waitUntil(lambda: starter.panel is not None)
        error = RuntimeError("boom in a slot")
        sys.excepthook(RuntimeError, error, None)
        qtbot.waitUntil(lambda: starter.panel._error_box is not None)
        assert "boom in a slot" in starter.panel._error_box.text()
        assert "unhandled exception" in caplog.text
        starter.panel._error_box.close()
    finally:
        starter.end()
        starter.window.deleteLater()

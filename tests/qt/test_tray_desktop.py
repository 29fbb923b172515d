"""The tray icon on a real X desktop: Xvfb, openbox and trayer."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.xserver

PROGRAMS = ("Xvfb", "openbox", "trayer", "xdotool")
TESTS = Path(__file__).resolve().parents[1]

DRIVER = f"""
import sys
sys.path.insert(0, {str(TESTS)!r})
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication
from qt.panel_rig import record, snapshot
from twinrig.messages import Translator
from twinrig.qt.icons import Icons
from twinrig.qt.text import Texts
from twinrig.qt.tray import Tray
from twinrig.qt.tray_model import ProfileChoice, tray_model

app = QApplication([])
app.setQuitOnLastWindowClosed(False)
tray = Tray(Texts(), Icons())
model = tray_model(
    snapshot(record()), [ProfileChoice("qwen", "Qwen")], "qwen", False, Translator("en").text
)
tray.show_model(model)
tray.show()
tray.triggered.connect(lambda action, argument: print("did", action, argument, flush=True))
tray.menu.aboutToShow.connect(
    lambda: QTimer.singleShot(
        100, lambda: print("menu", [a.text() for a in tray.menu.actions()], flush=True)
    )
)
seen = []

def look():
    place = tray.geometry()
    if tray.available and place.width() > 4 and seen[-3:] == [place] * 3:
        timer.stop()
        print("at", place.center().x(), place.center().y(), flush=True)
    seen.append(place)

timer = QTimer()
timer.timeout.connect(look)
timer.start(100)
app.exec()
"""


PANEL = f"""
import sys, tempfile
from pathlib import Path
sys.path.insert(0, {str(TESTS)!r})
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication
from qt.full_rig import full_workbench
from qt.panel_rig import NOW_S, RigFolders, busy_picture
from dataclasses import replace
from twinrig.qt.application import Starter

app = QApplication([])
app.setQuitOnLastWindowClosed(False)
root = Path(tempfile.mkdtemp())

def picture(number):
    shot = busy_picture(number)
    return replace(shot, server=replace(shot.server, can_sleep=True, base_url="http://127.0.0.1:1"))

workbench = full_workbench(root / "rig", picture)
workbench.pause_s = 0.2
starter = Starter(app, lambda _target: workbench, "demo", "en", RigFolders.below(root / "home"))
starter.begin(hidden=True)
asked = []

async def free(profile_id, requested_by):
    print("freed", profile_id, flush=True)

workbench.controller.free = free
seen = []

def look():
    panel = starter.panel
    if panel is None:
        return
    place = panel.tray.geometry()
    settled = place.width() > 4 and seen[-3:] == [place] * 3
    if panel.tray.available and settled and panel.live.latest:
        timer.stop()
        panel.tray.menu.aboutToShow.connect(lambda: QTimer.singleShot(300, tell_menu))
        print("at", place.center().x(), place.center().y(), flush=True)
        follow.start(100)
    seen.append(place)

def tell_menu():
    for action in starter.panel.tray.menu.actions():
        box = starter.panel.tray.menu.actionGeometry(action)
        spot = starter.panel.tray.menu.mapToGlobal(box.center())
        print("entry", spot.x(), spot.y(), action.text(), flush=True)
    print("menu", flush=True)

state = [False, False]

def changed():
    now = [starter.window.isVisible(), starter.panel.meter.isVisible()]
    if now != state:
        state[:] = now
        print("shown window", now[0], "meter", now[1], flush=True)

timer, follow = QTimer(), QTimer()
timer.timeout.connect(look)
follow.timeout.connect(changed)
timer.start(100)
app.exec()
"""


@pytest.fixture
def desktop(tmp_path: Path) -> Iterator[dict[str, str]]:
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    reader, writer = os.pipe()
    server = subprocess.Popen(
        [
            "Xvfb",
            "-displayfd",
            str(writer),
            "-screen",
            "0",
            "1024x768x24",
            "-nolisten",
            "tcp",
            "-noreset",
        ],
        pass_fds=[writer],
        stderr=subprocess.DEVNULL,
    )
    os.close(writer)
    with os.fdopen(reader) as pipe:
        number = pipe.readline().strip()
    environment = {**os.environ, "DISPLAY": f":{number}", "HOME": str(tmp_path)}
    environment.pop("QT_QPA_PLATFORM", None)
    environment.pop("WAYLAND_DISPLAY", None)
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": environment}
    started = [server, subprocess.Popen(["openbox"], **quiet)]
    bar = ["trayer", "--edge", "bottom", "--align", "right", "--widthtype", "request"]
    started.append(subprocess.Popen([*bar, "--height", "32"], **quiet))
    yield environment
    for process in reversed(started):
        process.terminate()
        process.wait(10)


def line_with(process: subprocess.Popen, start: str) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(start):
            return line.strip()
    raise AssertionError(f"no line {start!r}: {process.stderr.read()}")


def test_the_icon_sits_in_the_tray_and_answers(desktop: dict[str, str]) -> None:
    panel = subprocess.Popen(
        [sys.executable, "-c", DRIVER],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**desktop, "QT_QPA_PLATFORM": "xcb"},
    )
    try:
        _, x, y = line_with(panel, "at").split()
        assert int(y) > 700, "at the bottom edge, where trayer is"

        def xdotool(*words: str) -> None:
            subprocess.run(["xdotool", *words], env=desktop, check=True, timeout=20)

        xdotool("mousemove", x, y, "click", "1")
        assert line_with(panel, "did") == "did open"
        xdotool("mousemove", x, y, "click", "3")
        menu = line_with(panel, "menu")
        for entry in ("Server: Ready", "Stop server", "Copy base URL", "Open Twinrig", "Quit"):
            assert entry in menu
        xdotool("key", "Up", "Return")
        assert line_with(panel, "did") == "did quit"
    finally:
        panel.kill()
        panel.communicate(timeout=20)


def photograph(desktop: dict[str, str], name: str) -> None:
    """A picture of the whole screen, for whoever wants to look at it."""
    folder = os.environ.get("TWINRIG_SHOTS")
    if folder and shutil.which("import"):
        path = str(Path(folder) / f"{name}.png")
        subprocess.run(["import", "-window", "root", path], env=desktop, check=True, timeout=60)


def entries(process: subprocess.Popen) -> dict[str, tuple[str, str]]:
    """The menu that has just opened: text -> its place on the screen."""
    found = {}
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("entry "):
            _, x, y, text = line.rstrip("\n").split(" ", 3)
            found[text] = (x, y)
        elif line.startswith("menu"):
            return found
    raise AssertionError("no menu opened")


def test_the_panel_lives_in_the_tray(desktop: dict[str, str]) -> None:
    """Icon, menu, meter and window of the whole panel, by clicks on the screen."""
    panel = subprocess.Popen(
        [sys.executable, "-c", PANEL],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**desktop, "QT_QPA_PLATFORM": "xcb"},
    )

    def xdotool(*words: str) -> None:
        subprocess.run(["xdotool", *words], env=desktop, check=True, timeout=60)

    try:
        _, x, y = line_with(panel, "at").split()
        xdotool("mousemove", x, y)
        time.sleep(2)
        photograph(desktop, "tooltip")
        xdotool("click", "3")
        menu = entries(panel)
        photograph(desktop, "menu")
        assert {"Server: Ready", "Stop server", "Free the cards", "Meter window"} <= set(menu)
        xdotool("mousemove", *menu["Meter window"], "click", "1")
        assert line_with(panel, "shown") == "shown window False meter True"
        time.sleep(1)
        photograph(desktop, "meter")
        xdotool("mousemove", x, y, "click", "3")
        menu = entries(panel)
        xdotool("mousemove", *menu["Free the cards"], "click", "1")
        assert line_with(panel, "freed").startswith("freed ")
        xdotool("mousemove", x, y, "click", "1")
        assert line_with(panel, "shown") == "shown window True meter True"
        time.sleep(2)
        photograph(desktop, "window")
    finally:
        panel.kill()
        panel.communicate(timeout=60)

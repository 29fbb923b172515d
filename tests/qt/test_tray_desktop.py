"""The tray icon on a real X desktop: Xvfb, openbox and trayer."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
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

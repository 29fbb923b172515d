"""Budgets of the panel: window visible, private memory, idle CPU (design 8)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.bench,
    pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="reads Linux's /proc"),
]

TESTS = Path(__file__).resolve().parents[1]
VISIBLE_RATIO = 1.6
TRAY_MIB, WINDOW_MIB = 90.0, 120.0
IDLE_PERCENT, FLICKER_PERCENT = 0.3, 0.5
PAIRS = 5

BARE = """
import time
began = time.process_time()
from PySide6.QtWidgets import QApplication, QLabel, QMainWindow
app = QApplication([])
window = QMainWindow()
window.setCentralWidget(QLabel("Hello"))
window.show()
app.processEvents()
print(time.process_time() - began)
"""

OURS = """
import sys, time
began = time.process_time()
from pathlib import Path
from types import SimpleNamespace
from twinrig.qt.application import QApplication, Starter
app = QApplication([])
root = Path(sys.argv[1])
folders = SimpleNamespace(config=root, state=root, cache=root, log=root)
starter = Starter(app, lambda target: None, "demo", "en", folders)
starter.window.show()
app.processEvents()
print(time.process_time() - began)
"""

LIFE = """
import sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication
from qt.full_rig import full_workbench
from qt.panel_rig import NOW_S, RigFolders, record, snapshot
from twinrig.qt.application import Starter
from twinrig.qt.tray import Tray

def private_mib():
    text = Path("/proc/self/smaps_rollup").read_text()
    lines = dict(line.split(":", 1) for line in text.splitlines()[1:])
    return sum(int(lines[key].split()[0]) for key in ("Private_Clean", "Private_Dirty")) / 1024

root = Path(sys.argv[1])
app = QApplication([])
app.setQuitOnLastWindowClosed(False)

def idle(n):
    server = record(updated_at_s=NOW_S + n // 5 * 5)
    loads = (n % 3, n % 2) if sys.argv[3] == "flicker" else (0, 0)
    return snapshot(server, loads, 0.0, 0, NOW_S + n)

workbench = full_workbench(root / "rig", idle)
workbench.pause_s = 1.0
import httpx, keyring  # what the real workbench loads too
starter = Starter(app, lambda target: workbench, "demo", "en", RigFolders.below(root))
starter.begin(hidden=sys.argv[3] == "tray")
marks = []

def mark():
    marks.append(time.process_time())
    if len(marks) <= 3:
        QTimer.singleShot(10_000, mark)
        return
    # The cheapest of three stretches: other work on this machine only adds.
    print(private_mib(), min(b - a for a, b in zip(marks, marks[1:])) * 10.0)
    starter.end()

QTimer.singleShot(18_000, mark)
app.exec()
"""


def run(code: str, *arguments: object) -> list[float]:
    # Byte code is kept between starts, as on a user's machine; CI switches that off elsewhere.
    environment = {**os.environ, "QT_QPA_PLATFORM": "offscreen"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run(
        [sys.executable, "-c", code, *(str(a) for a in arguments)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    return [float(part) for part in done.stdout.split()]


def test_window_visible(tmp_path: Path) -> None:
    bare, ours = [], []
    for _ in range(PAIRS):  # side by side, so that both meet the same load
        bare += run(BARE)
        ours += run(OURS, tmp_path)
    ratio = min(ours) / min(bare)
    print(f"window visible: {ratio:.2f} x a bare window (budget {VISIBLE_RATIO} x, CPU time)")
    assert ratio <= VISIBLE_RATIO


# Slow: on a host that others use, the same commit was seen at 0.09 % and at 0.36 %.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "budget_mib", "budget_percent"),
    [
        ("tray", TRAY_MIB, IDLE_PERCENT),
        ("window", WINDOW_MIB, IDLE_PERCENT),
        # A desktop that redraws moves the figures each second: more is to be drawn.
        ("flicker", WINDOW_MIB, FLICKER_PERCENT),
    ],
)
def test_memory_and_idle_cpu(
    tmp_path: Path, kind: str, budget_mib: float, budget_percent: float
) -> None:
    memory_mib, cpu_percent = run(LIFE, tmp_path, TESTS, kind)
    print(f"{kind}: {memory_mib:.0f} MiB private, {memory_mib / budget_mib:.2f} of the budget")
    print(
        f"{kind}: {cpu_percent:.2f} % of a core, {cpu_percent / budget_percent:.2f} of the budget"
    )
    assert memory_mib <= budget_mib
    assert cpu_percent <= budget_percent

"""Pictures of every page in light and dark, English and Japanese, at 100 and 150 %.

Run it by hand or in CI, then look at the pictures:

    python tests/qt/shots.py FOLDER [--size 1000x680] [--pages overview,server]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

MODEL = "/home/demo/models/Demo-24B-AWQ"
SCALES = ("1.0", "1.5")
LANGUAGES = ("en", "ja")
THEMES = ("light", "dark")
PARTS = {"try": ("try/chat", "try/measure", "try/connect")}
"""Pages that show one part at a time."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--size", default="1000x680")
    parser.add_argument("--pages", default="")
    parser.add_argument("--scale", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    if options.scale:
        return take(options)
    # The scale is fixed when Qt starts, so each one gets a process of its own.
    for scale in SCALES:
        environment = {**os.environ, "QT_SCALE_FACTOR": scale}
        environment.setdefault("QT_QPA_PLATFORM", "offscreen")
        command = [sys.executable, __file__, *sys.argv[1:], "--scale", scale]
        subprocess.run(command, env=environment, check=True)
    return 0


def take(options: argparse.Namespace) -> int:
    """All pictures of one scale."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from PySide6.QtWidgets import QApplication

    from qt.full_rig import full_workbench
    from qt.pages_rig import make_profile
    from qt.panel_rig import RigFolders
    from twinrig.hosts.demo.gpus import DemoGpuProbe
    from twinrig.qt.application import Starter

    application = QApplication([])
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        workbench = full_workbench(root / "rig")
        workbench.pause_s = 0.004
        workbench.open_gpu_probe = lambda: DemoGpuProbe(workbench.layout.root)
        # First in the list, with a model that is there: the plan shows its memory.
        make_profile(workbench, "24B, both cards", MODEL)
        folders = RigFolders.below(root / "home")
        starter = Starter(application, lambda _target: workbench, "demo", "en", folders)
        width, height = (int(part) for part in options.size.split("x"))
        starter.window.resize(width, height)
        starter.begin(hidden=False)
        starter.window.navigate("server")  # chooses a profile
        wait(application, 2.5)
        wanted = [part for part in options.pages.split(",") if part]
        wanted = wanted or [
            part for page in starter.window._types for part in PARTS.get(page, (page,))
        ]
        for theme in THEMES:
            starter.theme.apply(theme)
            for language in LANGUAGES:
                starter.apply_language(language)
                for page in wanted:
                    starter.window.navigate(page)
                    starter.window.resize(width, height)
                    wait(application, 0.8)
                    name = f"{page.replace('/', '-')}-{theme}-{language}-{options.scale}.png"
                    starter.window.grab().save(str(options.folder / name))
        starter.end()
    return 0


def wait(application: object, seconds: float) -> None:
    """Let live data come in, then whatever they cause."""
    from PySide6.QtCore import QEventLoop, QTimer

    loop = QEventLoop()
    QTimer.singleShot(round(seconds * 1000), loop.quit)
    loop.exec()


if __name__ == "__main__":
    raise SystemExit(main())

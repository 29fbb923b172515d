"""Opens the panel; Qt is imported here only, so that nothing else pays for it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from twinrig.hosts.paths import find_paths

if TYPE_CHECKING:
    from twinrig.services.workbench import Workbench


def display_present(environ: Mapping[str, str]) -> bool:
    """Whether a window could be shown."""
    if sys.platform in ("win32", "darwin"):
        return True
    platform = environ.get("QT_QPA_PLATFORM", "")
    return bool(platform or environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY"))


def open_panel(
    target: str,
    language: str | None,
    *,
    hidden: bool = False,
    replay: str = "",
    self_test: Path | None = None,
) -> int:
    """Run the panel until the user quits; ``replay`` is a recording to show.

    With ``self_test`` it ends by itself, after writing what it found to that file.

    Raises ImportError when Qt cannot be loaded.
    """
    from twinrig.qt.application import run_panel

    paths = find_paths(os.environ)

    def open_workbench(wanted: str) -> Workbench:
        # Checks, engines and adapters are loaded behind the shown window.
        from twinrig.composition import targets

        return targets.open_workbench(wanted, paths)

    return int(
        run_panel(
            open_workbench,
            target,
            language,
            paths,
            hidden=hidden,
            replay=Path(replay) if replay else None,
            self_test=self_test,
            relaunch=partial(_relaunch, language),
        )
    )


def _relaunch(language: str | None, target: str) -> None:
    """A new panel in a process of its own, which outlives this one."""
    words = [sys.executable, "-m", "twinrig", "--target", target]
    if language:
        words += ["--language", language]
    subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )

"""What ``start.py`` does: set up when needed, then become ``twinrig`` or run its tests."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import NoReturn

from bootstrap import stamp
from bootstrap.places import Places

FAST_TESTS = "not real and not xserver and not bench and not slow"
SPREAD = ("-n", "auto", "--dist", "loadfile")


def run(root: str, argv: Sequence[str]) -> int:
    """Exit code of what was run, or 1 after telling what went wrong (130 when interrupted)."""
    places = Places(root)
    test = list(argv[:1]) == ["test"]
    names = ("runtime", "dev") if test else ("runtime",)
    fault = prepare(places, names, argv)
    if fault:
        return fault
    environ = child_environment(os.environ)
    if not test:
        environ.setdefault("TWINRIG_COMMAND", "python3 installer/start.py")
        return become([places.python, "-m", "twinrig", *argv], environ)
    environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    command = [places.python, "-m", "pytest", "-q", "-m", FAST_TESTS, *SPREAD, *argv[1:]]
    return become(command, environ, folder=root)


def prepare(places: Places, names: tuple[str, ...], argv: Sequence[str]) -> int:
    """0 when all is in place; else the fault was told and its exit code is returned."""
    needs_window = _needs_libraries(places, names, argv)
    if needs_window is None and stamp.matches(places, names):
        return 0
    from bootstrap.progress import Terminal  # not needed by a second start
    from bootstrap.work import prepare_telling

    return prepare_telling(places, names, needs_window, Terminal())


def _needs_libraries(places: Places, names: tuple[str, ...], argv: Sequence[str]) -> bool | None:
    """None = no Qt library is needed; else whether those of a window are."""
    if places.windows or not sys.platform.startswith("linux"):
        return None
    if "dev" in names:
        window = False
    else:
        from bootstrap.arguments import panel_wanted

        display = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
        if not display or not panel_wanted(argv):
            return None
        window = True
    from bootstrap.libraries import missing

    return window if missing(window) else None


def child_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Without variables that make a Python load modules from elsewhere."""
    dropped = ("PYTHONHOME", "PYTHONPATH", "__PYVENV_LAUNCHER__", "TWINRIG_START_CHOSEN")
    return {name: value for name, value in environ.items() if name not in dropped}


def become(command: Sequence[str], environ: Mapping[str, str], folder: str | None = None) -> int:
    """Replace this process (POSIX), or run the command and return its exit code (Windows)."""
    sys.stdout.flush()
    sys.stderr.flush()
    if os.name != "nt":
        _replace(command, environ, folder)
    try:
        return subprocess.call(command, env=dict(environ), cwd=folder)
    except KeyboardInterrupt:
        return 130


def _replace(command: Sequence[str], environ: Mapping[str, str], folder: str | None) -> NoReturn:
    if folder is not None:
        os.chdir(folder)
    os.execve(command[0], list(command), dict(environ))

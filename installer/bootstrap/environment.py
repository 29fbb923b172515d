"""Makes ``.venv``, repairs a half-made one, and links the checkout into it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from bootstrap import apt, lock, packages, stamp
from bootstrap.places import Places
from bootstrap.problems import Problem, disk_full, from_output
from bootstrap.progress import Progress

NEEDED_BYTES = 500_000_000
FULL_BYTES = 40_000_000
SUPPORTED = ((3, 11), (3, 12), (3, 13))
_ASK_VERSION = "import pip, sys; print(*sys.version_info[:2])"


def ensure(places: Places, names: tuple[str, ...], progress: Progress) -> None:
    """Return with everything in ``names`` installed; does nothing when it is already.

    ``names`` are of "runtime" and "dev"; the last one holds all the pins of those before it.
    Raises Problem or OSError; the next call repairs what was left half done.
    """
    if stamp.matches(places, names):
        return
    os.makedirs(places.venv, exist_ok=True)
    with lock.exclusive(places.lock, lambda: progress.show(0, "Another start sets Twinrig up")):
        if stamp.matches(places, names):
            return
        _set_up(places, names, progress)
    progress.show(100, "Ready")


def _set_up(places: Places, names: tuple[str, ...], progress: Progress) -> None:
    version = _usable(places)
    again = "Bringing the packages in .venv up to date"
    progress.show(1, again if version else "Setting Twinrig up in .venv (only this first time)")
    if version is None:
        if shutil.disk_usage(places.root).free < NEEDED_BYTES:
            raise disk_full(places.root)
        _clear(places)
        _require_ensurepip(places, progress)
        version = _make(places, progress)
    stamp.remove(places)
    packages.install(places, names[-1], progress, 12, 97)
    progress.show(98, "Linking Twinrig")
    link(places, version)
    shutil.rmtree(places.temporary, ignore_errors=True)
    stamp.write(places, names, version)


def _usable(places: Places) -> tuple[int, int] | None:
    """Python version of an environment that can be kept; None = make a new one.

    Ours is kept only when its last set-up was finished. One made by somebody else is used when
    it works, and never deleted: Raises Problem when it does not.
    """
    known = stamp.read(places)
    if os.path.exists(places.marker):
        if not known or not stamp.interpreter_lives(places, known):
            return None
        return ask_version(places)
    others = [n for n in os.listdir(places.venv) if n not in _own(places)]
    if not others:
        return None
    version = ask_version(places)
    if version is None:
        raise Problem(
            f"The folder {places.venv} was not made by Twinrig, and holds no usable Python"
            " environment (3.11 to 3.13, with pip).",
            "Rename or delete that folder, then start again.",
        )
    return version


def ask_version(places: Places) -> tuple[int, int] | None:
    """Version of the environment's Python when it runs, has pip and is supported."""
    try:
        done = subprocess.run(
            [places.python, "-I", "-c", _ASK_VERSION],
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=60,
            creationflags=packages.NO_WINDOW,
            check=False,
        )
        major, minor = map(int, done.stdout.split())
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    return (major, minor) if (major, minor) in SUPPORTED else None


def _own(places: Places) -> tuple[str, ...]:
    return tuple(os.path.basename(path) for path in (places.lock, places.log, places.temporary))


def _clear(places: Places) -> None:
    """Empty the environment but for the lock we hold and the log."""
    keep = {os.path.basename(places.lock), os.path.basename(places.log)}
    for name in os.listdir(places.venv):
        path = os.path.join(places.venv, name)
        if name in keep:
            continue
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)


def _require_ensurepip(places: Places, progress: Progress) -> None:
    if _has_ensurepip():
        return
    why = "This Python lacks ensurepip, which makes new environments"
    if sys.base_prefix == "/usr":
        major, minor = sys.version_info[:2]
        apt.install([f"python{major}.{minor}-venv"], why, places, progress, 2)
        if _has_ensurepip():
            return
    raise Problem(f"{why} ({sys.executable}).", "Install a complete Python 3.11, 3.12 or 3.13.")


def _has_ensurepip() -> bool:
    code = "import ensurepip, venv"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        creationflags=packages.NO_WINDOW,
        check=False,
    )
    return done.returncode == 0


def _make(places: Places, progress: Progress) -> tuple[int, int]:
    progress.show(3, "Making the environment")
    with open(places.marker, "w", encoding="utf-8") as handle:
        handle.write("Made by installer/start.py, which may delete and remake this folder.\n")
    environ = packages.clean_environment(os.environ)

    def tick() -> None:
        progress.show(6, "Making the environment")

    def line(text: str) -> None:
        """Nothing is shown of a single line."""

    command = [sys.executable, "-m", "venv", places.venv]
    code, lines = packages.run_logged(command, places.log, environ, line, tick)
    version = ask_version(places) if code == 0 else None
    if version is None:
        if shutil.disk_usage(places.root).free < FULL_BYTES:  # venv hides ensurepip's reason
            raise disk_full(places.root)
        raise from_output(lines, places.root, places.log)
    return version


def link(places: Places, version: tuple[int, int]) -> None:
    """Make ``twinrig`` importable and startable from the environment.

    The path is relative and plain ASCII: .pth files are read in the locale's encoding before
    Python 3.13, and a checkout may lie under any name.
    """
    library = places.site_packages(version)
    source = os.path.relpath(os.path.join(places.root, "app"), library)
    _write(os.path.join(library, "twinrig-checkout.pth"), source + "\n")
    if places.windows:
        script = '@"%~dp0python.exe" -m twinrig %*\r\n'
        _write(os.path.join(places.scripts, "twinrig.cmd"), script)
        return
    script = '#!/bin/sh\nexec "$(dirname "$(readlink -f "$0")")/python" -m twinrig "$@"\n'
    path = os.path.join(places.scripts, "twinrig")
    _write(path, script)
    os.chmod(path, 0o755)


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8", newline="") as handle:
        handle.write(text)

"""Debian's packages: installed when we are root, else the one command is told."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence

from bootstrap.packages import clean_environment, run_logged
from bootstrap.places import Places
from bootstrap.problems import Problem
from bootstrap.progress import Progress


def is_root() -> bool:
    """Whether this process may install system packages."""
    return hasattr(os, "geteuid") and os.geteuid() == 0


def command_for(packages: Sequence[str]) -> str:
    """The one command that a user can paste."""
    return "sudo apt-get update && sudo apt-get install -y " + " ".join(packages)


def install(
    packages: Sequence[str], why: str, places: Places, progress: Progress, percent: float
) -> None:
    """Install ``packages`` as root. Raises Problem: not root, no apt-get, or apt-get failed."""
    if shutil.which("apt-get") is None:
        raise Problem(
            why + ".",
            "Install what these Debian packages hold with your package manager, then start again: "
            + " ".join(packages),
        )
    if not is_root():
        raise Problem(
            why + ".", "Install it with this command, then start again:\n  " + command_for(packages)
        )
    progress.show(percent, "Installing system packages")
    log = _log(places)
    environ = clean_environment(os.environ)
    environ.update(DEBIAN_FRONTEND="noninteractive", LC_ALL="C")
    base = ["apt-get", "-q", "-o", "DPkg::Lock::Timeout=120"]

    def tick() -> None:
        progress.show(percent, "Installing system packages")

    for arguments in (["update"], ["install", "-y", "--no-install-recommends", *packages]):
        code, lines = run_logged([*base, *arguments], log, environ, _ignore, tick)
        if code != 0 and arguments[0] == "install":
            reason = next((line for line in lines if line.startswith("E:")), "no reason given")
            raise Problem(
                f"{why}, and apt-get could not install it: {reason}",
                f"Run this command, then start again:\n  {command_for(packages)}\n"
                f"The full log is {log}.",
            )


def _log(places: Places) -> str:
    os.makedirs(places.venv, exist_ok=True)
    return places.log


def _ignore(line: str) -> None:
    """Nothing is shown of a single line."""

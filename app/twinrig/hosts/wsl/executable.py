"""Which ``wsl.exe``: the override, else the program of the installed package, else System32's."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path, PureWindowsPath

OVERRIDE_VARIABLE = "TWINRIG_WSL_EXE"
"""Full path of another ``wsl.exe``; the only way to have this target outside Windows."""


def find_wsl(
    environ: Mapping[str, str],
    *,
    platform: str = sys.platform,
    package_folder: Callable[[], str | None] = lambda: None,
    exists: Callable[[str], bool] = lambda path: Path(path).is_file(),
) -> str | None:
    """Full path, None when there is none. It is never looked up on PATH.

    The program in System32 only starts the one of the package (``package_folder``) as a child,
    so that ending it may leave that child; the package's own comes first.
    """
    override = environ.get(OVERRIDE_VARIABLE, "").strip()
    if override:
        return override if exists(override) else None
    if platform != "win32":
        return None
    for path in _candidates(environ, package_folder()):
        if exists(path):
            return path
    return None


def _candidates(environ: Mapping[str, str], package: str | None) -> tuple[str, ...]:
    root = environ.get("SystemRoot") or environ.get("SYSTEMROOT") or r"C:\Windows"
    system = str(PureWindowsPath(root) / "System32" / "wsl.exe")
    if not package:
        return (system,)
    return (str(PureWindowsPath(package) / "wsl.exe"), system)

"""Lays the release out in a folder: Python, packages, Twinrig as plain files, licences."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from bootstrap.problems import Problem
from windows import wheels
from windows.images import unsigned
from windows.selection import QT_FILES, wanted

SITE = "python/Lib/site-packages"
STAMP_S = 1735689600
"""Time of every file, 2025-01-01 UTC: two builds of the same files are the same bytes."""

PANEL_CMD = '@start "" "%~dp0python\\pythonw.exe" -m twinrig %*\r\n'
TERMINAL_CMD = '@"%~dp0python\\python.exe" -m twinrig %*\r\n'
_SOURCE_ONLY = (".pyc", ".po", ".pot")


def release_files(
    root: Path, embed: Mapping[str, bytes], wheel_files: Sequence[Path], icon: bytes
) -> dict[str, bytes]:
    """Path in the release -> content. Raises Problem when a listed file of Qt is missing."""
    files = {f"python/{name}": data for name, data in embed.items()}
    for wheel in wheel_files:
        for name, data in wheels.files_of(wheel):
            if wanted(name):
                files[f"{SITE}/{name}"] = data
    missing = sorted(name for name in QT_FILES if f"{SITE}/{name}" not in files)
    if missing:
        raise Problem(
            f"The wheels of Qt do not contain {', '.join(missing)}.",
            "Bring QT_FILES of installer/windows/selection.py up to date.",
        )
    files |= dict(_product(root))
    files |= dict(_licences(root))
    files["twinrig.ico"] = icon
    files["Start Twinrig.cmd"] = PANEL_CMD.encode()
    files["twinrig.cmd"] = TERMINAL_CMD.encode()
    _check_names(files)
    if loose := unsigned(files):
        raise Problem(
            f"Not signed by their makers: {', '.join(loose)}.",
            "Windows may block such files; leave them out in installer/windows/selection.py.",
        )
    return files


def write_stage(files: Mapping[str, bytes], folder: Path) -> None:
    """Write the release into ``folder``, which is emptied first; all times are ``STAMP_S``."""
    shutil.rmtree(folder, ignore_errors=True)
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    for path in (folder, *folder.rglob("*")):
        os.utime(path, (STAMP_S, STAMP_S))


def constant(path: Path, name: str) -> str:
    """A constant text of a Python file, without running it."""
    found = re.search(rf'^{name} = "([^"]+)"$', path.read_text("utf-8"), re.MULTILINE)
    if found is None:
        raise Problem(f"{path} does not set {name}.", "The checkout is damaged; take a new one.")
    return found[1]


def _product(root: Path) -> Iterator[tuple[str, bytes]]:
    for source, target in (("app/twinrig", "app/twinrig"), ("resources", "app/twinrig/_resources")):
        for path in sorted((root / source).rglob("*")):
            inside = path.relative_to(root / source)
            if path.is_file() and "__pycache__" not in inside.parts and _shipped(path):
                yield f"{target}/{inside.as_posix()}", path.read_bytes()


def _shipped(path: Path) -> bool:
    return path.suffix not in _SOURCE_ONLY


def _licences(root: Path) -> Iterator[tuple[str, bytes]]:
    for name in ("LICENSE", "THIRD-PARTY-NOTICES.md"):
        data = (root / name).read_bytes()
        yield f"app/twinrig/_resources/licences/{name}", data
        yield f"licences/{name if name.endswith('.md') else name + '.txt'}", data
    for path in sorted((root / "installer" / "windows" / "licences").iterdir()):
        yield f"licences/{path.name}", path.read_bytes()


def _check_names(files: Mapping[str, bytes]) -> None:
    """Windows does not tell upper from lower case, and allows 259 characters in a path."""
    folded: dict[str, str] = {}
    for name in files:
        other = folded.setdefault(name.casefold(), name)
        if other != name:
            raise Problem(f"{other} and {name} are one file on Windows.", "Rename one of them.")
        if len(name) > 150 or re.search(r'[<>:"|?*\\]', name):
            raise Problem(f"{name} is no name for a file on Windows.", "Rename it.")

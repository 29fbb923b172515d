"""Writes the part of the NSIS script that names every file: what is installed, what is removed."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePosixPath


def file_lists(names: Iterable[str], stage: str, size_bytes: int) -> str:
    """Macros INSTALL_FILES and REMOVE_FILES, and the define SIZE_KIB.

    The uninstaller removes these files and Python's byte code beside them, nothing else: the
    user may have chosen a folder that holds other things.
    """
    by_folder: dict[str, list[str]] = {}
    for name in sorted(names):
        folder, _, file = name.rpartition("/")
        by_folder.setdefault(folder, []).append(file)
    lines = [f"!define SIZE_KIB {-(-size_bytes // 1024)}", "!macro INSTALL_FILES"]
    for folder in sorted(by_folder):
        lines.append(f'  SetOutPath "{_target(folder)}"')
        for file in by_folder[folder]:
            lines.append(f'  File "{_quoted("/".join(filter(None, (stage, folder, file))))}"')
    lines += ["!macroend", "!macro REMOVE_FILES"]
    for folder in sorted(by_folder):
        lines += [f'  Delete "{_target(folder, file)}"' for file in by_folder[folder]]
        if any(file.endswith(".py") for file in by_folder[folder]):
            lines.append(f'  RMDir /r "{_target(folder, "__pycache__")}"')
    lines += [f'  RMDir "{_target(folder)}"' for folder in _deepest_first(by_folder)]
    return "\n".join([*lines, "!macroend", ""])


def _deepest_first(folders: Iterable[str]) -> list[str]:
    """Every folder of the release, each after those inside it; without the top one."""
    found = {
        str(parent)
        for folder in folders
        for parent in (PurePosixPath(folder), *PurePosixPath(folder).parents)
    }
    return sorted(found - {"."}, key=lambda folder: (-folder.count("/"), folder))


def _target(*parts: str) -> str:
    inside = "/".join(filter(None, parts)).replace("/", "\\")
    return "$INSTDIR" + (f"\\{_quoted(inside)}" if inside else "")


def _quoted(text: str) -> str:
    return text.replace("$", "$$").replace('"', '$\\"')

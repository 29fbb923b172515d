"""Finds the files of ``resources/``: inside the installed package, else in the checkout."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
_ROOTS = (_PACKAGE / "_resources", _PACKAGE.parents[1] / "resources")


def resource_path(name: str) -> Path:
    """Path of a resource such as ``i18n/ja.mo``.

    Raises FileNotFoundError naming the resource when this installation lacks it.
    """
    for root in _ROOTS:
        path = root / name
        if path.exists():
            return path
    raise FileNotFoundError(f"resource {name!r} is missing from this installation of Twinrig")


def read_text(name: str) -> str:
    """UTF-8 text of a resource."""
    return resource_path(name).read_text(encoding="utf-8")


def read_bytes(name: str) -> bytes:
    """Bytes of a resource."""
    return resource_path(name).read_bytes()

"""Tells in a few milliseconds whether the environment is complete and up to date."""

from __future__ import annotations

import hashlib
import json
import os
from typing import Any

from bootstrap.places import Places

SCHEMA = 1


def file_hash(path: str) -> str:
    """SHA-256 of a file, line ends normalised (a checkout on Windows may have CRLF)."""
    with open(path, "rb") as handle:
        return hashlib.sha256(handle.read().replace(b"\r\n", b"\n")).hexdigest()


def read(places: Places) -> dict[str, Any]:
    """The stamp, {} when there is none or it is damaged."""
    try:
        with open(places.stamp, encoding="utf-8") as handle:
            data = json.load(handle)
    except (OSError, ValueError):
        return {}
    fine = isinstance(data, dict) and data.get("schema") == SCHEMA
    return data if fine and isinstance(data.get("files"), dict) else {}


def interpreter_lives(places: Places, stamp: dict[str, Any]) -> bool:
    """Whether the Python that made the environment is still the one behind it."""
    return os.path.exists(places.python) and os.path.realpath(places.python) == stamp.get("python")


def matches(places: Places, names: tuple[str, ...], stamp: dict[str, Any] | None = None) -> bool:
    """Whether all named requirement files are installed as they are now."""
    stamp = read(places) if stamp is None else stamp
    if not stamp or not interpreter_lives(places, stamp):
        return False
    files = stamp["files"]
    return all(files.get(name) == file_hash(places.requirements(name)) for name in names)


def write(places: Places, names: tuple[str, ...], version: tuple[int, int]) -> None:
    """Record a finished set-up, atomically."""
    data = {
        "schema": SCHEMA,
        "python": os.path.realpath(places.python),
        "version": list(version),
        "files": {name: file_hash(places.requirements(name)) for name in names},
    }
    temporary = places.stamp + ".new"
    with open(temporary, "w", encoding="utf-8") as handle:
        json.dump(data, handle)
        handle.flush()
        os.fsync(handle.fileno())
    os.replace(temporary, places.stamp)


def remove(places: Places) -> None:
    """Nothing is complete any more; called before anything is changed."""
    try:
        os.unlink(places.stamp)
    except FileNotFoundError:
        return

"""What the settings page offers and tells; no window needed."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import twinrig
from twinrig import assets
from twinrig.domain.quantities import number
from twinrig.messages import LANGUAGES, N_, Message, message
from twinrig.qt.settings import INTERVALS_S


class Folders(Protocol):
    """Where Twinrig keeps its files (``hosts.paths.AppPaths`` has this shape)."""

    @property
    def config(self) -> Path: ...
    @property
    def state(self) -> Path: ...
    @property
    def cache(self) -> Path: ...
    @property
    def log(self) -> Path: ...


@dataclass(frozen=True)
class Choice:
    """One entry of a drop-down list."""

    value: object
    label: Message


LANGUAGE_CHOICES: tuple[Choice, ...] = (
    Choice("", message("As the system")),
    *(Choice(code, Message(name)) for code, name in LANGUAGES.items()),
)
THEME_CHOICES: tuple[Choice, ...] = (
    Choice("system", message("As the system")),
    Choice("light", message("Light")),
    Choice("dark", message("Dark")),
)


def interval_choices() -> tuple[Choice, ...]:
    """Sampling intervals."""
    return tuple(
        Choice(seconds, message("{seconds} s", seconds=number(seconds))) for seconds in INTERVALS_S
    )


def folder_rows(folders: Folders) -> tuple[tuple[str, Path], ...]:
    """Title (a marked sentence) and place of each folder."""
    return (
        (N_("Profiles and settings"), folders.config),
        (N_("State of servers, journal of changes"), folders.state),
        (N_("Log files of Twinrig"), folders.log),
    )


def about_text() -> Message:
    """Version of Twinrig and of what it runs on."""
    return message(
        "Twinrig {version} on Python {python}",
        version=twinrig.__version__,
        python=platform.python_version(),
    )


def licence_text() -> str:
    """Our licence and those of what is shipped; in English, as the licences are."""
    parts = []
    for name in ("LICENSE", "THIRD-PARTY-NOTICES.md"):
        try:
            parts.append(_read(name))
        except OSError:
            continue
    return "\n\n".join(parts) or "MIT License. Copyright the Twinrig authors."


def _read(name: str) -> str:
    try:
        return assets.read_text(f"licences/{name}")
    except FileNotFoundError:
        root = Path(twinrig.__file__).resolve().parents[2]
        return (root / name).read_text(encoding="utf-8")

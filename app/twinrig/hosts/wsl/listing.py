"""Reads what ``wsl.exe`` and the registry tell of distributions. Pure; starts nothing."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from twinrig.domain.wsl import DISTRO_NAME, DistroState, WslDistro

_COLUMNS = re.compile(r"\s{2,}|\t")
_BUSY = frozenset({"installing", "uninstalling", "converting", "exporting"})
INSTALLED, WSL_2 = 1, 0x8
"""Values of ``State`` and a bit of ``Flags``."""


@dataclass(frozen=True)
class LxssRecord:
    """One key below ``HKCU\\Software\\Microsoft\\Windows\\CurrentVersion\\Lxss``."""

    guid: str
    name: str
    flags: int
    state: int
    default: bool


def parse_names(text: str) -> tuple[str, ...]:
    """Names out of ``--list --quiet``, one a line; anything else is a message, not a name."""
    return tuple(n for n in (line.strip() for line in text.split("\n")) if DISTRO_NAME.fullmatch(n))


def parse_verbose(text: str, running: Collection[str]) -> tuple[WslDistro, ...]:
    """Distributions out of ``--list --verbose``.

    The head line is skipped unread, and a state counts only when it is English: both may be
    translated. ``running`` (of ``--list --running --quiet``) has no words to translate.
    """
    awake = {name.casefold() for name in running}
    found = (_row(line, awake) for line in text.split("\n")[1:])
    return tuple(distro for distro in found if distro is not None)


def _row(line: str, awake: Collection[str]) -> WslDistro | None:
    default = line.lstrip().startswith("*")
    columns = _COLUMNS.split(line.strip().removeprefix("*").strip())
    if len(columns) < 3:
        columns = line.strip().removeprefix("*").split()
    if len(columns) < 3 or not DISTRO_NAME.fullmatch(columns[0]) or columns[-1] not in ("1", "2"):
        return None
    name, word = columns[0], columns[1].lower()
    return WslDistro(name, _state(name, word in _BUSY, awake), int(columns[-1]), default)


def from_registry(records: Sequence[LxssRecord], running: Collection[str]) -> tuple[WslDistro, ...]:
    """Distributions out of the registry, the default one first, then by name."""
    awake = {name.casefold() for name in running}
    found = [
        WslDistro(
            record.name,
            _state(record.name, record.state != INSTALLED, awake),
            2 if record.flags & WSL_2 else 1,
            record.default,
            record.guid,
        )
        for record in records
        if record.name
    ]
    return tuple(sorted(found, key=lambda d: (not d.default, d.name.casefold())))


def _state(name: str, busy: bool, awake: Collection[str]) -> DistroState:
    if busy:
        return DistroState.BUSY
    return DistroState.RUNNING if name.casefold() in awake else DistroState.STOPPED

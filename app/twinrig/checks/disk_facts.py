"""Reads the answers of ``df -Pk``."""

from __future__ import annotations

import re
from dataclasses import dataclass

_ROW = re.compile(r"^(\S.*?)\s+(\d+)\s+(\d+)\s+(\d+)\s+(\d+%|-)\s+(/.*)$")


@dataclass(frozen=True)
class DiskSpace:
    """One file system as ``df`` shows it; ``label`` is the place that was asked for."""

    label: str
    device: str
    total_bytes: int
    available_bytes: int
    mount: str


def parse_df(text: str) -> tuple[DiskSpace, ...]:
    """All rows; a line "disk LABEL" names the rows that follow it. Other lines are skipped."""
    label, found = "", []
    for line in text.splitlines():
        if line.startswith("disk "):
            label = line.removeprefix("disk ").strip()
        elif match := _ROW.match(line):
            found.append(
                DiskSpace(label, match[1], int(match[2]) * 1024, int(match[4]) * 1024, match[6])
            )
    return tuple(found)

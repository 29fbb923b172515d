"""Reads chosen series out of a Prometheus text body; everything else is skipped unparsed.

Damaged lines are skipped: a body may be cut off or come from another program.
"""

from __future__ import annotations

import math
from collections.abc import Collection


def collect(text: str, wanted: Collection[str]) -> dict[str, list[float]]:
    """Values by name of the wanted series, in order; names without a readable value lack."""
    values: dict[str, list[float]] = {}
    for line in text.split("\n"):
        name = series_name(line)
        if name not in wanted:
            continue
        value = _value(line, name)
        if value is not None:
            values.setdefault(name, []).append(value)
    return values


def series_name(line: str) -> str:
    """Name of the series that a line holds; "" or a non-name for other lines."""
    return line.partition("{")[0].partition(" ")[0]


def label(line: str, name: str) -> str | None:
    """Value of one label of a series line; None when the line does not have it.

    Escaped quotes inside values are honoured as far as they do not hide the wanted label.
    """
    for start in ("{", ","):
        _, found, rest = line.partition(f'{start}{name}="')
        if found:
            value, end, _ = rest.partition('"')
            return value if end else None
    return None


def _value(line: str, name: str) -> float | None:
    rest = line[len(name) :]
    if rest.startswith("{"):
        end = rest.rfind("}")
        if end < 0:
            return None
        rest = rest[end + 1 :]
    fields = rest.split()
    if len(fields) not in (1, 2):  # value, optional time stamp
        return None
    try:
        value = float(fields[0])
    except ValueError:
        return None
    return value if math.isfinite(value) else None

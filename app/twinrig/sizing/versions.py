"""Engine versions as people write them: "0.22+", "0.7.x (V0)". Leading digits decide."""

from __future__ import annotations

import re

Version = tuple[int, ...]
NEWEST: Version = (10**6,)
"""Stands for a version that is not stated: the newest rules count."""

_DIGITS = re.compile(r"\s*v?(\d+)\.(\d+)(?!x)(?:\.(\d+)(?!x))?", re.IGNORECASE)


def parse_version(text: str) -> Version | None:
    """``(0, 22)`` of "0.22+"; None when the leading digits are no version.

    A digit that runs into an x, as in "0.2x", is not known: it stands for ten versions.
    """
    found = _DIGITS.match(text)
    if found is None:
        return None
    return tuple(int(part) for part in found.groups() if part is not None)


def version_or_newest(text: str) -> Version:
    """The version, or one above all when it is not stated."""
    return parse_version(text) or NEWEST

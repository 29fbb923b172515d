"""CUDA reports errors late: where one was noticed says little about where it happened.

Source: seed 000, where ``rep_pen.cu:133`` was innocent and a print statement moved the place.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from twinrig.messages import Message, message

ASYNCHRONOUS = "illegal memory access"
"""What most of them say; a scan looks for it even when the root cause is known."""

_ASYNCHRONOUS = re.compile(
    r"illegal memory access|illegal address|misaligned address|unspecified launch failure"
    r"|device-side assert"
)
_PLACE = re.compile(r"(?P<file>[\w.-]+\.(?:cu|cuh|cpp|cc|py))(?:[:\s]+|\", line )\d+")


def is_asynchronous(line: str) -> bool:
    """Whether the fault may have happened long before this line noticed it."""
    return _ASYNCHRONOUS.search(line) is not None


def crash_place(line: str) -> str:
    """File that noticed an asynchronous fault; "" for other lines."""
    if not is_asynchronous(line):
        return ""
    found = _PLACE.search(line)
    return found["file"] if found else "?"


def asynchronous_note(lines: Sequence[str]) -> Message | None:
    """What to keep in mind about these crashes of one profile, oldest first; None for others."""
    places = [place for line in lines if (place := crash_place(line))]
    if len(set(places)) > 1:
        return message(
            "It crashed at different places, so the fault is asynchronous: none of the files"
            " named is the culprit."
        )
    if places:
        return message(
            "CUDA reports such faults late; the file it names is only where it was noticed."
        )
    return None

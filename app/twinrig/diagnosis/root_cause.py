"""The line to show when the cause is not known: the first exception that is not a wrapper."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from twinrig.diagnosis.normalise import clean, is_info, plain, without_info
from twinrig.diagnosis.rules import Rules

BLOCK_LINES = 512

_EXCEPTION = re.compile(
    r"(?:\[rank\d+\]: )?(?:[A-Za-z_]\w*\.)*"
    r"[A-Z]\w*(?:Error|Exception|Exit|Interrupt|Fault)(?:: |:?$)"
    r"|\s+Value error, "
    r"|\w[\w.-]*: error: "
    r"|(?:Exception|AssertionError)(?:: |$)"
)
_NATIVE = re.compile(
    r"Fatal Python error: |!+ ?Segfault encountered|Segmentation fault|free\(\): |double free"
    r"|corrupted size|Bus error|Illegal instruction|CUDA error: |GPU assert: |Failed: Cuda error "
    r"|malloc\(\): |Killed$"
)
_HINTS = (
    *("Error", "Exception", "error: ", "error, ", "Interrupt", "Exit", "Fault", "Killed"),
    *("Segfault", "Segmentation", "free()", "malloc()", "corrupted", "Illegal", "Bus error"),
    *("GPU assert", "died unexpectedly"),
)


@dataclass(frozen=True)
class RootCause:
    """A line of the log as it stands there (without colours); ``line_no`` is 1-based."""

    line_no: int
    line: str


def find_root_cause(lines: Sequence[str], rules: Rules, *, start: int = 0) -> RootCause | None:
    """First exception or native fault, from index ``start``, that is no wrapper nor harmless.

    When every exception is a wrapper, the first line about a dead worker is the best there is.
    """
    fallback: RootCause | None = None
    for number, raw in _suspicious(lines, start):
        text = plain(raw)
        found = RootCause(number, clean(raw).rpartition("\r")[2].strip("\n"))
        if any(phrase in text for phrase in rules.harmless):
            continue
        if any(phrase in text for phrase in rules.wrappers):
            if fallback is None and "died unexpectedly" in text:
                fallback = found
            continue
        if _EXCEPTION.match(text) or _NATIVE.search(text):
            return found
    return fallback


def _suspicious(lines: Sequence[str], first: int) -> Iterator[tuple[int, str]]:
    """Lines worth a closer look; whole blocks without any hint are skipped at once."""
    for start in range(first, len(lines), BLOCK_LINES):
        block = lines[start : start + BLOCK_LINES]
        joined = clean("\n".join(without_info(block)))
        present = [hint for hint in _HINTS if hint in joined]
        if not present:
            continue
        for number, line in enumerate(block, start + 1):
            text = clean(line)
            if not is_info(text) and any(hint in text for hint in present):
                yield number, text

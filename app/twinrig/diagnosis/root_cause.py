"""The line to show when the cause is not known: the first exception that is not a wrapper."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from twinrig.diagnosis.normalise import is_info, is_warning, plain

_EXCEPTION = re.compile(
    r"(?:[A-Za-z_]\w*\.){0,8}"
    r"[A-Z]\w*(?:Error|Exception|Exit|Interrupt|Fault)(?:: |:?$)"
    r"|\s*Value error, "
    r"|\w[\w. -]{0,40}: error: "
    r"|(?:Exception|AssertionError)(?:: |$)"
)
_NATIVE = re.compile(
    r"Fatal Python error: |!+ ?Segfault encountered|Segmentation fault|free\(\): |double free"
    r"|corrupted size|Bus error|Illegal instruction|CUDA error: |GPU assert: |Failed: Cuda error "
    r"|malloc\(\): |^Killed$|Test CUDA failure|Error code: |\bWsl/(?:Service|\w+/|0x|E_|WSL_E)"
    r"|WslRegisterDistribution failed|dxgkio_\w+: Ioctl failed: -(?!2\b|22\b)\d+|NVRM: Xid"
)
_RESULT = re.compile(
    r"(?:Last (?:Run )?Result|LastTaskResult|return code)\b.*?"
    r"(?:\b0x(?P<hex>[0-9A-Fa-f]{1,8})\b|(?<![\w.])(?P<number>-?\d{5,10})\b)"
)
_FINE_RESULTS = frozenset({0, 0x41300, 0x41301, 0x41303, 0x41306})
HINTS = (
    *("Error", "Exception", "error: ", "error, ", "Interrupt", "Exit", "Fault", "Killed"),
    *("Segfault", "Segmentation", "free()", "malloc()", "corrupted", "Illegal", "Bus error"),
    *("GPU assert", "died unexpectedly", "Test CUDA failure", "Wsl/", "Ioctl failed"),
    *("Result", "return code", "WslRegister", "NVRM"),
)
REFUSED = tuple(f'HTTP/1.1" {status}' for status in (400, 413, 422))
"""Answers to a request that was wrong itself; an engine that died answers 500."""
API_PROCESS = "APIServer"
DEAD_WORKER = "died unexpectedly"


@dataclass(frozen=True)
class RootCause:
    """A line of the log as it stands there (without colours); ``line_no`` is 1-based, None =
    it was read beside the log."""

    line_no: int | None
    line: str


def is_root(line: str, wrappers: Sequence[str]) -> bool:
    """Whether a line is an exception or native fault that is no wrapper. ``line`` is clean."""
    if is_info(line) or is_warning(line):
        return False
    text = plain(line)
    if any(phrase in text for phrase in wrappers):
        return False
    return bool(_EXCEPTION.match(text) or _NATIVE.search(text) or _bad_result(text))


def _bad_result(text: str) -> bool:
    found = _RESULT.search(text)
    if not found:
        return False
    code = int(found["hex"], 16) if found["hex"] else int(found["number"])
    return code not in _FINE_RESULTS

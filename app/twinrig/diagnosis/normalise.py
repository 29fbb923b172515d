"""Turns what a server printed into lines that rules can look at.

Line numbers count line feeds only, as an editor shows them: carriage returns of progress bars
do not start a line (failure catalogue 1.11). Prefixes of engine processes, journald and docker
compose are stripped, never matched: they change with every release.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Sequence

_ANSI = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_JOURNAL = re.compile(
    r"(?:[A-Z][a-z]{2} [ \d]\d|\d{4}-\d\d-\d\d)[T ]\d\d:\d\d:\d\d\S* \S+ [\w.@-]+\[\d+\]: "
)
_COMPOSE = re.compile(r"[\w.-]+-\d+\s+\| ")
_ROLE = re.compile(r"\((?P<role>\w[\w-]*)(?: rank=\d+)? pid=\d+\) ?")
_LOGGER = re.compile(
    r"(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d \[?[\w.]+\.py:\d+\] ?"
)
_OTHER_LEVEL = re.compile(" ERROR| WARN| CRITICAL")
_UTF16_SAMPLE_BYTES = 4096
LEVEL_CHARS = 60


def decode_log(data: bytes) -> list[str]:
    """Lines of a log file without their ends; UTF-16 (wsl.exe) is recognised, damage is shown."""
    text = data.decode(_encoding(data), "replace").removeprefix("\ufeff")
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    if lines and not lines[-1]:
        lines.pop()
    return lines


def clean(text: str) -> str:
    """Without colours, NULs and Windows line ends; cheap when there is none of them.

    Works on a line and on many lines joined by line feeds alike.
    """
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    if "\0" in text:
        text = text.replace("\0", "")
    if "\r\n" in text:
        text = text.replace("\r\n", "\n")
    return text.removesuffix("\r")


def plain(line: str) -> str:
    """The message of a line: no colours, last state of a progress bar, no prefix of any kind."""
    text = clean(line).rpartition("\r")[2]
    for pattern in (_COMPOSE, _JOURNAL, _ROLE, _LOGGER):
        if match := pattern.match(text):
            text = text[match.end() :]
    return text.rstrip()


def role(line: str) -> str:
    """Process that wrote a line, such as ``Worker_TP0``; "" when it does not say."""
    match = _ROLE.search(line[:120])
    return match["role"] if match else ""


def is_info(line: str) -> bool:
    """Whether the engine's logger, NCCL or uvicorn wrote the line at level INFO.

    Only the beginning counts: messages quote the word (``NCCL_DEBUG=INFO``).
    """
    head = line[:LEVEL_CHARS]
    if head.startswith("INFO:"):
        return True
    return " INFO" in head and not _OTHER_LEVEL.search(head)


def is_warning(line: str) -> bool:
    """Whether the engine's logger wrote the line at level WARNING: it went on afterwards."""
    return " WARNING " in line[:LEVEL_CHARS]


def without_info(lines: Sequence[str]) -> list[str]:
    """Lines of other levels, and lines without a level; nearly all lines go the short way."""
    return [
        line
        for line in lines
        if not line.startswith("INFO:") and (" INFO" not in line[:LEVEL_CHARS] or not is_info(line))
    ]


def _encoding(data: bytes) -> str:
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    sample = data[:_UTF16_SAMPLE_BYTES]
    odd, even = sample[1::2].count(0), sample[::2].count(0)
    half = len(sample) // 2
    if half and odd > half * 0.7 and even < half * 0.1:
        return "utf-16-le"
    if half and even > half * 0.7 and odd < half * 0.1:
        return "utf-16-be"
    return "utf-8"

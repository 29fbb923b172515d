"""Turns what a server printed into lines that rules can look at.

Line numbers count line feeds only, as an editor shows them: carriage returns of progress bars
do not start a line (failure catalogue 1.11). Prefixes of engine processes, journald and docker
compose are stripped, never matched: they change with every release.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Sequence

_ANSI = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_JOURNAL = re.compile(
    r"(?:[A-Z][a-z]{2} [ \d]\d|\d{4}-\d\d-\d\d)"
    r"[T ]\d\d:\d\d:\d\d[^\sZ]* [\w.-]+ [\w.@-]+(?:\[\d+\])?: "
)
_COMPOSE = re.compile(r"[\w.-]+ {1,30}\| ")
_DOCKER_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6,9}Z ")
_TRANSPORT = (_COMPOSE, _JOURNAL, _DOCKER_TIME)
_ROLE = re.compile(r"\((?P<role>\w[\w-]*)(?: rank=\d+)? pid=\d+\) ?")
_RANK = re.compile(r"\[rank\d+\]: ?")
_LOGGER = re.compile(
    r"(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d "
    r"(?:\(\w[\w-]*(?: rank=\d+)? pid=\d+\) )?\[?[\w./]+\.py:\d+\] ?"
)
_TABBY = re.compile(
    r"(?:\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} (?:\| )?)?"
    r"(?:DEBUG|INFO|SUCCESS|WARNING|ERROR|CRITICAL)(?::|  ? ? ? ?\|)"
)
_RECORD = re.compile(
    "|".join(
        p.pattern.replace("(?P<role>", "(?:") for p in (*_TRANSPORT, _ROLE, _LOGGER, _TABBY, _RANK)
    )
)
_PREFIXES = (
    re.compile(r"[\w.-]+-\d+ {1,30}\| "),
    _JOURNAL,
    _DOCKER_TIME,
    _ROLE,
    _LOGGER,
    _TABBY,
    _ROLE,
    _RANK,
)
_WARNING = re.compile(r"(?:^|[)|] |\d )WARNING\b")
_OTHER_LEVEL = re.compile(" ERROR| WARN| CRITICAL")
_UTF16_SAMPLE_BYTES = 4096
_PROBED_LINES = 40
LEVEL_CHARS = 60


def decode_log(data: bytes) -> list[str]:
    """Lines of a log file without their ends; UTF-16 (wsl.exe) is recognised, damage is shown."""
    decoder = LogDecoder()
    lines = decoder.feed(data)
    return lines + decoder.finish()


class LogDecoder:
    """Bytes in pieces -> lines without their ends. The encoding is told by the beginning."""

    def __init__(self) -> None:
        self._decoder: codecs.IncrementalDecoder | None = None
        self._head = b""
        self._rest = ""

    def feed(self, data: bytes) -> list[str]:
        """Lines completed by ``data``."""
        if self._decoder is None:
            self._head += data
            if len(self._head) < _UTF16_SAMPLE_BYTES:
                return []
            data = self._begin()
        return self._lines(data, final=False)

    def finish(self) -> list[str]:
        """The last lines, also one without an end."""
        data = self._begin() if self._decoder is None else b""
        lines = self._lines(data, final=True)
        if self._rest:
            lines.append(self._rest.removesuffix("\r"))
        return lines

    def _begin(self) -> bytes:
        self._decoder = codecs.getincrementaldecoder(_encoding(self._head))("replace")
        data, self._head = self._head, b""
        return data

    def _lines(self, data: bytes, *, final: bool) -> list[str]:
        assert self._decoder is not None
        text = self._rest + self._decoder.decode(data, final).removeprefix("\ufeff")
        lines = text.replace("\r\n", "\n").split("\n")
        self._rest = lines.pop()
        return lines


def clean(text: str) -> str:
    """Without colours, NULs and Windows line ends; cheap when there is none of them.

    Works on a line and on many lines joined by line feeds alike; never changes their number.
    """
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    if "\0" in text:
        text = text.replace("\0", "")
    if "\r\n" in text:
        text = text.replace("\r\n", "\n")
    return text.removesuffix("\r")


def cleaned(lines: Sequence[str]) -> list[str]:
    """Each line cleaned; their number stays."""
    text = "\n".join(lines)
    if not any(mark in text for mark in "\x1b\0\r") and text.count("\n") == len(lines) - 1:
        return list(lines)
    result = clean(text).split("\n")
    if len(result) != len(lines):  # a line that held line ends itself
        result = [clean(line).replace("\n", " ") for line in lines]
    return result


def without_transport(lines: Sequence[str]) -> Sequence[str]:
    """Without the prefixes of journald and docker; the same object when there are none."""
    result = lines
    for pattern in _TRANSPORT:
        probed = [line for line in result[:_PROBED_LINES] if line]
        matching = sum(pattern.match(line) is not None for line in probed)
        if probed and matching * 2 >= len(probed):
            result = [_without(pattern, line) for line in result]
    return result


def _without(pattern: re.Pattern[str], line: str) -> str:
    match = pattern.match(line)
    return line[match.end() :] if match else line


def plain(line: str) -> str:
    """The message of a line: no colours, last state of a progress bar, no prefix of any kind."""
    text = clean(line).rpartition("\r")[2]
    for pattern in _PREFIXES:
        if match := pattern.match(text):
            text = text[match.end() :]
            if pattern is _TABBY:
                text = text.removeprefix(" ").lstrip()
    return text.rstrip()


def role(line: str) -> str:
    """Process that wrote a line, such as ``Worker_TP0``; "" when it does not say."""
    head = line[:120]
    match = _ROLE.search(head) if "pid=" in head else None
    return match["role"] if match else ""


def starts_record(line: str) -> bool:
    """Whether a line begins as a logger's or process's own line does."""
    return _RECORD.match(line) is not None


def by_engine(line: str) -> bool:
    """Whether an engine's own logger wrote the line: no word of Windows or of its tasks."""
    return any(pattern.match(line) for pattern in (_ROLE, _LOGGER, _TABBY))


def is_info(line: str) -> bool:
    """Whether the engine's logger, NCCL or uvicorn wrote the line at level INFO.

    Only the beginning counts: messages quote the word (``NCCL_DEBUG=INFO``).
    """
    head = line[:LEVEL_CHARS]
    if "INFO" not in head:
        return False
    if head.startswith("INFO"):
        return head[4:5] in (":", " ")
    return " INFO" in head and not _OTHER_LEVEL.search(head)


def is_warning(line: str) -> bool:
    """Whether the engine's logger wrote the line at level WARNING: it went on afterwards."""
    head = line[:LEVEL_CHARS]
    return "WARNING" in head and _WARNING.search(head) is not None


def _encoding(data: bytes) -> str:
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    sample = data[:_UTF16_SAMPLE_BYTES]
    odd, even = sample[1::2].count(0), sample[::2].count(0)
    half = len(sample) // 2
    if half and odd > half * 0.5 and even < half * 0.1:
        return "utf-16-le"
    if half and even > half * 0.5 and odd < half * 0.1:
        return "utf-16-be"
    return "utf-8"

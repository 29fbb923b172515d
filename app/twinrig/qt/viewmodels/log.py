"""The tail of a growing log: numbered lines out of chunks that may end anywhere."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from twinrig.services.log_reader import LogChunk

MAX_LINES = 5000
MAX_LINE_CHARS = 2000
CHUNK_BYTES = 262_144
MAX_CHUNKS = 64
ReadLog = Callable[[str, int], "LogChunk"]
"""``(file_id, offset) -> LogChunk``; ``("", -1)`` asks for the end of the present file."""

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\u2028\u2029\x85]")


@dataclass(frozen=True)
class LogUpdate:
    """Lines to add. The last one is still open: the next update begins by replacing it.

    ``fresh`` = drop what is shown first (another file, or lines were passed over);
    ``last_no`` is the 1-based number of the last line in its file.
    """

    lines: tuple[str, ...]
    last_no: int
    fresh: bool = False


def clean_line(raw: str) -> str:
    """What a terminal would leave of a line: no colours, the last state of a progress bar."""
    parts = [part for part in _ESCAPES.sub("", raw).split("\r") if part.strip()]
    text = _CONTROL.sub("\ufffd", parts[-1] if parts else "")
    return text if len(text) <= MAX_LINE_CHARS else text[:MAX_LINE_CHARS] + "…"


class LogTail:
    """Remembers where reading stands: only what was fed counts as read."""

    def __init__(self) -> None:
        self.file_id = ""
        self.offset = -1
        self._open = ""
        self._last_no = 0

    def feed(self, chunk: LogChunk) -> LogUpdate | None:
        """Take one chunk. After a rotation the lines go on, numbered anew in the new file.

        A file that was emptied, or whose numbers do not follow, starts afresh.
        """
        known, moved = bool(self.file_id), chunk.file_id != self.file_id
        emptied = known and not moved and chunk.offset < self.offset
        self.file_id, self.offset = chunk.file_id, chunk.offset
        if not chunk.text and not emptied and not (moved and not known):
            return None
        fresh = not known or emptied or self._jumped(chunk, moved)
        before = self._begin(chunk, moved, fresh)
        lines = (self._open + chunk.text).split("\n")
        self._open = _bounded(lines[-1])
        self._last_no += len(lines) - 1
        kept = (before + lines)[-MAX_LINES:]
        return LogUpdate(
            tuple(clean_line(line) for line in kept),
            self._last_no,
            fresh=fresh or len(kept) < len(lines),
        )

    def _jumped(self, chunk: LogChunk, moved: bool) -> bool:
        return not moved and chunk.first_line_no not in (0, self._last_no)

    def _begin(self, chunk: LogChunk, moved: bool, fresh: bool) -> list[str]:
        """Where numbering stands now; the line that a rotation left open, if it did."""
        before: list[str] = []
        if fresh or moved:
            if self._open and not fresh:
                before = [self._open]
            self._open, self._last_no = "", max(1, chunk.first_line_no)
        return before


def _bounded(open_line: str) -> str:
    """A line that never ends (a progress bar, binary junk) must not grow without limit."""
    if len(open_line) <= 4 * MAX_LINE_CHARS:
        return open_line
    return open_line[: 2 * MAX_LINE_CHARS] + "\r" + open_line.rsplit("\r", 1)[-1][-MAX_LINE_CHARS:]


def read_around(
    read: ReadLog, file_id: str, line_no: int, before: int = 2000, after: int = 2000
) -> LogUpdate | None:
    """Lines around ``line_no`` of a file, read from its beginning; None = it is not there.

    Reads at most what a rotated log can hold (10 MiB), in chunks.
    """
    kept: list[str] = []
    offset, first, number, rest = 0, 1, 0, ""
    for _ in range(MAX_CHUNKS):
        chunk = read(file_id, offset)
        if chunk.file_id != file_id or chunk.offset <= offset:
            break
        offset = chunk.offset
        lines = (rest + chunk.text).split("\n")
        rest = lines.pop()
        kept += lines
        number += len(lines)
        surplus = min(number, line_no) - before - first
        if surplus > 0:
            kept, first = kept[surplus:], first + surplus
        if number >= line_no + after:
            break
    if number < line_no and rest:
        kept, number = [*kept, rest], number + 1
    if not first <= line_no <= number:
        return None
    last = min(number, line_no + after)
    shown = [clean_line(line) for line in kept[: last - first + 1]]
    return LogUpdate((*shown, ""), last + 1, fresh=True)

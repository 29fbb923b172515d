"""Turns output chunks into lines, and keeps those that a diagnosis needs, in bounded memory."""

from __future__ import annotations

from collections import deque
from itertools import chain

MAX_LINE_BYTES = 16 * 1024
_HEAD_LINES = 2000
_TAIL_LINES = 3000


class LineSplitter:
    """Bytes in, text lines out. A progress bar's carriage return ends a line too.

    Any bytes are accepted; what is not UTF-8 is shown as replacement characters. A line longer
    than ``MAX_LINE_BYTES`` is cut, the rest of it is dropped.
    """

    def __init__(self) -> None:
        self._rest = b""
        self._cut = False

    def feed(self, chunk: bytes) -> list[str]:
        """Lines completed by ``chunk``."""
        *complete, self._rest = (self._rest + chunk).replace(b"\r", b"\n").split(b"\n")
        lines: list[str] = []
        for raw in complete:
            if not self._cut:
                lines.append(_text(raw))
            self._cut = False
        if len(self._rest) > MAX_LINE_BYTES:
            if not self._cut:
                lines.append(_text(self._rest))
            self._cut, self._rest = True, b""
        return lines

    def finish(self) -> list[str]:
        """The unfinished last line, if there is one."""
        rest, self._rest = self._rest, b""
        cut, self._cut = self._cut, False
        return [_text(rest)] if rest and not cut else []


def _text(raw: bytes) -> str:
    return raw[:MAX_LINE_BYTES].decode("utf-8", "replace")


class LineMemory:
    """First and last lines of a run: causes stand early, the end says how it went."""

    def __init__(self, head: int = _HEAD_LINES, tail: int = _TAIL_LINES) -> None:
        self._head_limit = head
        self._head: list[str] = []
        self._tail: deque[str] = deque(maxlen=tail)
        self.count = 0

    def add(self, line: str) -> None:
        """Remember one more line."""
        self.count += 1
        if len(self._head) < self._head_limit:
            self._head.append(line)
        else:
            self._tail.append(line)

    def lines(self) -> list[str]:
        """What is remembered, oldest first."""
        return list(chain(self._head, self._tail))

    def line_no(self, index: int) -> int:
        """1-based line number in the run of the 1-based ``index`` into ``lines()``."""
        if index <= len(self._head):
            return index
        return self.count - len(self._tail) + (index - len(self._head))

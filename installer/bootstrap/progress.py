"""Shows how far the set-up is: one line that changes on a terminal, few lines elsewhere."""

from __future__ import annotations

import shutil
import sys
import time
from typing import Protocol, TextIO

STEP = 10.0
"""Percent between two lines where the line cannot be redrawn."""


class Progress(Protocol):
    """Where progress goes. ``percent`` never falls within one set-up."""

    def show(self, percent: float, text: str) -> None:
        """The set-up is so far, and does this now."""
        ...

    def close(self) -> None:
        """The set-up has ended, well or not."""
        ...


class Silent:
    """Shows nothing."""

    def show(self, percent: float, text: str) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""


class Terminal:
    """Progress on standard error; standard output belongs to the program that follows."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._live = self._stream.isatty()
        self._began = time.monotonic()
        self._percent = 0.0
        self._last = ""
        self._printed = -STEP
        self._open = False

    def show(self, percent: float, text: str) -> None:
        """Redraw the line, or print a new one when the text has changed."""
        self._percent = max(self._percent, min(percent, 100.0))
        if self._live:
            self._redraw(text)
        elif text.split()[:1] != self._last.split()[:1] or (
            text != self._last and self._percent >= self._printed + STEP
        ):
            self._printed = self._percent
            self._stream.write(f"[{self._percent:3.0f}%] {text}\n")
            self._stream.flush()
            self._last = text

    def close(self) -> None:
        """End the line."""
        if self._open:
            self._stream.write("\n")
            self._stream.flush()
            self._open = False

    def _redraw(self, text: str) -> None:
        columns = shutil.get_terminal_size().columns
        filled = int(self._percent / 5)
        bar = "#" * filled + "-" * (20 - filled)
        seconds = int(time.monotonic() - self._began)
        line = f"[{bar}] {self._percent:3.0f}%  {seconds // 60}:{seconds % 60:02d}  {text}"
        self._stream.write("\r\x1b[K" + line[: columns - 1])
        self._stream.flush()
        self._open = True

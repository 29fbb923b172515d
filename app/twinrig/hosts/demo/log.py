"""The demo server's log: a phase in brackets, then words; the engine module reads the phases."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable

from twinrig.domain.server import Phase

WriteLine = Callable[[str], None]


def write_stdout(line: str) -> None:
    """One line to standard output at once; a reader that is gone stops nothing."""
    if sys.stdout is not None:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.write(line + "\n")
            sys.stdout.flush()


class DemoLog:
    """Writes lines such as ``INFO 11-29 17:03:15 [demo:weights] 25% Loading shards 2/8``."""

    def __init__(
        self, write: WriteLine = write_stdout, clock: Callable[[], float] = time.time
    ) -> None:
        self._write = write
        self._now = clock

    def phase(self, phase: Phase, text: str, percent: int | None = None) -> None:
        """A line that tells a phase, with its progress where it has one."""
        progress = "" if percent is None else f"{percent}% "
        self._line("INFO", phase.value, progress + text)

    def error(self, text: str) -> None:
        """An error line; its text has the words of the real fault it simulates."""
        self._line("ERROR", "error", text)

    def _line(self, level: str, mark: str, text: str) -> None:
        stamp = time.strftime("%m-%d %H:%M:%S", time.localtime(self._now()))
        self._write(f"{level} {stamp} [demo:{mark}] {text}")

"""Writes the server's output to a rotating file without ever making the server wait.

A thread of its own writes; the queue is bounded. What cannot be queued or written (disk full) is
dropped and counted, and the file says so once it can be written again.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from io import FileIO
from pathlib import Path

MAX_FILE_BYTES = 10 * 1024 * 1024
KEPT_FILES = 3
_QUEUE_BYTES = 8 * 1024 * 1024
_OVERRUN_BYTES = 64 * 1024


class LogWriter:
    """Bytes in any form. ``begin_run`` starts a new file; older ones are ``NAME.1``, ``NAME.2``."""

    def __init__(
        self,
        path: Path,
        max_bytes: int = MAX_FILE_BYTES,
        kept: int = KEPT_FILES,
        queue_bytes: int = _QUEUE_BYTES,
    ) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._kept = kept
        self._queue_bytes = queue_bytes
        self._queue: deque[bytes | None] = deque()
        self._queued_bytes = 0
        self._busy = False
        self._closed = False
        self._changed = threading.Condition()
        self._file: FileIO | None = None
        self._size = 0
        self._at_line_start = True
        self._told = 0
        self.dropped_lines = 0
        self.lines_written = 0
        self.lines_before_file = 0
        self._thread = threading.Thread(target=self._work, name="server-log", daemon=True)
        self._thread.start()

    def write(self, chunk: bytes) -> None:
        """Queue output; returns at once."""
        with self._changed:
            if self._queued_bytes + len(chunk) > self._queue_bytes:
                self.dropped_lines += _lines_of(chunk)
                return
            self._queue.append(chunk)
            self._queued_bytes += len(chunk)
            self._changed.notify_all()

    def begin_run(self) -> None:
        """What follows belongs to a new run: a new file, line numbers from 1, nothing dropped."""
        with self._changed:
            self._queue.append(None)
            self._changed.notify_all()

    def flush(self, timeout_s: float = 5.0) -> bool:
        """Wait until all is written or dropped; False when the disk does not answer in time."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._queue and not self._busy, timeout_s)

    def close(self, timeout_s: float = 5.0) -> None:
        """Write what is queued, then end the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join(timeout_s)

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._queue or self._closed)
                if not self._queue:
                    break
                item = self._queue.popleft()
                self._queued_bytes -= len(item or b"")
                self._busy = True
            if item is None:
                self._start_run()
            else:
                self._put(item)
            with self._changed:
                self._busy = False
                self._changed.notify_all()
        self._shut()

    def _start_run(self) -> None:
        self._shut()
        if self._path.exists() and self._path.stat().st_size > 0:
            self._rotate()
        self._at_line_start = True
        self._told = self.dropped_lines = 0
        self.lines_written = self.lines_before_file = 0

    def _put(self, chunk: bytes) -> None:
        try:
            self._rotate_if_full(len(chunk))
            self._tell_gap()
            self._append(chunk)
        except OSError:
            self._shut()
            self.dropped_lines += _lines_of(chunk)

    def _rotate_if_full(self, coming: int) -> None:
        size = self._size if self._file is not None else _size_of(self._path)
        full = size > 0 and size + coming > self._max_bytes
        if full and (self._at_line_start or size > self._max_bytes + _OVERRUN_BYTES):
            self._shut()
            self._rotate()
            self.lines_before_file = self.lines_written

    def _tell_gap(self) -> None:
        missing = self.dropped_lines - self._told
        if missing > 0:
            start = b"" if self._at_line_start else b"\n"
            text = f"[twinrig] {missing} lines of output are missing here.\n".encode()
            self._append(start + text)
            self._told = self.dropped_lines

    def _append(self, chunk: bytes) -> None:
        file = self._file or self._open()
        view = memoryview(chunk)
        while view:
            written = file.write(view) or 0
            self._size += written
            view = view[written:]
        if chunk:
            self._at_line_start = chunk.endswith(b"\n")
        self.lines_written += chunk.count(b"\n")

    def _open(self) -> FileIO:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        file = FileIO(str(self._path), "ab")
        self._size = _size_of(self._path)
        self._file = file
        return file

    def _shut(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            with contextlib.suppress(OSError):
                file.close()

    def _rotate(self) -> None:
        with contextlib.suppress(OSError):
            for number in range(self._kept - 1, 0, -1):
                older = self._path.with_name(f"{self._path.name}.{number}")
                newer = (
                    self._path
                    if number == 1
                    else self._path.with_name(f"{self._path.name}.{number - 1}")
                )
                if newer.exists():
                    newer.replace(older)


def _lines_of(chunk: bytes) -> int:
    return max(1, chunk.count(b"\n"))


def _size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0

"""Reads a log that grows and rotates meanwhile, in pieces, whatever bytes it holds."""

from __future__ import annotations

import codecs
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from twinrig.domain.errors import DamagedFileError
from twinrig.messages import message

MAX_COUNTED_BYTES = 64 * 1024 * 1024
"""Line numbers are counted up to here; beyond, they are unknown (0)."""

_BLOCK = 1024 * 1024
_TAIL_BYTES = 8192


@dataclass(frozen=True)
class LogChunk:
    """A piece of a log. ``offset`` is where the next one begins, in the file ``file_id``.

    ``first_line_no`` is 1-based within that file, 0 when unknown. "" as ``file_id``: no log.
    """

    text: str
    file_id: str
    offset: int
    first_line_no: int


class LogReader:
    """Remembers line numbers between calls, so that following a log never counts it anew."""

    def __init__(self) -> None:
        self._marks: dict[Path, tuple[str, int, int]] = {}

    def read(
        self, path: Path, file_id: str = "", offset: int = -1, limit_bytes: int = 262144
    ) -> LogChunk:
        """The piece after (``file_id``, ``offset``); -1 = the last whole lines that fit.

        After a rotation first the rest of the old file, then the new one from its start.
        Raises DamagedFileError when the log cannot be read.
        """
        if offset >= 0 and file_id:
            rest = self._rest_of_rotated(path, file_id, offset, limit_bytes)
            if rest is not None:
                return rest
        handle = _open(path)
        if handle is None:
            return LogChunk("", "", 0, 1)
        with handle:
            return self._chunk(path, handle, file_id, offset, limit_bytes)

    def _rest_of_rotated(
        self, path: Path, file_id: str, offset: int, limit_bytes: int
    ) -> LogChunk | None:
        if _id_of(path) == file_id:
            return None
        older = path.with_name(path.name + ".1")
        if _id_of(older) != file_id:
            return None
        handle = _open(older)
        if handle is None:
            return None
        with handle:
            chunk = self._chunk(path, handle, file_id, offset, limit_bytes)
        return chunk if chunk.offset > offset else None

    def _chunk(
        self, path: Path, handle: BinaryIO, file_id: str, offset: int, limit_bytes: int
    ) -> LogChunk:
        info = os.fstat(handle.fileno())
        identity = f"{info.st_dev}:{info.st_ino}"
        start = offset
        if offset < 0:
            start = _tail_start(handle, info.st_size, limit_bytes)
        elif (file_id and file_id != identity) or offset > info.st_size:
            start = 0  # another file, or emptied: what was read before is gone
        line_no = self._line_no(path, handle, identity, start)
        handle.seek(start)
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        data = handle.read(limit_bytes)
        text = decoder.decode(data)
        end = start + len(data) - len(decoder.getstate()[0])
        if line_no:
            self._marks[path] = (identity, end, line_no + data.count(b"\n"))
        return LogChunk(text.replace("\0", "\ufffd"), identity, end, line_no)

    def _line_no(self, path: Path, handle: BinaryIO, identity: str, start: int) -> int:
        mark = self._marks.get(path)
        begin, lines = 0, 1
        if mark is not None and mark[0] == identity and mark[1] <= start:
            begin, lines = mark[1], mark[2]
        if start - begin > MAX_COUNTED_BYTES:
            return 0
        handle.seek(begin)
        while begin < start:
            block = handle.read(min(_BLOCK, start - begin))
            if not block:
                break
            lines += block.count(b"\n")
            begin += len(block)
        return lines


def _tail_start(handle: BinaryIO, size: int, limit_bytes: int) -> int:
    start = max(0, size - limit_bytes)
    if start == 0:
        return 0
    handle.seek(start - 1)
    block = handle.read(limit_bytes + 1)
    newline = block.find(b"\n")
    # One line longer than the limit has no start within it: then any place is as good.
    return start if newline < 0 or newline == len(block) - 1 else start + newline


def _id_of(path: Path) -> str:
    try:
        info = path.stat()
    except OSError:
        return ""
    return f"{info.st_dev}:{info.st_ino}"


def _open(path: Path) -> BinaryIO | None:
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise DamagedFileError(
                message("{path} is not a file.", path=str(path)), message("Move it away.")
            )
        return path.open("rb")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise DamagedFileError(
            message(
                "{path} cannot be read: {reason}.", path=str(path), reason=error.strerror or ""
            ),
            message("Check the permissions of the file and its folder."),
        ) from error


def last_line(path: Path, from_byte: int) -> str:
    """The last line that is not blank, of what was added after ``from_byte``; "" = none."""
    try:
        with path.open("rb") as handle:
            end = handle.seek(0, os.SEEK_END)
            handle.seek(max(from_byte, end - _TAIL_BYTES))
            text = handle.read(_TAIL_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")

"""Files that must never be half written: atomic replace, previous version kept, bounded reads."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import tempfile
from pathlib import Path

MAX_SMALL_FILE_BYTES = 4 * 1024 * 1024


class NotAFileError(OSError):
    """A pipe, socket or device where a file should be."""


class FileTooLargeError(OSError):
    """A file that should be small is not; it was not read."""


def read_small(path: Path, limit_bytes: int = MAX_SMALL_FILE_BYTES) -> bytes:
    """Read a file that is expected to be small.

    Raises FileTooLargeError above ``limit_bytes`` (a profile of 2 GB is damage, not data),
    NotAFileError for a pipe or a device (reading one might wait for ever), OSError as ``open``
    does.
    """
    with open(path, "rb", opener=_open_at_once) as handle:
        if not stat.S_ISREG(os.fstat(handle.fileno()).st_mode):
            raise NotAFileError(errno.EINVAL, "it is not a file", str(path))
        data = handle.read(limit_bytes + 1)
    if len(data) > limit_bytes:
        raise FileTooLargeError(f"{path} is larger than {limit_bytes} bytes")
    return data


def _open_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def write_atomic(
    path: Path, data: bytes, *, mode: int = 0o644, keep_previous: bool = False
) -> None:
    """Replace ``path`` by ``data`` so that a reader sees the old or the new file, never a part.

    With ``keep_previous`` the replaced file stays beside it as ``NAME.previous``.
    Raises OSError; the old file is untouched then.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as handle:
            handle.write(data)
            handle.flush()
            os.fsync(handle.fileno())
        temporary.chmod(mode)
        if keep_previous and path.exists():
            _keep(path)
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def previous_path(path: Path) -> Path:
    """Where ``write_atomic(..., keep_previous=True)`` keeps the version it replaced."""
    return path.with_name(path.name + ".previous")


def _keep(path: Path) -> None:
    previous = previous_path(path)
    copy = previous.with_name(previous.name + ".new")
    copy.write_bytes(path.read_bytes())
    copy.chmod(path.stat().st_mode & 0o777)
    copy.replace(previous)

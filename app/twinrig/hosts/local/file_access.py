"""Bounded reads and guarded atomic writes of other programs' files, below an optional prefix."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import tempfile
from pathlib import Path

from twinrig.domain.errors import ConflictError, HostError
from twinrig.domain.ports import FolderEntry
from twinrig.messages import message


def target_path(path: str, sysroot: Path | None) -> Path:
    """Where ``path`` really is. Raises HostError unless it is absolute or starts with ``~/``.

    With a prefix no ``..`` may lead out of it.
    """
    expanded = Path(path).expanduser() if path.startswith("~/") else Path(path)
    if not expanded.is_absolute():
        raise HostError(message("{path} is not an absolute path.", path=path))
    if sysroot is None:
        return expanded
    inside = Path(os.path.normpath(f"{sysroot}/{expanded.relative_to('/')}"))
    if not inside.is_relative_to(sysroot):
        raise HostError(message("{path} is not an absolute path.", path=path))
    return inside


def read_limited(path: Path, limit_bytes: int) -> bytes | None:
    """Content of a regular file, None when there is none. Raises HostError."""
    try:
        # Without O_NONBLOCK a named pipe would wait for a writer for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise _unreadable(path, error.strerror or "") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _unreadable(path, "not a regular file")
    with os.fdopen(descriptor, "rb") as handle:
        try:
            data = handle.read(limit_bytes + 1)
        except OSError as error:
            raise _unreadable(path, error.strerror or "") from error
    if len(data) > limit_bytes:
        raise HostError(
            message("{path} is larger than {limit} bytes.", path=str(path), limit=limit_bytes),
            message("Check whether this is the right file; it was not read."),
        )
    return data


def entries(path: Path) -> tuple[FolderEntry, ...]:
    """Entries of a folder by name, empty when there is none. Raises HostError."""
    try:
        with os.scandir(path) as found:
            return tuple(sorted((_entry(e) for e in found), key=lambda e: e.name))
    except (FileNotFoundError, NotADirectoryError):
        return ()
    except OSError as error:
        raise _unreadable(path, error.strerror or "") from error


def _entry(entry: os.DirEntry[str]) -> FolderEntry:
    try:
        info = entry.stat()
    except OSError:  # a link that leads nowhere, or round in a circle
        return FolderEntry(entry.name, False)
    is_dir = stat.S_ISDIR(info.st_mode)
    return FolderEntry(entry.name, is_dir, None if is_dir else info.st_size)


def check_expected(path: Path, present: bytes | None, expected_sha256: str | None) -> None:
    """Raises ConflictError when ``present`` is not what the caller saw ("" = no file)."""
    if expected_sha256 is None:
        return
    actual = "" if present is None else hashlib.sha256(present).hexdigest()
    if actual != expected_sha256.lower():
        raise conflict(path)


def conflict(path: Path) -> ConflictError:
    """The file is not what it was when the change was planned."""
    return ConflictError(
        message("{path} was changed meanwhile; nothing was written.", path=str(path)),
        message("Look at the file, then plan the change again."),
    )


def replace_file(path: Path, data: bytes | None, mode: int) -> None:
    """Atomic replace, None removes. Owner is kept; a symbolic link is followed, not replaced.

    Raises OSError.
    """
    if data is None:
        path.unlink(missing_ok=True)
        return
    if path.is_symlink():
        path = path.resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as handle:
            handle.write(data)
            handle.flush()
            os.fchmod(descriptor, mode)
            with contextlib.suppress(FileNotFoundError, PermissionError):
                before = path.stat()
                os.fchown(descriptor, before.st_uid, before.st_gid)
            os.fsync(descriptor)
        Path(name).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise


def unwritable(path: Path, reason: str) -> HostError:
    """It could not be written; the old content is untouched."""
    return HostError(
        message("{path} cannot be written: {reason}.", path=str(path), reason=reason),
        message("Check the permissions and the free space, then try again."),
    )


def _unreadable(path: Path, reason: str) -> HostError:
    return HostError(
        message("{path} cannot be read: {reason}.", path=str(path), reason=reason),
        message("Check the permissions of this file."),
    )

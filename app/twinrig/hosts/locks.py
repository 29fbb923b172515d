"""A lock between processes that vanishes with its holder, and says who holds it.

The file stays when the lock is given back: removing it would let two processes lock two files
of the same name. Its text is ``PID`` and a note, a line each, and means something only while
the lock is held.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

from twinrig.domain.errors import HostError
from twinrig.hosts import lock_calls
from twinrig.messages import message

_ATTEMPTS = 5
_PAUSE_S = 0.01
_TEXT_LIMIT_BYTES = 512
# Python hands no descriptor on by itself; Windows lacks the one name and Linux the other.
_READ_WRITE = os.O_RDWR | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


class FileLock:
    """``Lock`` by files ``NAME.lock`` below ``root``; ``note`` is told to whoever asks.

    One object holds at most one lock; ``release`` gives it back.
    """

    def __init__(self, root: Path, note: str = "") -> None:
        self._root = root
        self._note = note
        self._descriptor: int | None = None

    def path(self, name: str) -> Path:
        """File of the lock."""
        return self._root / f"{name}.lock"

    def acquire(self, name: str) -> bool:
        """Take the lock; False when somebody else, or this object, holds one already.

        Raises HostError when the folder cannot be written.
        """
        if self._descriptor is not None:
            return False
        path = self.path(name)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, _READ_WRITE | os.O_CREAT, 0o644)
        except OSError as error:
            raise _unusable(path, error) from error
        # On Windows a question by holder() takes the lock for an instant: hence several tries.
        for _ in range(_ATTEMPTS):
            if lock_calls.try_lock(descriptor):
                self._descriptor = descriptor
                self._write_text(descriptor)
                return True
            time.sleep(_PAUSE_S)
        os.close(descriptor)
        return False

    def release(self) -> None:
        """Give the lock back; safe to call twice."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is None:
            return
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, 0)
        with contextlib.suppress(OSError):
            lock_calls.unlock(descriptor)
        os.close(descriptor)

    def holder(self, name: str) -> int | None:
        """Process id of the holder, None when the lock is free.

        A lock that is held but whose text is not written yet gives None too.
        """
        lines = self._held_text(name).splitlines()
        return int(lines[0]) if lines and lines[0].isdigit() else None

    def holder_note(self, name: str) -> str:
        """Note of the holder, such as a profile id; "" when free or without one."""
        lines = self._held_text(name).splitlines()
        return lines[1] if len(lines) > 1 else ""

    def _held_text(self, name: str) -> str:
        with _opened(self.path(name)) as descriptor:
            if descriptor is None or not self._is_held(descriptor):
                return ""
            os.lseek(descriptor, 0, os.SEEK_SET)
            return os.read(descriptor, _TEXT_LIMIT_BYTES).decode("utf-8", "replace")

    def _is_held(self, descriptor: int) -> bool:
        try:
            return lock_calls.is_locked(descriptor)
        except OSError:
            return False

    def _write_text(self, descriptor: int) -> None:
        text = f"{os.getpid()}\n{self._note}\n".encode()
        with contextlib.suppress(OSError):  # a full disk must not keep the lock from working
            os.ftruncate(descriptor, 0)
            os.lseek(descriptor, 0, os.SEEK_SET)
            os.write(descriptor, text)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[int | None]:
    try:
        descriptor = os.open(path, _READ_WRITE)
    except OSError:
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _unusable(path: Path, error: OSError) -> HostError:
    return HostError(
        message("{path} cannot be written: {reason}.", path=str(path), reason=str(error.strerror)),
        message("Make the folder writable for this user, then try again."),
    )

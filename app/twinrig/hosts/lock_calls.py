"""The two system calls behind ``FileLock``: take a lock without waiting, and ask about it.

Linux uses open file description locks: a question about them takes nothing, and closing
another descriptor of the same file in the same process does not drop them, as it would with
classic POSIX record locks. Windows locks one byte far behind the text, since a locked byte
cannot be read by others.
"""

from __future__ import annotations

import os
import struct
import sys

if sys.platform == "win32":
    import msvcrt

    _LOCKED_BYTE = 1 << 30

    def try_lock(descriptor: int) -> bool:
        """Take the lock; False when somebody else has it."""
        os.lseek(descriptor, _LOCKED_BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def unlock(descriptor: int) -> None:
        """Give the lock back."""
        os.lseek(descriptor, _LOCKED_BYTE, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)

    def is_locked(descriptor: int) -> bool:
        """Whether anybody holds it. Takes it for an instant: ``FileLock`` retries therefore."""
        if not try_lock(descriptor):
            return True
        unlock(descriptor)
        return False

else:
    import fcntl

    # struct flock of 64-bit Linux: type, whence, start, length, pid; native alignment.
    _FLOCK = struct.Struct("hhqqi0q")

    def try_lock(descriptor: int) -> bool:
        """Take the lock; False when somebody else has it."""
        request = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        try:
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, request)
        except (BlockingIOError, PermissionError):
            return False
        return True

    def unlock(descriptor: int) -> None:
        """Give the lock back."""
        request = _FLOCK.pack(fcntl.F_UNLCK, os.SEEK_SET, 0, 0, 0)
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, request)

    def is_locked(descriptor: int) -> bool:
        """Whether anybody holds it; nothing is taken for the question."""
        request = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        answer = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, request)
        return bool(_FLOCK.unpack(answer)[0] != fcntl.F_UNLCK)

"""One set-up at a time; the lock vanishes with the process that holds it."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO

POLL_S = 0.2


@contextmanager
def exclusive(path: str, on_wait: Callable[[], None]) -> Iterator[None]:
    """Hold the lock file; ``on_wait`` is called once when another start holds it."""
    with open(path, "a", encoding="utf-8") as handle:
        if not _try(handle):
            on_wait()
            while not _try(handle):
                time.sleep(POLL_S)
        yield


if sys.platform == "win32":
    import msvcrt

    def _try(handle: IO[str]) -> bool:
        handle.seek(0)
        try:
            msvcrt.locking(handle.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
else:
    import fcntl

    def _try(handle: IO[str]) -> bool:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        os.set_inheritable(handle.fileno(), False)
        return True

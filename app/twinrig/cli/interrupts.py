"""Ctrl+C while the program waits for a person or reads a file."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Around what blocks: the first Ctrl+C raises KeyboardInterrupt there.

    ``asyncio.run`` takes the signal for itself and cancels the task, which a call that blocks
    never notices. A Ctrl+C that is ignored, as after ``nohup``, stays so.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)

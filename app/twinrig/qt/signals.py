"""Ctrl+C and SIGTERM end the panel in good order; the server is left running."""

from __future__ import annotations

import contextlib
import signal
import socket
from collections.abc import Callable

from PySide6.QtCore import QObject, QSocketNotifier


class EndOnSignals(QObject):
    """Calls ``end`` on the GUI thread when the process is asked to go.

    Python runs its handlers only between byte codes, of which an idle Qt loop executes none: the
    wake-up socket makes it execute some.
    """

    def __init__(self, end: Callable[[], None], parent: QObject) -> None:
        super().__init__(parent)
        self._reader, self._writer = socket.socketpair()
        for each in (self._reader, self._writer):
            each.setblocking(False)
        self._notifier = QSocketNotifier(self._reader.fileno(), QSocketNotifier.Type.Read, self)
        self._notifier.activated.connect(self._swallow)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: end())
        signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)

    def _swallow(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._reader.recv(64)

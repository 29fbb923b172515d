"""One panel per user and configuration folder; a second start shows the first one's window."""

from __future__ import annotations

import getpass
import hashlib
from enum import Enum
from pathlib import Path

from PySide6.QtCore import QLockFile, QObject, Signal
from PySide6.QtNetwork import QLocalServer, QLocalSocket

PROTOCOL = "twinrig-panel/1"
TIMEOUT_MS = 3000
ELECTION_STALE_MS = 10_000


class Role(Enum):
    """FIRST: go on. SECOND: the first one shows its window now. UNANSWERED: it does not react."""

    FIRST = "first"
    SECOND = "second"
    UNANSWERED = "unanswered"


class SingleInstance(QObject):
    """Elects the first panel. ``show_requested`` fires when a later start asks for the window."""

    show_requested = Signal()

    def __init__(self, config: Path, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._config = config
        self.name = instance_name(config)
        self._server = QLocalServer(self)
        self._server.setSocketOptions(QLocalServer.SocketOption.UserAccessOption)
        self._server.newConnection.connect(self._serve)

    def elect(self) -> Role:
        """Become the first, or ask the first to show itself. Takes up to some seconds only when
        the first does not react."""
        self._config.mkdir(parents=True, exist_ok=True)
        # Two starts at the same instant must not both clear a dead socket away.
        lock = QLockFile(str(self._config / "panel.election"))
        lock.setStaleLockTime(ELECTION_STALE_MS)
        locked = lock.tryLock(TIMEOUT_MS)
        try:
            if self._server.listen(self.name):
                return Role.FIRST
            connected, answered = self._ask()
            if connected:
                return Role.SECOND if answered else Role.UNANSWERED
            # Nobody behind the name: left over from a panel that was killed.
            QLocalServer.removeServer(self.name)
            return Role.FIRST if self._server.listen(self.name) else Role.UNANSWERED
        finally:
            if locked:
                lock.unlock()

    def close(self) -> None:
        """Let the next start be the first."""
        self._server.close()

    def _ask(self) -> tuple[bool, bool]:
        socket = QLocalSocket()
        socket.connectToServer(self.name)
        if not socket.waitForConnected(TIMEOUT_MS):
            return False, False
        socket.write(f"{PROTOCOL} show\n".encode())
        socket.flush()
        answered = socket.waitForReadyRead(TIMEOUT_MS)
        reply = bytes(socket.readLine().data()).decode("utf-8", "replace")
        socket.disconnectFromServer()
        return True, answered and reply.strip().endswith("shown")

    def _serve(self) -> None:
        while (socket := self._server.nextPendingConnection()) is not None:
            socket.disconnected.connect(socket.deleteLater)
            socket.readyRead.connect(lambda s=socket: self._read(s))
            if socket.canReadLine():
                self._read(socket)

    def _read(self, socket: QLocalSocket) -> None:
        if not socket.canReadLine():
            if socket.bytesAvailable() > 256:
                socket.abort()
            return
        line = bytes(socket.readLine(256).data()).decode("utf-8", "replace").strip()
        # Any version may ask for the window: that request will never change its form.
        if line.startswith("twinrig-panel/") and line.endswith(" show"):
            socket.write(f"{PROTOCOL} shown\n".encode())
            socket.flush()
            self.show_requested.emit()
        socket.disconnectFromServer()


def instance_name(config: Path) -> str:
    """Name of the local socket: differs by user and by configuration folder."""
    key = f"{getpass.getuser()}\n{config.absolute()}"
    return "twinrig-" + hashlib.sha256(key.encode()).hexdigest()[:20]

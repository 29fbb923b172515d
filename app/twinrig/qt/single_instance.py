"""One panel per user and configuration folder; a second start shows the first one's window."""

from __future__ import annotations

import os
from enum import Enum
from pathlib import Path

from PySide6.QtCore import QByteArray, QCryptographicHash, QLockFile, QObject, QUrl, Signal
from PySide6.QtNetwork import QLocalServer, QLocalSocket

PROTOCOL = "twinrig-panel/1"
TIMEOUT_MS = 3000
ELECTION_STALE_MS = 10_000
LONGEST_REQUEST = 16_384


class Role(Enum):
    """FIRST: go on. SECOND: the first one shows its window now. UNANSWERED: it does not react."""

    FIRST = "first"
    SECOND = "second"
    UNANSWERED = "unanswered"


class SingleInstance(QObject):
    """Elects the first panel. ``show_requested`` fires when a later start asks for the window,
    ``replay_requested`` with the path of a recording when it wants one shown too."""

    show_requested = Signal()
    replay_requested = Signal(str)

    def __init__(self, config: Path, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._config = config
        self.name = instance_name(config)
        self._server = QLocalServer(self)
        self._server.setSocketOptions(QLocalServer.SocketOption.UserAccessOption)
        self._guests: list[QLocalSocket] = []
        self._server.newConnection.connect(self._serve)

    def elect(self, replay: Path | None = None) -> Role:
        """Become the first, or ask the first to show itself and ``replay``.

        Takes up to some seconds only when the first does not react.
        """
        self._config.mkdir(parents=True, exist_ok=True)
        # Two starts at the same instant must not both clear a dead socket away.
        lock = QLockFile(str(self._config / "panel.election"))
        lock.setStaleLockTime(ELECTION_STALE_MS)
        locked = lock.tryLock(TIMEOUT_MS)
        try:
            # Ask first: listening with access options replaces the socket of a live panel.
            connected, answered = self._ask(replay)
            if connected:
                return Role.SECOND if answered else Role.UNANSWERED
            # Nobody behind the name: unused, or left over from a panel that was killed.
            QLocalServer.removeServer(self.name)
            return Role.FIRST if self._server.listen(self.name) else Role.UNANSWERED
        finally:
            if locked:
                lock.unlock()

    def close(self) -> None:
        """Let the next start be the first."""
        self._server.close()

    def _ask(self, replay: Path | None) -> tuple[bool, bool]:
        socket = QLocalSocket()
        socket.connectToServer(self.name)
        if not socket.waitForConnected(TIMEOUT_MS):
            return False, False
        path = "" if replay is None else f" {_one_word(str(replay.absolute()))}"
        socket.write(f"{PROTOCOL}{path} show\n".encode())
        socket.flush()
        answered = socket.waitForReadyRead(TIMEOUT_MS)
        reply = bytes(socket.readLine().data()).decode("utf-8", "replace")
        socket.disconnectFromServer()
        return True, answered and reply.strip().endswith("shown")

    def _serve(self) -> None:
        while self._server.hasPendingConnections():
            socket = self._server.nextPendingConnection()
            self._guests.append(socket)
            socket.readyRead.connect(self._read_all)
            socket.disconnected.connect(self._dismiss)
        self._read_all()

    def _read_all(self) -> None:
        for socket in list(self._guests):
            if socket.canReadLine():
                self._answer(socket, bytes(socket.readLine(LONGEST_REQUEST).data()))
            elif socket.bytesAvailable() > LONGEST_REQUEST:
                socket.disconnectFromServer()

    def _answer(self, socket: QLocalSocket, raw: bytes) -> None:
        line = raw.decode("utf-8", "replace").strip()
        # Any version may ask for the window: that request will never change its form.
        if line.startswith("twinrig-panel/") and line.endswith(" show"):
            socket.write(f"{PROTOCOL} shown\n".encode())
            socket.flush()
            self.show_requested.emit()
            words = line.split()
            if len(words) == 3:
                self.replay_requested.emit(QUrl.fromPercentEncoding(QByteArray(words[1].encode())))
        socket.disconnectFromServer()

    def _dismiss(self) -> None:
        state = QLocalSocket.LocalSocketState.UnconnectedState
        for socket in [s for s in self._guests if s.state() == state]:
            self._guests.remove(socket)
            socket.deleteLater()


def _one_word(text: str) -> str:
    return bytes(QUrl.toPercentEncoding(text).data()).decode("ascii")


def instance_name(config: Path) -> str:
    """Name of the local socket: differs by user and by configuration folder."""
    user = os.environ.get("USERNAME", "") if os.name == "nt" else str(os.getuid())
    key = f"{user}\n{config.absolute()}"
    # Qt's own: importing hashlib would delay the window by a fiftieth.
    digest = QCryptographicHash.hash(key.encode(), QCryptographicHash.Algorithm.Sha256)
    return "twinrig-" + bytes(digest).hex()[:20]

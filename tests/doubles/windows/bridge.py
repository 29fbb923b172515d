"""The native half of ``stub.c``: runs the double for a Windows program that Wine started.

``bridge.py PORT``; the stub listens there. When the stub is ended, so is what runs for it.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path, PureWindowsPath

_PIECE = 60_000
_ENTRY = Path(__file__).parent / "entry.py"


class Link:
    """Messages to and from the stub: a letter, four bytes of length, the bytes."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))

    def send(self, kind: bytes, data: bytes = b"") -> None:
        for at in range(0, len(data) or 1, _PIECE):
            piece = data[at : at + _PIECE]
            self.socket.sendall(kind + len(piece).to_bytes(4, "little") + piece)

    def receive(self) -> tuple[bytes, bytes]:
        """Raises ConnectionError when the stub is gone."""
        head = self._exactly(5)
        return head[:1], self._exactly(int.from_bytes(head[1:], "little"))

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self.socket.recv(size - len(data))
            if not piece:
                raise ConnectionError
            data += piece
        return data


def main(port: int) -> int:
    """Always 0; the exit code goes to the stub."""
    link = Link(port)
    place = line = ""
    while True:
        kind, data = link.receive()
        if kind == b"P":
            place = data.decode()
        elif kind == b"L":
            line = data.decode()
        elif kind == b"G":
            break
    with tempfile.NamedTemporaryFile() as result:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_ENTRY), PureWindowsPath(place).stem.lower()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "TWINRIG_DOUBLE_CMDLINE": line, "TWINRIG_DOUBLE_RC": result.name},
            start_new_session=True,
        )
        try:
            _relay(link, process)
            process.wait()
            code = int(Path(result.name).read_text() or process.returncode & 0xFFFFFFFF)
            link.send(b"Q", code.to_bytes(4, "little"))
        except (ConnectionError, BrokenPipeError):
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return 0


def _relay(link: Link, process: subprocess.Popen[bytes]) -> None:
    """Until both outputs are over. Raises ConnectionError when the stub is gone."""
    assert process.stdin and process.stdout and process.stderr
    outputs = {process.stdout.fileno(): b"O", process.stderr.fileno(): b"E"}
    while outputs:
        ready, _, _ = select.select([link.socket, *outputs], [], [])
        for source in ready:
            if source is link.socket:
                _take(link, process)
                continue
            piece = os.read(source, _PIECE)
            if piece:
                link.send(outputs[source], piece)
            else:
                del outputs[source]


def _take(link: Link, process: subprocess.Popen[bytes]) -> None:
    assert process.stdin
    kind, data = link.receive()
    try:
        if kind == b"I":
            process.stdin.write(data)
            process.stdin.flush()
        elif kind == b"X":
            process.stdin.close()
    except (BrokenPipeError, ValueError):
        pass  # it does not read any more


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))

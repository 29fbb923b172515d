"""Linux' half of double_stub.c: runs a double of wsl.exe or schtasks.exe for a call under Wine.

``double_link.py PORT``; the frames are described in double_stub.c.
"""

from __future__ import annotations

import json
import os
import re
import selectors
import signal
import socket
import struct
import subprocess
import sys
from pathlib import Path

ENTRY = Path(__file__).resolve().parents[1] / "doubles" / "windows" / "entry.py"
# Wine gives a program of Linux its bare name, from which it cannot tell its own file.
PYTHON = os.environ.get("TWINRIG_DOUBLE_PYTHON", "/usr/bin/python3")
CHUNK = 60_000
_WINDOWS_PATH = re.compile(r"([A-Za-z]):[\\/](.*)", re.DOTALL)


class Link:
    """The connection to the Windows program; raises EOFError when that has ended."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))

    def frame(self) -> tuple[bytes, bytes]:
        """Kind and data of the next frame."""
        head = self._bytes(5)
        return head[:1], self._bytes(struct.unpack("<I", head[1:])[0])

    def send(self, kind: bytes, data: bytes) -> None:
        """Send, in pieces that the other side can hold."""
        for at in range(0, len(data), CHUNK):
            piece = data[at : at + CHUNK]
            self.socket.sendall(kind + struct.pack("<I", len(piece)) + piece)

    def _bytes(self, count: int) -> bytes:
        found = b""
        while len(found) < count:
            piece = self.socket.recv(count - len(found))
            if not piece:
                raise EOFError
            found += piece
        return found


def main(port: int) -> None:
    """One call from its start to its exit code."""
    link = Link(port)
    program, words, line = call_of(link)
    if program == "schtasks":
        words = [unix_path(word) for word in words]
    environ = {**os.environ, "TWINRIG_DOUBLE_CMDLINE": line}
    process = subprocess.Popen(
        [PYTHON, "-I", "-S", str(ENTRY), program, *words],
        env=environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd="/",
    )
    try:
        relay(link, process)
    except (EOFError, ConnectionError):
        process.send_signal(signal.SIGKILL)  # as abruptly as the Windows program ended
        process.wait()
        return
    link.send(b"Q", struct.pack("<I", exit_code(process)))


def call_of(link: Link) -> tuple[str, list[str], str]:
    """Program, arguments and raw command line."""
    program, words, line = "", [], ""
    while True:
        kind, data = link.frame()
        if kind == b"P":
            program = data.decode().lower()
        elif kind == b"A":
            words.append(data.decode())
        elif kind == b"L":
            line = data.decode()
        elif kind == b"G":
            return program, words, line


def relay(link: Link, process: subprocess.Popen[bytes]) -> None:
    """Input in, output out, until both outputs have ended."""
    assert process.stdin and process.stdout and process.stderr
    selector = selectors.DefaultSelector()
    selector.register(link.socket, selectors.EVENT_READ, b"")
    selector.register(process.stdout, selectors.EVENT_READ, b"O")
    selector.register(process.stderr, selectors.EVENT_READ, b"E")
    open_outputs = 2
    while open_outputs:
        for key, _ in selector.select():
            if not key.data:
                take_input(link, process)
            elif piece := os.read(key.fd, CHUNK):
                link.send(key.data, piece)
            else:
                selector.unregister(key.fileobj)
                open_outputs -= 1
    process.wait()


def take_input(link: Link, process: subprocess.Popen[bytes]) -> None:
    """One frame of input; a program that has closed its input hinders nothing."""
    assert process.stdin
    kind, data = link.frame()
    try:
        if kind == b"I":
            process.stdin.write(data)
            process.stdin.flush()
        elif kind == b"X":
            process.stdin.close()
    except (BrokenPipeError, ValueError):
        pass


def exit_code(process: subprocess.Popen[bytes]) -> int:
    """All 32 bits, which the double writes into its log; Linux passes eight."""
    log = Path(os.environ["TWINRIG_DOUBLE"]) / "calls.jsonl"
    for line in reversed(log.read_text("utf-8").splitlines()):
        entry = json.loads(line)
        if entry["pid"] == process.pid:
            return int(entry["rc"]) & 0xFFFFFFFF
    return process.returncode & 0xFFFFFFFF


def unix_path(word: str) -> str:
    """A file that a Windows program names, as Linux names it; other words stay."""
    found = _WINDOWS_PATH.fullmatch(word)
    if found is None:
        return word
    path = Path(os.environ["WINEPREFIX"]) / "dosdevices" / f"{found[1].lower()}:"
    for part in re.split(r"[\\/]", found[2]):
        names = {p.name.casefold(): p.name for p in path.iterdir()} if path.is_dir() else {}
        path = path / names.get(part.casefold(), part)
    return str(path)


if __name__ == "__main__":
    main(int(sys.argv[1]))

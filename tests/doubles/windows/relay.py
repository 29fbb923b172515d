"""The relay of localhost: opens the ports of a distribution's own network on 127.0.0.1 outside.

``relay.py HOME PID`` runs outside; PID is the distribution's init, which has a network of its
own. While the scenario ``relay_dead`` is played nothing is passed on, and what was is cut.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import selectors
import socket
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from store import Store

_LIBC = ctypes.CDLL(None, use_errno=True)
_NEW_NETWORK, _LISTEN, _UP = 0x40000000, "0A", 0x8914
_POLL_S = 0.05


def own_network() -> None:
    """A network in which only this process and its children are. Needs root."""
    import fcntl
    import struct

    if _LIBC.unshare(_NEW_NETWORK):
        raise OSError(ctypes.get_errno(), "unshare")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _UP, struct.pack("16sh", b"lo", 0x1))


class PortRelay:
    """Follows what listens inside."""

    def __init__(self, store: Store, pid: int) -> None:
        self.store, self.pid = store, pid
        self.inside = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
        self.outside = os.open("/proc/self/ns/net", os.O_RDONLY)
        self.doors: dict[int, socket.socket] = {}
        self.pairs: set[socket.socket] = set()
        self.waiting = selectors.DefaultSelector()

    def run(self) -> None:
        """Until the distribution is gone."""
        while Path(f"/proc/{self.pid}/ns/net").exists():
            dead = "relay_dead" in self.store.state()["flags"]
            self._open(set() if dead else self._ports())
            if dead:
                self._cut()
            for key, _ in self.waiting.select(_POLL_S):
                self._accept(key.fileobj, key.data)

    def _ports(self) -> set[int]:
        try:
            lines = Path(f"/proc/{self.pid}/net/tcp").read_text().splitlines()[1:]
        except OSError:
            return set()
        fields = [line.split() for line in lines]
        return {
            int(local.rpartition(":")[2], 16)
            for _, local, _, state, *_ in fields
            if state == _LISTEN and local.partition(":")[0] in ("0100007F", "00000000")
        }

    def _open(self, wanted: set[int]) -> None:
        for port in set(self.doors) - wanted:
            door = self.doors.pop(port)
            self.waiting.unregister(door)
            door.close()
        for port in wanted - set(self.doors):
            with contextlib.suppress(OSError):  # a program of Windows has it
                door = socket.create_server(("127.0.0.1", port))
                self.doors[port] = door
                self.waiting.register(door, selectors.EVENT_READ, port)

    def _accept(self, door: socket.socket, port: int) -> None:
        client, _ = door.accept()
        try:
            server = self._connect(port)
        except OSError:
            client.close()
            return
        self.pairs |= {client, server}
        for source, target in ((client, server), (server, client)):
            threading.Thread(target=self._pump, args=(source, target), daemon=True).start()

    def _connect(self, port: int) -> socket.socket:
        """A socket belongs to the network in which it was made."""
        _LIBC.setns(self.inside, _NEW_NETWORK)
        try:
            made = socket.socket()
        finally:
            _LIBC.setns(self.outside, _NEW_NETWORK)
        made.connect(("127.0.0.1", port))
        return made

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)

    def _cut(self) -> None:
        for one in self.pairs:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        self.pairs.clear()


if __name__ == "__main__":
    PortRelay(Store(sys.argv[1]), int(sys.argv[2])).run()

"""The Linux side of the double: one process for each running distribution, its ``init``.

It starts what is launched under a relay of its own, stops the distribution when no Windows client
is left for long enough, and everything in the distribution is below it. Processes that Linux itself
starts (services) keep nothing alive.
"""

from __future__ import annotations

import ctypes
import json
import os
import pty
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import contextlib

import linux_view
from relay import own_network
from store import Store, descendants

_LIBC = ctypes.CDLL(None, use_errno=True)
_SUBREAPER = 36
_UID = linux_view.UID
_PATH = (
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/games:/usr/local/games"
    ":/usr/lib/wsl/lib"
)


class Init:
    """The distribution ``name`` as long as it runs."""

    def __init__(self, store: Store, name: str) -> None:
        self.store, self.name = store, name
        self.state = store.state()
        self.distro = next(d for d in self.state["distros"] if d["name"] == name)
        self.folder = store.home / "distros" / name
        self.private = bool(self.distro["private"])
        self.relays: set[int] = set()
        self.services: list[subprocess.Popen[bytes]] = []

    def run(self) -> None:
        _LIBC.prctl(_SUBREAPER, 1, 0, 0, 0)
        self._make_users()
        if self.private:
            linux_view.make_private(self.store, self.folder, self.state)
            if self.distro["systemd"]:
                linux_view.apply_sysctl(Path("/proc/sys/kernel"), self.folder / "etc")
        if self.distro["network"]:
            self._relay_ports()
        time.sleep(float(self.distro.get("boot_s", self.state["boot_s"])) / self.state["clock"])
        door = socket.socket(socket.AF_UNIX)
        new = self.store.sockets / f".{self.name}.{os.getpid()}"
        door.bind(str(new))
        door.listen(32)
        new.rename(self.store.socket(self.name))
        if self.distro["systemd"]:
            for words in self.distro["services"]:
                self.services.append(subprocess.Popen(words, start_new_session=True))
        self._serve(door)
        self._stop()

    def _relay_ports(self) -> None:
        """A network of its own from here on; the relay stays in the one outside."""
        relay = str(Path(__file__).with_name("relay.py"))
        words = [sys.executable, "-I", "-S", relay, str(self.store.home), str(os.getpid())]
        outside = os.open("/proc/self/ns/net", os.O_RDONLY)
        own_network()
        if not os.fork():
            _LIBC.setns(outside, 0)
            os.execv(words[0], words)
        os.close(outside)

    def _serve(self, door: socket.socket) -> None:
        """Until nobody on Windows has needed it for ``idle_s``; negative: for ever."""
        needed_s = time.monotonic()
        idle_s = float((self.state["vm"] or self.state)["idle_s"]) / self.state["clock"]
        while idle_s < 0 or time.monotonic() - needed_s < idle_s:
            ready, _, _ = select.select([door], [], [], 0.02)
            if ready:
                link, _ = door.accept()
                self._accept(door, link)
            self._reap()
            if self.relays or (self.store.home / f"open-files-{self.name}").exists():
                needed_s = time.monotonic()

    def _accept(self, door: socket.socket, link: socket.socket) -> None:
        pid = os.fork()
        if pid:
            self.relays.add(pid)
            link.close()
            return
        code = 1
        try:
            door.close()
            Relay(self, link).run()
            code = 0
        finally:
            os._exit(code)

    def _reap(self) -> None:
        while True:
            try:
                pid, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            self.relays.discard(pid)

    def _stop(self) -> None:
        """Services get a moment to end, with systemd; everything else is gone at once."""
        self.store.socket(self.name).unlink(missing_ok=True)
        if self.distro["systemd"]:
            for service in self.services:
                service.terminate()
            until = time.monotonic() + 10.0 / self.state["clock"]
            while time.monotonic() < until and any(s.poll() is None for s in self.services):
                time.sleep(0.01)
        for _ in range(3):
            for pid in descendants(os.getpid()):
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            self._reap()
        self.store.stopped(self.name)

    def _make_users(self) -> None:
        own = os.geteuid() == 0 and self.private
        for name in ("root", self.distro["user"]):
            home = self.folder / "root" if name == "root" else self.folder / "home" / name
            home.mkdir(parents=True, exist_ok=True)
            if own and name != "root":
                os.chown(home, _UID, _UID)

    def home_of(self, user: str) -> str:
        if self.private:
            return "/root" if user == "root" else f"/home/{user}"
        return str(self.folder / "root" if user == "root" else self.folder / "home" / user)

    def environment(self, user: str, handed_over: dict[str, str]) -> dict[str, str]:
        windows = self.store.home / "mnt" / "c" / "Windows"
        flags = set(self.state["flags"])
        return {
            "HOSTTYPE": "x86_64",
            "LANG": "ja_JP.UTF-8" if self.state["language"] == "ja" else "en_US.UTF-8",
            "PATH": _PATH
            + ("" if "no_windows_path" in flags else f":{windows}:{windows}/System32"),
            "TERM": "xterm-256color",
            "NAME": "PC",
            "WSL_DISTRO_NAME": self.name,
            "HOME": self.home_of(user),
            "USER": user,
            "LOGNAME": user,
            "SHELL": self.distro["shell"],
            "WSLENV": "",
            **({} if "no_interop" in flags else {"WSL_INTEROP": "/run/WSL/8_interop"}),
            **handed_over,
        }


class Relay:
    """One launch: a child on a terminal of its own, and the connection to its ``wsl.exe``."""

    def __init__(self, init: Init, link: socket.socket) -> None:
        self.init, self.link = init, link

    def run(self) -> None:
        _LIBC.prctl(_SUBREAPER, 1, 0, 0, 0)
        size, self.fds, _, _ = socket.recv_fds(self.link, 4, 3)
        if len(size) < 4 or len(self.fds) < 3:
            return
        wanted, data = int.from_bytes(size, "big"), b""
        while len(data) < wanted:
            chunk = self.link.recv(wanted - len(data))
            if not chunk:
                return
            data += chunk
        request = json.loads(data)
        pid, master = pty.fork()
        if pid == 0:
            self._child(request)
        for fd in self.fds:
            os.close(fd)
        self._watch(pid, master)

    def _watch(self, pid: int, master: int) -> None:
        watched = os.pidfd_open(pid)
        poll = select.poll()
        for fd in (watched, self.link.fileno(), master):
            poll.register(fd, select.POLLIN)
        while True:
            ready = {fd for fd, _ in poll.poll()}
            if watched in ready:
                _, status = os.waitpid(pid, 0)
                break
            if self.link.fileno() in ready and not self.link.recv(1):
                os.close(master)  # wsl.exe is gone: the kernel hangs up
                os._exit(0)
            if master in ready and not _drained(master):
                poll.unregister(master)
        code = status >> 8 if os.WIFEXITED(status) else status & 0xFF
        with contextlib.suppress(OSError):
            self.link.sendall(json.dumps({"exit": code}).encode())
        self.link.close()
        while True:  # it stays, and counts, as long as anything it started lives
            try:
                os.waitpid(-1, 0)
            except ChildProcessError:
                return

    def _child(self, request: dict[str, Any]) -> None:
        words, init = request["words"], self.init
        try:
            for number, fd in enumerate(self.fds):
                os.dup2(fd, number)
            os.closerange(3, 256)
            for number in (signal.SIGPIPE, signal.SIGXFSZ):
                signal.signal(number, signal.SIG_DFL)
            if init.private and os.geteuid() == 0 and request["user"] != "root":
                os.setgroups([])
                os.setgid(_UID)
                os.setuid(_UID)
            environment = init.environment(request["user"], request["env"])
            _enter(request["folder"], environment["HOME"], str(init.store.home / "mnt" / "c"))
            if words[0] in init.distro["missing"]:
                raise FileNotFoundError(2, "No such file or directory")
            os.execvpe(words[0], [request["argv0"], *words[1:]], environment)
        except OSError as error:
            os.write(
                2,
                f"<3>WSL ({os.getpid()} - Relay) ERROR: CreateProcessCommon:800: "
                f"execvpe({words[0]}) failed: {error.strerror}\n".encode(),
            )
        finally:
            os._exit(1)


def _enter(folder: str | None, home: str, windows: str) -> None:
    """The working folder; one that is missing is only logged, the command still runs in /."""
    wanted = windows if folder is None else folder
    if wanted.startswith("~"):
        wanted = home + wanted[1:]
    try:
        os.chdir(wanted)
    except OSError as error:
        line = f"<3>WSL (8) ERROR: CreateProcessCommon:725: chdir({wanted}) failed {error.errno}"
        os.write(2, f"{line}\n".encode())
        os.chdir("/")


def _drained(master: int) -> bool:
    try:
        return bool(os.read(master, 65536))
    except OSError:
        return False


if __name__ == "__main__":
    Init(Store(sys.argv[1]), sys.argv[2]).run()

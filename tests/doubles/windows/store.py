"""The state folder of the doubles: distributions, scenarios, what was called, who runs.

Everything a test sets and reads lies in ``TWINRIG_DOUBLE``; ``state.json`` is changed under a lock.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

if sys.platform != "win32":  # the contract is imported there, the double never runs
    import fcntl

VARIABLE = "TWINRIG_DOUBLE"


class Store:
    """One Windows computer with WSL and a task scheduler."""

    def __init__(self, home: Path | str) -> None:
        self.home = Path(home)
        digest = hashlib.sha256(str(self.home).encode()).hexdigest()[:16]
        self.sockets = Path(tempfile.gettempdir()) / f"twinrig-double-{digest}"

    @classmethod
    def create(cls, home: Path, **settings: Any) -> Store:
        """A computer with one distribution, Ubuntu, that is stopped."""
        store = cls(home)
        home.mkdir(parents=True)
        store.sockets.mkdir(mode=0o700, exist_ok=True)
        state = {
            "distros": [],
            "flags": [],
            "clock": 50.0,
            "language": "en",
            "oem": "cp437",
            "idle_s": 15.0,
            "vm_idle_s": 60.0,
            "boot_s": 0.0,
            "vm_boot_s": 0.0,
            "vm": None,
            "kernel": "6.6",
            "gpu": "",
            "gpus": [],
            "driver": {
                "inside": "591.44",
                "outside": "591.44",
                "library": "590.44.01",
                "cuda": "13.1",
            },
            "answers": {},
            "user": "me",
            "caller": "limited",
            **settings,
        }
        store._write(state)
        windows = home / "mnt" / "c" / "Windows"
        windows.mkdir(parents=True)
        for name in ("python3", "pip", "nvcc", "git"):  # found first only on Windows' own PATH
            (windows / name).write_text("#!/bin/sh\necho WINDOWS BINARY; exit 1\n")
            (windows / name).chmod(0o755)
        store.add("Ubuntu", default=True)
        return store

    def add(self, name: str, **settings: Any) -> Path:
        """Install a distribution; returns its folder, with ``home`` and ``root`` in it."""
        folder = self.home / "distros" / name
        (folder / "home").mkdir(parents=True)
        (folder / "root").mkdir(mode=0o700)
        with self.changing() as state:
            state["distros"].append(
                {
                    "name": name,
                    "guid": "{{{:08x}-0000-4000-8000-000000000000}}".format(len(state["distros"])),
                    "version": 2,
                    "state": "Stopped",
                    "default": False,
                    "user": "me",
                    "shell": "/bin/bash",
                    "systemd": True,
                    "services": [],
                    "private": False,
                    "network": False,
                    "ptrace_scope": "1",
                    "missing": [],
                    "init": None,
                    **settings,
                }
            )
        return folder

    def state(self) -> dict[str, Any]:
        """As it is now."""
        return dict(json.loads((self.home / "state.json").read_text("utf-8")))

    @contextmanager
    def changing(self) -> Iterator[dict[str, Any]]:
        """The state, to be changed; nobody else changes it meanwhile."""
        with (self.home / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            path = self.home / "state.json"
            state = json.loads(path.read_text("utf-8"))
            yield state
            self._write(state)

    def _write(self, state: dict[str, Any]) -> None:
        new = self.home / f"state.{os.getpid()}"
        new.write_text(json.dumps(state, ensure_ascii=False, indent=1), "utf-8")
        new.replace(self.home / "state.json")

    def set(self, **settings: Any) -> None:
        """Change settings of the computer."""
        with self.changing() as state:
            state.update(settings)

    def set_distro(self, name: str, **settings: Any) -> None:
        """Change settings of one distribution."""
        with self.changing() as state:
            for distro in state["distros"]:
                if distro["name"] == name:
                    distro.update(settings)

    def uninstall(self, name: str) -> None:
        """``wsl --unregister``: it and its files are gone."""
        self.stop(name)
        with self.changing() as state:
            state["distros"] = [d for d in state["distros"] if d["name"] != name]
        shutil.rmtree(self.home / "distros" / name, ignore_errors=True)

    def remove_distros(self) -> None:
        """None is installed any more."""
        self.set(distros=[])

    def flag(self, *names: str) -> None:
        """Scenarios to play from now on; none = a healthy computer."""
        self.set(flags=list(names))

    def distro(self, name: str) -> dict[str, Any] | None:
        """By name without case, or by GUID."""
        for distro in self.state()["distros"]:
            if name.casefold() in (distro["name"].casefold(), distro["guid"].casefold()):
                return dict(distro)
        return None

    def socket(self, name: str) -> Path:
        """Where the distribution's init listens."""
        return self.sockets / name

    def log(self, entry: dict[str, Any]) -> None:
        """One line of ``calls.jsonl``."""
        with (self.home / "calls.jsonl").open("a", encoding="utf-8") as log:
            fcntl.flock(log, fcntl.LOCK_EX)
            log.write(json.dumps(entry, ensure_ascii=False) + "\n")

    def calls(self, program: str = "wsl") -> list[dict[str, Any]]:
        """What was called, in the order in which it ended."""
        path = self.home / "calls.jsonl"
        lines = path.read_text("utf-8").splitlines() if path.exists() else []
        return [entry for entry in map(json.loads, lines) if entry["program"] == program]

    @contextmanager
    def registered(self, kind: str) -> Iterator[None]:
        """This process belongs to the user's session and ends with it."""
        folder = self.home / "session"
        folder.mkdir(exist_ok=True)
        mine = folder / str(os.getpid())
        mine.write_text(kind)
        try:
            yield
        finally:
            mine.unlink(missing_ok=True)

    def end_session(self) -> None:
        """Sign-out: every process of the session dies without notice, then WSL stops."""
        for entry in list((self.home / "session").glob("*")):
            _kill(int(entry.name))
            entry.unlink(missing_ok=True)
        self.stop_all()

    def stop_all(self) -> None:
        """The virtual machine is gone at once, as by --shutdown, --update or a crash."""
        for distro in self.state()["distros"]:
            self.stop(distro["name"])
        self.set(vm=None)

    def vm_runs(self) -> bool:
        """Without a distribution that runs it stays for ``vm_idle_s``; negative: for ever."""
        return _vm_runs(self.state())

    def boot(self, state: dict[str, Any]) -> bool:
        """A virtual machine for a distribution that starts, in a state that is being changed. Only
        a new one (True) reads the settings: what is changed later counts from the next one on."""
        if _vm_runs(state):
            return False
        state["vm"] = {
            "idle_s": state["idle_s"],
            "vm_idle_s": state["vm_idle_s"],
            "number": (state["vm"] or {}).get("number", 0) + 1,
            "empty_since_s": None,
        }
        return True

    def stopped(self, name: str) -> None:
        """A distribution has ended."""
        with self.changing() as state:
            for distro in state["distros"]:
                if distro["name"] == name:
                    distro.update(state="Stopped", init=None)
            if state["vm"] and not any(d["state"] == "Running" for d in state["distros"]):
                state["vm"]["empty_since_s"] = time.monotonic()

    def stop(self, name: str) -> None:
        """One distribution is gone at once; calls into it lose their connection."""
        distro = self.distro(name)
        pid = distro["init"] if distro else None
        if pid and _is_init(pid):
            kill_tree(pid)
        self.socket(name).unlink(missing_ok=True)
        if distro:
            self.stopped(distro["name"])

    def close(self) -> None:
        """Leave nothing behind."""
        for entry in list((self.home / "session").glob("*")):
            _kill(int(entry.name))
        self.stop_all()
        shutil.rmtree(self.sockets, ignore_errors=True)


def _vm_runs(state: dict[str, Any]) -> bool:
    vm = state["vm"]
    if vm is None or any(d["state"] == "Running" for d in state["distros"]):
        return vm is not None
    empty_since_s, idle_s = vm["empty_since_s"], vm["vm_idle_s"] / state["clock"]
    return empty_since_s is None or idle_s < 0 or time.monotonic() - empty_since_s < idle_s


def children() -> dict[int, list[int]]:
    """Live processes by parent."""
    found: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if fields[0] not in "ZX":
                found.setdefault(int(fields[1]), []).append(int(folder.name))
    return found


def descendants(pid: int) -> list[int]:
    """All below ``pid``, without it."""
    table, found, waiting = children(), [], [pid]
    while waiting:
        for child in table.get(waiting.pop(), []):
            found.append(child)
            waiting.append(child)
    return found


def kill_tree(pid: int) -> None:
    """An init with everything in it: the relays first, as a lost machine answers nobody."""
    for _ in range(3):
        for child in descendants(pid):
            _kill(child)
        if not descendants(pid):
            break
        time.sleep(0.01)
    _kill(pid)
    until = time.monotonic() + 5
    while _is_init(pid) and time.monotonic() < until:
        time.sleep(0.005)


def _is_init(pid: int) -> bool:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes()
        return b"init.py" in words
    except OSError:
        return False


def _kill(pid: int) -> None:
    with suppress(OSError):
        os.kill(pid, signal.SIGKILL)

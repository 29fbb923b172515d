"""Planted keys through a whole journey: found only where they belong.

Looked at: what every command prints, every file below the home, and the command line and
environment of every process of the journey while it lives.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fixtures.demo_rig import Rig
from integration.test_tabby_journey import Tabby

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
    pytest.mark.slow,
    pytest.mark.timeout(400),
]

API = "planted-api-7Hq2Zr9Lw4"
ADMIN = "planted-admin-5Kd8Vn3Ts6"
HUB = "hf_plantedHub1Xy6Bm0Gc2"
ALL = (API, ADMIN, HUB)


class Watcher(threading.Thread):
    """Looks at all processes again and again; a key in one is kept with where it was."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.found: set[tuple[str, str, str]] = set()
        self.looks = 0
        self._done = threading.Event()

    def run(self) -> None:
        while not self._done.wait(0.1):
            for folder in Path("/proc").glob("[0-9]*"):
                self._look(folder)
            self.looks += 1

    def _look(self, folder: Path) -> None:
        for view in ("cmdline", "environ"):
            try:
                shown = (folder / view).read_bytes()
                words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            for key in ALL:
                if key.encode() in shown:
                    self.found.add((key, view, words[:200]))

    def end(self) -> set[tuple[str, str, str]]:
        self._done.set()
        self.join()
        assert self.looks > 5
        return self.found


@contextmanager
def watched() -> Iterator[Watcher]:
    watcher = Watcher()
    watcher.start()
    try:
        yield watcher
    finally:
        watcher._done.set()


def holders(folder: Path) -> dict[str, set[str]]:
    """File names below ``folder`` that hold a key, with the keys."""
    found: dict[str, set[str]] = {}
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            data = path.read_bytes()
            keys = {key for key in ALL if key.encode() in data or key.encode("utf-16-le") in data}
            if keys:
                found[str(path.relative_to(folder))] = keys
    return found


def end_all(folder: Path) -> None:
    """Whatever a test that failed has left running there, the supervisor first."""
    for _ in range(2):
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                words = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
                if str(folder).encode() in words and int(entry.name) != os.getpid():
                    os.kill(int(entry.name), signal.SIGKILL)


class KeyRig(Rig):
    """The command line with a key typed into it, and all that it ever printed."""

    def __init__(self, home: Path, target: str) -> None:
        super().__init__(home)
        self.target = target
        self.printed = ""

    def say(self, *words: str, stdin: str = "", codes: tuple[int, ...] = (0,)) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "twinrig", "--target", self.target, *words],
            env=self.environ,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=120,
        )
        self.printed += done.stdout + done.stderr
        assert done.returncode in codes, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout


def use_everything(rig: KeyRig, profile: str) -> None:
    """What a user may look at, copy and send to others while the server runs."""
    out = rig.home / "shared"
    out.mkdir()
    rig.say("doctor", "--profile", profile, "--json", codes=(0, 1, 3))
    rig.say("status", "--json", codes=(0, 1))
    rig.say("watch", "--seconds", "2", "--record", str(out / "recording.jsonl"))
    rig.say("models", "list", "--json", codes=(0, 1, 3))
    rig.say("fix", codes=(0, 1, 3))
    rig.say("diagnose", "--profile", profile, "--report", str(out / "report.txt"), codes=(0, 1, 3))
    rig.say("profiles", "show", profile, "--json")
    rig.say("profiles", "export", profile, str(out / "profile.yaml"))
    rig.say("undo", "--json", codes=(0, 1))
    assert (out / "report.txt").stat().st_size > 500


def test_the_demo_rigs_key(tmp_path: Path) -> None:
    rig = KeyRig(tmp_path / "home", "demo")
    rig.home.mkdir()
    rig.new_profile()
    try:
        with watched() as watcher:
            rig.say("profiles", "key", "demo", "--in-file", stdin=f"{API}\n")
            rig.say("start")
            assert json.loads(rig.say("chat", "Hello", "--json"))["reply"]
            use_everything(rig, "demo")
            rig.say("stop")
            found = watcher.end()
        places = holders(rig.home)
        assert places == {"config/secrets.json": {API}}
        assert (rig.home / "config/secrets.json").stat().st_mode & 0o777 == 0o600
        assert {view for _, view, _ in found} <= {"environ"}, found
        assert all("demo-server" in words for _, _, words in found), found
        assert not any(key in rig.printed for key in ALL)
    finally:
        end_all(rig.home)


def test_tabbyapis_own_keys_and_a_hub_token(tmp_path: Path) -> None:
    rig = KeyRig(tmp_path / "twinrig", "local")
    rig.home.mkdir()
    rig.environ["HOME"] = str(tmp_path)
    tabby = Tabby(tmp_path)
    tabby.profile()
    tokens = tabby.checkout / "api_tokens.yml"
    tokens.write_text(f"api_key: {API}\nadmin_key: {ADMIN}\n")
    tokens.chmod(0o600)
    secrets = rig.home / "config" / "secrets.json"
    secrets.write_text(f'{{"hf-token": "{HUB}"}}')
    secrets.chmod(0o600)
    try:
        with watched() as watcher:
            rig.say("start", "main")
            use_everything(rig, "main")
            rig.say("chat", "Hello", codes=(0, 1, 3))
            rig.say("free", codes=(0, 1, 3))
            rig.say("stop", "main")
            found = watcher.end()
        assert found == set()
        assert holders(tmp_path) == {
            "my tabby/api_tokens.yml": {API, ADMIN},
            "twinrig/config/secrets.json": {HUB},
        }
        assert not any(key in rig.printed for key in ALL)
    finally:
        end_all(tmp_path)

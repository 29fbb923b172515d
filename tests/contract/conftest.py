"""The machine that the contract is held against: the double here, a real Windows by a variable.

``TWINRIG_CONTRACT_WSL``: full path of the real ``wsl.exe``; ``TWINRIG_CONTRACT_DISTRO``: a
distribution that may be stopped and started (the default one is not touched unless named).
"""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from doubles.windows.store import Store
from fixtures.windows_computer import DOUBLE, TIMES, Computer, windows_computer
from twinrig.hosts.wsl.call import wsl_environment
from twinrig.hosts.wsl.distros import WslCatalogue
from twinrig.hosts.wsl.host import WslHost
from twinrig.hosts.wsl.times import WslTimes

REAL = os.environ.get("TWINRIG_CONTRACT_WSL", "")
REAL_DISTRO = os.environ.get("TWINRIG_CONTRACT_DISTRO", "")


@dataclass(frozen=True)
class Ended:
    """``code`` has all 32 bits."""

    code: int
    out: bytes
    err: bytes


class Machine:
    """What the contract may use of either machine. ``second_s`` is how long its seconds last."""

    def __init__(
        self, executable: str, distro: str, environ: Mapping[str, str], store: Store | None
    ) -> None:
        self.executable, self.distro, self.environ = executable, distro, dict(environ)
        self._store = store
        self.real = store is None
        self.second_s = 1.0 if store is None else 1.0 / store.state()["clock"]
        self.times = WslTimes() if store is None else TIMES

    @property
    def store(self) -> Store:
        """Of the double; scenarios cannot be played on a real machine."""
        if self._store is None:
            pytest.skip("a real Windows does not fail on request")
        return self._store

    def popen(self, *words: str, **settings: Any) -> subprocess.Popen[bytes]:
        settings.setdefault("env", wsl_environment(self.environ))
        return subprocess.Popen(
            [self.executable, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
            start_new_session=sys.platform != "win32",
            **settings,
        )

    def run(self, *words: str, stdin: bytes = b"", **settings: Any) -> Ended:
        with self.popen(*words, **settings) as process:
            out, err = process.communicate(stdin, timeout=90)
        return Ended(self.code(process), out, err)

    def raw(self, line: str, **changes: str) -> Ended:
        """``line`` is what stands behind ``wsl.exe -d NAME``, as Windows hands it over."""
        env = {**wsl_environment(self.environ), **changes}
        whole = f"-d {self.distro} {line}"
        if not self.real:
            return self.run(env={**env, "TWINRIG_DOUBLE_CMDLINE": f"wsl.exe {whole}"})
        done = subprocess.run(
            f'"{self.executable}" {whole}', env=env, capture_output=True, timeout=90, check=False
        )
        return Ended(done.returncode & 0xFFFFFFFF, done.stdout, done.stderr)

    def launch(self, *words: str, stdin: bytes = b"", root: bool = False) -> Ended:
        user = ("-u", "root") if root else ()
        return self.run("-d", self.distro, *user, "--cd", "/", "--exec", *words, stdin=stdin)

    def sh(self, text: str) -> Ended:
        return self.launch("/bin/sh", "-c", text)

    def code(self, process: subprocess.Popen[bytes]) -> int:
        if self._store is None:
            return process.returncode & 0xFFFFFFFF
        if process.returncode < 0:
            return process.returncode & 0xFFFFFFFF
        return next(call["rc"] for call in self._store.calls() if call["pid"] == process.pid)

    @property
    def distros(self) -> WslCatalogue:
        return WslCatalogue(self.executable, self.environ, times=self.times)

    def host(self, **settings: Any) -> WslHost:
        return WslHost(self.distros, self.environ, self.distro, times=self.times, **settings)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """The real one when it is named, else a fresh double."""
    if REAL:
        if not REAL_DISTRO:
            pytest.fail("name a distribution in TWINRIG_CONTRACT_DISTRO")
        yield Machine(REAL, REAL_DISTRO, os.environ, None)
        return
    with windows_computer(tmp_path, clock=5.0) as computer:
        yield Machine(computer.executable, "Ubuntu", computer.environ, computer.store)


@pytest.fixture
def computer(tmp_path: Path) -> Iterator[Computer]:
    """The double only, for scenarios."""
    if REAL:
        pytest.skip("a real Windows does not fail on request")
    with windows_computer(tmp_path, clock=1.0) as made:
        yield made


@pytest.fixture
def marker() -> str:
    """A file of its own in the distribution's ``/tmp``."""
    return f"/tmp/twinrig-contract-{uuid.uuid4().hex}"


assert (DOUBLE / "wsl.exe").is_file()

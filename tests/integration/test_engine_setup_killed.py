"""The whole program is killed at each step of a set-up: what was in use still starts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fixtures.index_double import IndexDouble
from fixtures.setup_rig import publish_vllm
from twinrig.services.setup_script import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
SMALL = "small-1.0-py3-none-any.whl"
TAKES_S = 300


@pytest.fixture
def index() -> Iterator[IndexDouble]:
    with IndexDouble().serving() as double:
        publish_vllm(double)
        yield double


class Machine:
    """A home of its own with an old version in use."""

    def __init__(self, folder: Path, index: IndexDouble) -> None:
        self.home = folder / "home"
        self.root = self.home / ROOT / "vllm"
        program = self.root / "env-old" / "venv" / "bin" / "vllm"
        program.parent.mkdir(parents=True)
        program.write_text("#!/bin/sh\necho the old one\n")
        program.chmod(0o755)
        (self.root / "current").symlink_to("env-old")
        self.environ = {
            **os.environ,
            "HOME": str(self.home),
            "TWINRIG_HOME": str(folder / "twinrig"),
            "TWINRIG_WHEEL_INDEX": index.url,
            "PYTHONUNBUFFERED": "1",
        }

    def command(self) -> list[str]:
        words = ("--target", "local", "setup", "vllm", "--cuda", "12", "--yes", "--language", "en")
        return [sys.executable, "-m", "twinrig", *words]

    def setup(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command(),
            env=self.environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def says(self) -> str:
        program = self.root / "current" / "venv" / "bin" / "vllm"
        done = subprocess.run(
            [str(program)], capture_output=True, text=True, timeout=60, check=True
        )
        return done.stdout.strip()

    def until_free(self) -> None:
        """Orphans of the killed program hold the lock for as long as they live."""
        deadline = time.monotonic() + TAKES_S
        while subprocess.run(
            ["flock", "-n", str(self.root / ".lock"), "true"], check=False, timeout=60
        ).returncode:
            assert time.monotonic() < deadline
            time.sleep(0.2)


@pytest.mark.parametrize(
    "at",
    [
        "Making an environment of its own",
        "Collecting small",
        "Installing",
        "Proving that its compiled part loads",
        "the engine loads",
        "Putting it into use",
    ],
)
def test_killed_at(tmp_path: Path, index: IndexDouble, at: str) -> None:
    machine = Machine(tmp_path, index)
    if at == "Collecting small":
        index.held.add(SMALL)
    process = machine.setup()
    assert process.stdout is not None
    said = []
    for line in process.stdout:
        said.append(line)
        if at in line:
            break
    else:
        raise AssertionError("".join(said))
    os.kill(process.pid, signal.SIGKILL)
    process.wait(60)
    process.stdout.close()
    index.gate.set()
    machine.until_free()
    assert machine.says() in ("the old one", "the engine starts"), "never nothing, never a half"
    if at != "Putting it into use":
        assert machine.says() == "the old one"

    again = subprocess.run(
        machine.command(),
        env=machine.environ,
        capture_output=True,
        text=True,
        timeout=TAKES_S,
        check=False,
    )
    assert again.returncode == 0, again.stdout + again.stderr
    assert machine.says() == "the engine starts"
    names = {p.name for p in machine.root.iterdir() if p.name.startswith("env-")}
    assert "env-old" in names or at == "Putting it into use"
    assert not list(machine.root.glob("*/.partial"))

"""What start.py adds to a second start, over starting the environment's own Python."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROUNDS = 15
BUDGET_S = 0.3

pytestmark = pytest.mark.bench


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout that is set up, with the real pins to compare and a twinrig that does nothing."""
    root = tmp_path_factory.mktemp("second")
    shutil.copytree(
        ROOT / "installer", root / "installer", ignore=shutil.ignore_patterns("__pycache__")
    )
    package = root / "app" / "twinrig"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "__main__.py").write_text("")
    pins = root / "installer" / "requirements" / "linux.txt"
    whole = pins.read_bytes()
    pins.write_bytes(b"# none\n")
    start(root)
    pins.write_bytes(whole)
    stamp(root)
    return root


def stamp(root: Path) -> None:
    """Record the real pins as installed: what is measured is comparing them."""
    code = (
        "import sys; sys.path.insert(0, 'installer')\n"
        "from bootstrap import stamp; from bootstrap.places import Places\n"
        "stamp.write(Places(sys.argv[1]), ('runtime',), sys.version_info[:2])\n"
    )
    subprocess.run([sys.executable, "-c", code, str(root)], cwd=root, check=True)


def start(root: Path) -> float:
    command = [sys.executable, str(root / "installer" / "start.py"), "status"]
    return timed(command, root)


def timed(command: list[str], root: Path) -> float:
    environ = {k: v for k, v in os.environ.items() if k not in ("DISPLAY", "WAYLAND_DISPLAY")}
    began = time.perf_counter()
    done = subprocess.run(command, cwd=root, env=environ, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    return time.perf_counter() - began


def test_a_second_start_adds_little(checkout: Path) -> None:
    python = str(checkout / ".venv" / "bin" / "python")
    with_start, without = [], []
    for _ in range(ROUNDS):
        without.append(timed([python, "-m", "twinrig", "status"], checkout))
        with_start.append(start(checkout))
    added_s = statistics.median(with_start) - statistics.median(without)
    print(
        f"\nsecond start: {statistics.median(with_start) * 1000:.0f} ms,"
        f" of that by start.py {added_s * 1000:.0f} ms (budget {BUDGET_S * 1000:.0f} ms);"
        f" {statistics.median(with_start) / statistics.median(without):.1f}x without it"
    )
    assert added_s <= BUDGET_S

"""``start.py`` as a newcomer runs it, in a small checkout that needs no package.

Real processes, a real virtual environment, real locks and kills; only the pins are empty.
"""

from __future__ import annotations

import ast
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SHOWS_ARGUMENTS = "import sys\nprint('twinrig got', sys.argv[1:], sys.prefix)\nsys.exit(7)\n"


def make_checkout(root: Path) -> Path:
    """A checkout with the real installer and a twinrig that shows its arguments."""
    shutil.copytree(
        ROOT / "installer", root / "installer", ignore=shutil.ignore_patterns("__pycache__")
    )
    for name in ("linux.txt", "dev-linux.txt"):
        (root / "installer" / "requirements" / name).write_text("# no pins\n")
    package = root / "app" / "twinrig"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "__main__.py").write_text(SHOWS_ARGUMENTS)
    return root


def environ(**extra: str) -> dict[str, str]:
    """A clean environment without a display."""
    kept = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME", "LANG")}
    return {**kept, **extra}


def start(
    root: Path, *arguments: str, python: str = sys.executable, **extra: str
) -> subprocess.CompletedProcess[str]:
    """Run start.py to its end."""
    return subprocess.run(
        [python, str(root / "installer" / "start.py"), *arguments],
        capture_output=True,
        encoding="utf-8",
        env=environ(**extra),
        stdin=subprocess.DEVNULL,
        timeout=90,
        check=False,
    )


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout that was started once; its folder has a space and Japanese characters."""
    root = make_checkout(tmp_path_factory.mktemp("start") / "私の 箱")
    first = start(root, "doctor", "--json")
    assert "twinrig got ['doctor', '--json']" in first.stdout, first.stderr
    assert first.returncode == 7
    assert "[100%] Ready" in first.stderr
    return root


def test_a_second_start_says_nothing_and_passes_the_exit_code_on(ready: Path) -> None:
    second = start(ready, "status")
    assert second.stdout == f"twinrig got ['status'] {ready / '.venv'}\n"
    assert second.stderr == ""
    assert second.returncode == 7


def test_the_environment_has_a_twinrig_command(ready: Path) -> None:
    command = ready / ".venv" / "bin" / "twinrig"
    done = subprocess.run([command, "a b"], capture_output=True, encoding="utf-8", check=False)
    assert "twinrig got ['a b']" in done.stdout
    assert done.returncode == 7


def test_variables_of_another_python_do_not_reach_twinrig(ready: Path, tmp_path: Path) -> None:
    (tmp_path / "twinrig").mkdir()
    (tmp_path / "twinrig" / "__main__.py").write_text("print('the wrong one')")
    assert "twinrig got" in start(ready, PYTHONPATH=str(tmp_path)).stdout


def test_a_moved_checkout_still_starts(ready: Path, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    shutil.copytree(ready, moved, symlinks=True)
    done = start(moved, "status")
    assert done.stdout == f"twinrig got ['status'] {moved / '.venv'}\n"
    assert done.stderr == ""


def test_a_python_that_is_gone_is_replaced(ready: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(ready, broken, symlinks=True)
    python = broken / ".venv" / "bin" / "python"
    python.unlink()
    python.symlink_to("/nowhere/python3.11")
    done = start(broken)
    assert "twinrig got []" in done.stdout, done.stderr
    assert "Making the environment" in done.stderr


def test_a_killed_first_start_is_repaired_by_the_next(tmp_path: Path) -> None:
    root = make_checkout(tmp_path / "killed")
    child = subprocess.Popen(
        [sys.executable, str(root / "installer" / "start.py")],
        env=environ(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    until(lambda: (root / ".venv" / "pyvenv.cfg").exists(), child)
    os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    assert not (root / ".venv" / "twinrig-setup.json").exists()
    done = start(root)
    assert "twinrig got []" in done.stdout, done.stderr


def test_two_starts_at_once_make_one_environment(tmp_path: Path) -> None:
    root = make_checkout(tmp_path / "twice")
    command = [sys.executable, str(root / "installer" / "start.py")]
    first, second = (
        subprocess.Popen(
            command,
            env=environ(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )
        for _ in range(2)
    )
    results = [child.communicate(timeout=90) for child in (first, second)]
    assert all("twinrig got []" in out for out, _ in results), results
    made = [err for _, err in results if "Making the environment" in err]
    waited = [err for _, err in results if "Another start sets Twinrig up" in err]
    assert (len(made), len(waited)) == (1, 1), results


def test_no_network_is_told_in_two_lines(ready: Path, tmp_path: Path) -> None:
    root = tmp_path / "offline"
    shutil.copytree(ready, root, symlinks=True)
    pins = root / "installer" / "requirements" / "linux.txt"
    pins.write_text(f"six==1.16.0 --hash=sha256:{'0' * 64}\n")
    done = start(
        root, PIP_CONFIG_FILE=os.devnull, PIP_INDEX_URL="http://127.0.0.1:9/simple", PIP_RETRIES="1"
    )
    told = done.stderr.splitlines()[-2:]
    assert done.returncode == 1
    assert told[0].startswith("The package index cannot be reached")
    assert "setup.log" in told[1]
    assert "Traceback" not in done.stderr
    assert "Connection refused" in (root / ".venv" / "setup.log").read_text()


def test_a_folder_that_cannot_be_written_is_told_in_two_lines(tmp_path: Path) -> None:
    root = make_checkout(tmp_path / "plain-file-in-the-way")
    (root / "installer" / "start.py").rename(root / "installer" / "start_real.py")
    (root / "installer" / "start.py").write_text(
        "import os, sys\nsys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))\n"
        "real = os.makedirs\n"
        "def makedirs(name, *a, **k):\n"
        "    raise PermissionError(13, 'Permission denied', name)\n"
        "os.makedirs = makedirs\nimport start_real\n"
        "sys.exit(start_real.main(sys.argv[1:]))\n"
    )
    done = start(root)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 2, done.stderr
    assert "cannot be written" in done.stderr


def test_python_without_ensurepip_gets_the_package_as_root(tmp_path: Path) -> None:
    """Debian splits ensurepip off; the stand-in apt-get "installs" it by removing the block."""
    python = debian_python()
    root = make_checkout(tmp_path / "no-ensurepip")
    block = tmp_path / "block"
    block.mkdir()
    (block / "ensurepip.py").write_text("raise ImportError('split off')\n")
    tools = tmp_path / "bin"
    tools.mkdir()
    apt = tools / "apt-get"
    apt.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\nrm -f {block}/ensurepip.py\n')
    apt.chmod(0o755)
    done = start(root, python=python, PATH=f"{tools}:{os.environ['PATH']}", PYTHONPATH=str(block))
    if os.geteuid() == 0:
        assert "twinrig got []" in done.stdout, done.stderr
        assert "-venv" in (tmp_path / "calls").read_text()
    else:
        assert done.returncode == 1
        assert "sudo apt-get install -y python3." in done.stderr


def debian_python() -> str:
    """A supported Python of the system, whose ensurepip is a package of its own."""
    for minor in (13, 12, 11):
        path = f"/usr/bin/python3.{minor}"
        code = "import ensurepip, sys; sys.exit(sys.base_prefix != '/usr')"
        if (
            Path(path).exists()
            and subprocess.run([path, "-c", code], capture_output=True, check=False).returncode == 0
        ):
            return path
    pytest.skip("this machine has no system Python 3.11 to 3.13 with ensurepip")


OLD = ("2.7", "3.6", "3.8", "3.10")


@pytest.mark.parametrize("version", OLD)
def test_an_unsupported_python_says_so(version: str, tmp_path: Path) -> None:
    old = old_python(version)
    root = make_checkout(tmp_path / "old")
    done = start(root, python=old, PATH="/nonexistent")
    assert done.returncode == 1
    assert f"needs Python 3.11, 3.12 or 3.13; this is Python {version}" in done.stderr
    assert len(done.stderr.splitlines()) == 2


def test_an_unsupported_python_hands_over_to_a_supported_one(ready: Path, tmp_path: Path) -> None:
    old = old_python("3.6", "3.8", "3.10")
    folder = tmp_path / "bin"
    folder.mkdir()
    shim = folder / "python3.13"
    shim.write_text("#!/bin/sh\necho 'shim: command not found' >&2\nexit 127\n")
    shim.chmod(0o755)
    (folder / "python3.12").symlink_to(sys.executable)
    done = start(ready, "status", python=old, PATH=f"{folder}:/usr/bin:/bin")
    assert "twinrig got ['status']" in done.stdout, done.stderr
    assert done.returncode == 7


def old_python(*versions: str) -> str:
    """A Python that Twinrig does not support, where this machine has one."""
    roots = [Path("/root/.pyenv/versions"), Path.home() / ".pyenv" / "versions"]
    for version in versions:
        if found := shutil.which(f"python{version}"):
            asked = subprocess.run([found, "-c", "0"], capture_output=True, check=False)
            if asked.returncode == 0:
                return found
        for root in roots:
            for path in sorted(root.glob(f"{version}.*/bin/python")):
                return str(path)
    pytest.skip(f"this machine has no Python {versions}")


def test_start_py_can_be_read_by_old_pythons() -> None:
    source = (ROOT / "installer" / "start.py").read_text("utf-8")
    ast.parse(source, feature_version=(3, 4))
    assert "annotations" not in source


def until(condition: Callable[[], bool], child: subprocess.Popen[bytes]) -> None:
    """Wait for what a child does, at most 30 s."""
    deadline = time.monotonic() + 30
    while not condition():
        assert child.poll() is None, "it ended before that"
        assert time.monotonic() < deadline
        time.sleep(0.01)

"""Fetches the pinned wheels for Windows on any machine, and opens them."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from bootstrap import packages
from bootstrap.problems import Problem, from_output
from windows.embed import PYTHON

_PIN = re.compile(r"[A-Za-z0-9._-]+==\S+")
_DATA = re.compile(r"^[^/]+\.data/(purelib|platlib)/")


def requirements_for_windows(text: str) -> str:
    """The pins of ``requirements/windows.txt`` that apply, without their markers.

    pip evaluates markers for the machine it runs on, and would leave out every one of them.
    """
    from packaging.markers import Marker

    environment = _environment()
    kept = []
    for line in text.replace("\\\n", " ").splitlines():
        head, *hashes = line.split(" --hash=")
        pin, _, marker = (part.strip() for part in head.partition(";"))
        if _PIN.fullmatch(pin) and (not marker or Marker(marker).evaluate(environment)):
            kept.append(" --hash=".join((pin, *(text.strip() for text in hashes))) + "\n")
    return "".join(kept)


def fetch(requirements: Path, cache: Path) -> list[Path]:
    """Wheels of the pins, sorted; downloaded once for each set of pins. Raises Problem."""
    pins = requirements_for_windows(requirements.read_text("utf-8"))
    folder = cache / hashlib.sha256(pins.encode()).hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    listed = folder / "requirements.txt"
    listed.write_text(pins, "utf-8")
    version = f"{PYTHON[0]}.{PYTHON[1]}"
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    command += ["--no-input", "--no-deps", "--require-hashes", "--only-binary=:all:"]
    command += ["--platform", "win_amd64", "--python-version", version]
    command += ["--dest", str(folder), "-r", str(listed)]
    environ = packages.clean_environment(os.environ)
    done = subprocess.run(
        command, env=environ, capture_output=True, encoding="utf-8", errors="replace", check=False
    )
    if done.returncode != 0:
        lines = (done.stdout + done.stderr).splitlines()
        raise from_output(lines, str(folder), "\n".join(lines[-5:]))
    wheels = sorted(folder.glob("*.whl"))
    if len(wheels) != len(pins.splitlines()):
        raise Problem(
            f"{folder} holds {len(wheels)} wheels, not {len(pins.splitlines())}.",
            "Delete the folder and build again.",
        )
    return wheels


def files_of(wheel: Path) -> Iterator[tuple[str, bytes]]:
    """Path below ``site-packages`` and content of each file that is installed there."""
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.endswith("/"):
                continue
            if ".data/" in name.partition("/")[0] + "/":
                if not _DATA.match(name):
                    continue
                yield _DATA.sub("", name), archive.read(name)
            else:
                yield name, archive.read(name)


def _environment() -> Mapping[str, str]:
    version = f"{PYTHON[0]}.{PYTHON[1]}"
    return {
        "implementation_name": "cpython",
        "implementation_version": f"{version}.0",
        "os_name": "nt",
        "platform_machine": "AMD64",
        "platform_python_implementation": "CPython",
        "platform_release": "10",
        "platform_system": "Windows",
        "platform_version": "10.0.19045",
        "python_full_version": f"{version}.0",
        "python_version": version,
        "sys_platform": "win32",
        "extra": "",
    }

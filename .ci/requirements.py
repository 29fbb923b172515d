"""Pins every dependency with its hashes: one file a platform, no address in any of them.

python .ci/requirements.py update     needs uv (pip install uv); rewrites installer/requirements/
python .ci/requirements.py check      needs nothing but packaging; are the pins in the ranges?
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "installer" / "requirements"
FILES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "linux.txt": ("linux", ()),
    "windows.txt": ("win32", ()),
    "dev-linux.txt": ("linux", ("dev",)),
}
HEADER = "# Made by .ci/requirements.py update; do not edit. Use pip install --require-hashes.\n"
PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", re.MULTILINE)


def main(argv: list[str]) -> int:
    """``update`` or ``check``."""
    if argv == ["update"]:
        return update()
    if argv == ["check"]:
        return check()
    print(__doc__, file=sys.stderr)
    return 2


def read_project() -> dict[str, Any]:
    """The ``project`` table of pyproject.toml."""
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return project


def update() -> int:
    """Resolve anew within the ranges of pyproject.toml; the runtime pins bind the others."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, (platform, extras) in FILES.items():
        constraint = FOLDER / "linux.txt" if name != "linux.txt" else None
        text = _compile(platform, extras, constraint)
        (FOLDER / name).write_text(HEADER + text, "utf-8")
        print(f"{name}: {len(PIN.findall(text))} packages")
    return 0


def _compile(platform: str, extras: tuple[str, ...], constraint: Path | None) -> str:
    project = read_project()
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "pyproject.toml"
        source.write_text(_source(project, platform), "utf-8")
        command = [
            *("uv", "pip", "compile", "--universal", "--generate-hashes", "--no-header"),
            *("--no-emit-index-url", "--no-emit-find-links", "--no-annotate", "--quiet"),
            *("--python-version", "3.11", "pyproject.toml"),
            *(part for extra in extras for part in ("--extra", extra)),
            *(("--constraint", str(constraint)) if constraint else ()),
        ]
        names = ("UV_", "PIP_")
        environ = {k: v for k, v in os.environ.items() if not k.startswith(names)}
        search = str(Path(sys.executable).parent) + os.pathsep + os.environ.get("PATH", "")
        environ["PATH"] = search
        done = subprocess.run(
            command, cwd=folder, env=environ, stdout=subprocess.PIPE, check=True, encoding="utf-8"
        )
    return done.stdout


def _source(project: Mapping[str, Any], platform: str) -> str:
    """A pyproject that restricts the resolution to one platform."""
    lines = [
        "[project]",
        'name = "pins"',
        'version = "0"',
        f'requires-python = "{project["requires-python"]}"',
        f"dependencies = {project['dependencies']!r}",
        "[project.optional-dependencies]",
        *(f"{k} = {v!r}" for k, v in project["optional-dependencies"].items()),
        "[tool.uv]",
        f"environments = [\"sys_platform == '{platform}'\"]",
    ]
    return "\n".join(lines) + "\n"


def check() -> int:
    """Every direct dependency is pinned inside its range, with hashes and without addresses."""
    faults = [fault for name, (_, extras) in FILES.items() for fault in _faults(name, extras)]
    for fault in faults:
        print(fault)
    print(f"requirements: {len(FILES)} files, {len(faults)} faults")
    return 1 if faults else 0


def _faults(name: str, extras: tuple[str, ...]) -> list[str]:
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    text = (FOLDER / name).read_text("utf-8")
    pins = {canonicalize_name(n): v for n, v in PIN.findall(text)}
    project = read_project()
    wanted = list(project["dependencies"])
    for extra in extras:
        wanted += project["optional-dependencies"][extra]
    faults = []
    for line in wanted:
        requirement = Requirement(line)
        pinned = pins.get(canonicalize_name(requirement.name))
        if pinned is None:
            faults.append(f"{name}: {requirement.name} is not pinned")
        elif not requirement.specifier.contains(pinned, prereleases=True):
            faults.append(f"{name}: {requirement.name} {pinned} is outside {requirement.specifier}")
    blocks = re.split(r"\n(?=[A-Za-z0-9])", text)
    faults += [
        f"{name}: {b.splitlines()[0]} has no hash"
        for b in blocks
        if PIN.match(b) and "--hash=sha256:" not in b
    ]
    if re.search(r"https?://|file:|--(extra-)?index-url|--find-links", text):
        faults.append(f"{name}: names an address")
    return faults


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Builds the wheel, installs it in a clean environment away from the checkout, and uses it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LICENCES = ("LICENSE", "THIRD-PARTY-NOTICES.md")


def main() -> int:
    """0 when every check passed; the first that fails raises."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wheel = build(folder / "dist")
        inspect(wheel)
        python = install(wheel, folder / "venv")
        use(python, folder / "home")
    print("wheel: built, complete, installed and used")
    return 0


def build(folder: Path) -> Path:
    """Build with the pinned backend, without a network."""
    _run([sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), "."])
    (wheel,) = folder.glob("*.whl")
    print(f"{wheel.name}: {wheel.stat().st_size // 1024} KiB")
    return wheel


def inspect(wheel: Path) -> None:
    """Every tracked resource and licence is inside, and nothing that does not belong there."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    tracked = _run(["git", "ls-files", "resources"]).split("\n")
    wanted = {"twinrig/_resources/" + n.removeprefix("resources/") for n in tracked if n}
    _require(bool(wanted), "git knows no resources")
    _require(wanted <= names, f"not in the wheel: {sorted(wanted - names)}")
    tops = {n.split("/")[0] for n in names if ".dist-info/" not in n}
    _require(tops == {"twinrig"}, f"top-level names in the wheel: {sorted(tops)}")
    for licence in LICENCES:
        _require(any(n.endswith(f"/{licence}") for n in names), f"{licence} is not in the wheel")
    odd = [n for n in names if "__pycache__" in n or n.endswith((".pyc", ".ts", ".log"))]
    _require(not odd, f"does not belong in the wheel: {odd}")


def install(wheel: Path, folder: Path) -> Path:
    """The pins, then the wheel; pip must find its requirements satisfied."""
    _run([sys.executable, "-m", "venv", str(folder)])
    python = folder / "bin" / "python"
    pip = [str(python), "-m", "pip"]
    pins = ROOT / "installer" / "requirements" / "linux.txt"
    quiet = ["--quiet", "--disable-pip-version-check", "--no-input"]
    _run([*pip, "install", *quiet, "--require-hashes", "--no-deps", "-r", str(pins)])
    _run([*pip, "install", *quiet, "--no-deps", str(wheel)])
    _run([*pip, "check", "--disable-pip-version-check"])
    return python


def use(python: Path, home: Path) -> None:
    """The installed commands work from an empty home; no file of the checkout is read."""
    home.mkdir()
    environ = {"HOME": str(home), "PATH": os.defpath, "LANG": "C.UTF-8"}
    environ["TWINRIG_HOME"] = str(home / "twinrig")
    twinrig = str(python.parent / "twinrig")
    version = _run([twinrig, "--version"], home, environ)
    _require("0." in version, f"twinrig --version says {version!r}")
    where = _run([str(python), "-c", "import twinrig; print(twinrig.__file__)"], home, environ)
    _require(str(ROOT) not in where, f"the checkout is imported: {where}")
    code = (
        "from twinrig import assets, messages\n"
        "assert 'i18n' in str(assets.resource_path('i18n/ja.mo'))\n"
        "assert '_resources' in str(assets.resource_path('i18n'))\n"
        "messages.Translator('ja').text('Stopped')\n"
    )
    _run([str(python), "-c", code], home, environ)
    answer = _run([twinrig, "--target", "demo", "doctor", "--json"], home, environ, (0, 1))
    report = json.loads(answer)
    _require(bool(report), "twinrig doctor --json printed nothing")


def _run(
    command: list[str],
    cwd: Path = ROOT,
    environ: dict[str, str] | None = None,
    fine: tuple[int, ...] = (0,),
) -> str:
    done = subprocess.run(
        command, cwd=cwd, env=environ, capture_output=True, encoding="utf-8", check=False
    )
    _require(
        done.returncode in fine, f"{command} gave {done.returncode}:\n{done.stdout}{done.stderr}"
    )
    return done.stdout


def _require(fine: bool, fault: str) -> None:
    if not fine:
        raise SystemExit(f"wheel: {fault}")


if __name__ == "__main__":
    sys.exit(main())

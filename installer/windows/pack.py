"""Makes the two downloads of a staged release, and the file with their hashes."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import time
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from bootstrap.problems import Problem
from windows.lists import file_lists
from windows.stage import STAMP_S

HERE = Path(__file__).resolve().parent
_ZIP_LEVEL = 9


def make_installer(
    stage: Path, names: Iterable[str], defines: Mapping[str, str], output: Path
) -> None:
    """Run makensis. ``defines``: VERSION, APP_ID and COMPRESSION (zlib or lzma)."""
    if shutil.which("makensis") is None:
        raise Problem("makensis is not installed.", "Debian and Ubuntu: apt-get install nsis")
    size_bytes = sum(path.stat().st_size for path in stage.rglob("*") if path.is_file())
    lists = output.with_suffix(".files.nsh")
    lists.write_text(file_lists(names, str(stage), size_bytes), "utf-8")
    given = {
        **defines,
        "STAGE": str(stage),
        "OUT": str(output),
        "LISTS": str(lists),
        "TEXTS": str(HERE / "texts.nsh"),
    }
    command = ["makensis", "-V2", "-WX", "-INPUTCHARSET", "UTF8"]
    command += [f"-D{name}={value}" for name, value in given.items()]
    # SOURCE_DATE_EPOCH is the time in the header of the program.
    environ = {**os.environ, "SOURCE_DATE_EPOCH": str(STAMP_S), "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        [*command, str(HERE / "installer.nsi")],
        env=environ,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    lists.unlink()
    if done.returncode != 0:
        text = (done.stdout + done.stderr).strip()
        raise Problem(f"makensis failed:\n{text}", "Correct installer/windows/installer.nsi.")


def make_zip(stage: Path, names: Iterable[str], top: str, output: Path) -> None:
    """All files below one folder ``top``, in order, all with the same time."""
    when = time.gmtime(STAMP_S)[:6]
    with zipfile.ZipFile(output, "w", zipfile.ZIP_DEFLATED, compresslevel=_ZIP_LEVEL) as archive:
        for name in sorted(names):
            info = zipfile.ZipInfo(f"{top}/{name}", when)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = 0o644 << 16
            archive.writestr(info, (stage / name).read_bytes(), compresslevel=_ZIP_LEVEL)


def write_hashes(files: Iterable[Path], output: Path) -> None:
    """One line a file, as ``sha256sum`` writes and checks it."""
    lines = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files]
    output.write_text("".join(lines), "utf-8")

"""What ``installer/build.py`` does, from arguments to hashes."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from bootstrap.problems import Problem
from windows import icon, pack, stage, wheels
from windows.embed import read_embed

ROOT = Path(__file__).resolve().parents[2]


def run(argv: Sequence[str]) -> int:
    """0, or 1 after telling what is wrong."""
    wanted = _parser().parse_args(argv)
    try:
        for path in build(wanted):
            print(f"{path}  {path.stat().st_size / 1e6:.1f} MB")
    except Problem as problem:
        print(f"{problem.text}\n{problem.next_step}", file=sys.stderr)
        return problem.code
    return 0


def build(wanted: argparse.Namespace) -> list[Path]:
    """Installer, portable zip and hashes, below ``wanted.out``. Raises Problem."""
    embed = read_embed(wanted.python_embed, wanted.python_sha256)
    version = stage.constant(ROOT / "app" / "twinrig" / "__init__.py", "__version__")
    app_id = stage.constant(ROOT / "app" / "twinrig" / "qt" / "windows_shell.py", "APP_ID")
    pins = ROOT / "installer" / "requirements" / "windows.txt"
    fetched = wheels.fetch(pins, ROOT / ".cache" / "windows")
    svg = ROOT / "resources" / "icons" / "twinrig.svg"
    files = stage.release_files(ROOT, embed, fetched, icon.draw_icon(svg))
    out = wanted.out.absolute()
    folder = out / "stage"
    stage.write_stage(files, folder)
    setup = out / f"Twinrig-{version}-setup.exe"
    defines = {"VERSION": version, "APP_ID": app_id, "COMPRESSION": wanted.compression}
    pack.make_installer(folder, files, defines, setup)
    products = [setup]
    if not wanted.no_zip:
        products.append(out / f"Twinrig-{version}-portable.zip")
        pack.make_zip(folder, files, f"Twinrig-{version}", products[-1])
    hashes = out / f"Twinrig-{version}-sha256.txt"
    pack.write_hashes(products, hashes)
    return [*products, hashes]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="installer/build.py", description="Build the Windows release of Twinrig on Linux."
    )
    parser.add_argument(
        "--python-embed",
        type=Path,
        required=True,
        metavar="FILE",
        help="python-3.13.N-embed-amd64.zip from python.org",
    )
    parser.add_argument(
        "--python-sha256",
        default="",
        metavar="HEX",
        help="its hash as python.org publishes it; not needed for a pinned one",
    )
    parser.add_argument(
        "--compression",
        choices=("lzma", "zlib"),
        default="lzma",
        help="of the installer: lzma is smaller (release), zlib is made faster (tests)",
    )
    parser.add_argument("--out", type=Path, default=ROOT / "dist" / "windows", metavar="FOLDER")
    parser.add_argument("--no-zip", action="store_true", help="the installer only")
    return parser

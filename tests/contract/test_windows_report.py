"""The report that a person with a real Windows is asked for can be made at all."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from contract.windows_report import BY_HAND
from fixtures.windows_computer import Computer

SCRIPT = Path(__file__).with_name("windows_report.py")
DOC = Path(__file__).parents[2] / "docs" / "windows-checks.md"


def test_the_report_against_the_double(computer: Computer, tmp_path: Path) -> None:
    """With the standard library alone: a bare Python on Windows has nothing else."""
    file = tmp_path / "report.md"
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(SCRIPT), "--out", str(file)],
        env=computer.environ,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    text = file.read_text("utf-8")
    assert "**0c words through a frame**: unchanged" in text
    assert "**1 stub and child of wsl.exe**: children" in text
    assert "Linux side: gone" in text
    assert "**7 an empty standard input**: ends by itself, rc 0" in text
    assert "**13a 127.0.0.1 reaches WSL**: reached, status 200" in text
    assert "read as (WslDistro(name='Ubuntu'" in text
    for number, asked in BY_HAND:
        assert f"**{number}** {asked}" in text


def test_every_point_stands_in_the_document() -> None:
    text = DOC.read_text("utf-8")
    for number in range(1, 16):
        assert f"| {number} |" in text

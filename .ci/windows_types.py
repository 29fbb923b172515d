"""Finds what the Python of Windows lacks (os.O_CLOEXEC, signal.SIGKILL, fcntl) by its types.

Modules of the Linux target are left out: nothing imports them on Windows.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LINUX_ONLY = ("app/twinrig/hosts/local/",)
ABSENT = re.compile(r"^(\S+?):\d+: error: .*\[(attr-defined|import-not-found)\]$")


def absent(output: str) -> list[str]:
    """Lines about names that are not there, in modules that run on Windows."""
    return [
        line
        for line in output.splitlines()
        if (found := ABSENT.match(line)) and not found[1].startswith(LINUX_ONLY)
    ]


def main() -> int:
    """1 when something is absent."""
    command = [sys.executable, "-m", "mypy", "--platform", "win32", "--no-error-summary"]
    command += ["--cache-dir", str(ROOT / ".mypy_cache" / "windows")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", check=False)
    if done.returncode > 1:
        print(done.stdout + done.stderr)
        return done.returncode
    faults = absent(done.stdout)
    print("\n".join(faults) or "windows types: nothing is absent")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

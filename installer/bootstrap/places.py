"""Where the parts of a checkout and its environment are."""

from __future__ import annotations

import os
import sys


class Places:
    """Paths of one checkout; nothing is created by asking."""

    def __init__(self, root: str, windows: bool = os.name == "nt") -> None:
        self.root = root
        self.windows = windows
        self.venv = os.path.join(root, ".venv")
        self.stamp = os.path.join(self.venv, "twinrig-setup.json")
        self.marker = os.path.join(self.venv, "made-by-twinrig")
        self.lock = os.path.join(self.venv, "setup.lock")
        self.log = os.path.join(self.venv, "setup.log")
        self.temporary = os.path.join(self.venv, "tmp")
        self.scripts = os.path.join(self.venv, "Scripts" if windows else "bin")
        self.python = os.path.join(self.scripts, "python.exe" if windows else "python")

    def requirements(self, name: str) -> str:
        """``runtime`` or ``dev``: the pinned file for this platform."""
        platform = "windows" if self.windows else "linux"
        prefix = "dev-" if name == "dev" else ""
        return os.path.join(self.root, "installer", "requirements", f"{prefix}{platform}.txt")

    def site_packages(self, version: tuple[int, int] | None = None) -> str:
        """Library folder of the environment, for the given Python (default: the running one)."""
        if self.windows:
            return os.path.join(self.venv, "Lib", "site-packages")
        major, minor = version or sys.version_info[:2]
        return os.path.join(self.venv, "lib", f"python{major}.{minor}", "site-packages")

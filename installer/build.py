"""Builds the Windows installer and the portable zip, on Linux:

.venv/bin/python installer/build.py --python-embed python-3.13.N-embed-amd64.zip

Needs an environment made by installer/start.py, and makensis (package nsis).
"""

from __future__ import annotations

import sys

from windows.main import run

if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))

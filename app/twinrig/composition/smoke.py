"""``twinrig --smoke FILE``: a self-test of this installation, for installers and for CI."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from twinrig.composition.panel import display_present, open_panel
from twinrig.files import write_atomic


def run_smoke(file: str, target: str, language: str | None, environ: Mapping[str, str]) -> int:
    """Open the panel, try all of it, write the result to ``file``. 0 fine, 1 faults in the file.

    3 when the file itself cannot be written.
    """
    path = Path(file).absolute()
    try:
        write_atomic(path, _faulty("the self-test did not end"))
    except OSError as error:
        sys.stderr.write(f"twinrig: {path} cannot be written: {error.strerror}\n")
        return 3
    if not display_present(environ):
        fault = "there is no display to show a window on"
    else:
        try:
            return open_panel(target, language, self_test=path)
        except ImportError as error:
            fault = f"Qt cannot be loaded: {error}"
    write_atomic(path, _faulty(fault))
    return 1


def _faulty(fault: str) -> bytes:
    return (json.dumps({"fine": False, "faults": [fault]}, indent=2) + os.linesep).encode()

"""Start of both doubles: ``entry.py PROGRAM WORDS...`` stands for ``PROGRAM.exe WORDS...``.

The program gets the words as one string, as Windows hands them over: under Wine the real one
(``TWINRIG_DOUBLE_CMDLINE``), here what Python's ``subprocess`` would make of the list on Windows.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

sys.path.insert(0, str(Path(__file__).parent))

from cmdline import command_line_to_argv
from store import VARIABLE, Store


@dataclass
class Call:
    """One call of a double. ``cmdline`` is the raw command line, the program's name included."""

    program: str
    argv: list[str]
    cmdline: str
    store: Store
    environ: dict[str, str]
    stdin: BinaryIO
    stdout: BinaryIO
    stderr: BinaryIO

    @property
    def home(self) -> Path:
        """The state folder."""
        return self.store.home


def main() -> int:
    """Exit code as Linux can pass it; the whole 32 bits stand in ``last_rc`` and in the log."""
    program, argv = sys.argv[1], sys.argv[2:]
    store = Store(os.environ[VARIABLE])
    given = os.environ.pop("TWINRIG_DOUBLE_CMDLINE", "")
    if given and not argv:
        argv = command_line_to_argv(given)[1:]
    cmdline = given or subprocess.list2cmdline([f"{program}.exe", *argv])
    call = Call(
        program,
        argv,
        cmdline,
        store,
        dict(os.environ),
        sys.stdin.buffer if sys.stdin else Path(os.devnull).open("rb"),  # noqa: SIM115
        sys.stdout.buffer,
        sys.stderr.buffer,
    )
    began = time.monotonic()
    module = importlib.import_module(program)
    with store.registered(program):
        code = int(module.main(call)) & 0xFFFFFFFF
    store.log(
        {
            "program": program,
            "cmdline": cmdline,
            "rc": code,
            "seconds": time.monotonic() - began,
            "pid": os.getpid(),
            "note": getattr(module, "NOTE", ""),
        }
    )
    (store.home / "last_rc").write_text(str(code))
    if "TWINRIG_DOUBLE_RC" in os.environ:
        Path(os.environ["TWINRIG_DOUBLE_RC"]).write_text(str(code))
    return code & 0xFF if code <= 0xFFFF else code & 0xFF or 255


if __name__ == "__main__":
    result = main()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            stream.flush()
    os._exit(result)

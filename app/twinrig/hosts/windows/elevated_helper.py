"""The other end of ``elevation``: runs one task of the fixed list with administrator rights.

It trusts nothing that it is given: the task and its values are checked against the list, programs
are taken from the system folder only, and the result goes into a file that must be new and must
have a name and a folder as the asking side uses them. The folder is told, not looked up: the
administrator may be another user, with other folders.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PureWindowsPath

from twinrig.domain.elevation import AdminAction, AdminCommand
from twinrig.hosts.windows.elevation import RESULT_FOLDER

EXIT_OK, EXIT_FAILED, EXIT_REFUSED = 0, 1, 2
_RESULT_NAME = re.compile(r"elevated-[0-9a-f]{32}\.json")
_TIMEOUT_S = 60.0
_PLACES = {
    "netsh": "netsh.exe",
    "reg": "reg.exe",
    "powershell": r"WindowsPowerShell\v1.0\powershell.exe",
}

Run = Callable[[Sequence[str]], tuple[int, str]]
"""Runs a command line to its end: return code and output."""


def run_task(words: Sequence[str], result: str, environ: Mapping[str, str], run: Run) -> int:
    """Exit code. Nothing is run for words off the list."""
    path = Path(result)
    if path.parent.name != RESULT_FOLDER or not _RESULT_NAME.fullmatch(path.name):
        return EXIT_REFUSED
    try:
        commands = AdminAction.from_words(words).commands()
        with path.open("x", encoding="utf-8") as handle:  # never over a file that is there
            told = _run_all(commands, environ, run)
            json.dump(told, handle, ensure_ascii=False)
    except (ValueError, OSError):
        return EXIT_REFUSED
    return EXIT_OK if told["ok"] else EXIT_FAILED


def run_helper(argv: Sequence[str], environ: Mapping[str, str]) -> int:
    """Exit code of the hidden verb: ``--result FILE TASK NAME=VALUE ...``."""
    if len(argv) < 3 or argv[0] != "--result":
        return EXIT_REFUSED
    return run_task(argv[2:], argv[1], environ, run_hidden)


def _run_all(
    commands: Sequence[AdminCommand], environ: Mapping[str, str], run: Run
) -> Mapping[str, object]:
    for command in commands:
        code, output = run((program_path(command.argv[0], environ), *command.argv[1:]))
        if code != 0 and not command.may_fail:
            line = subprocess.list2cmdline(command.argv)
            return {"ok": False, "command": line, "code": code, "output": output[-2000:]}
    return {"ok": True}


def program_path(name: str, environ: Mapping[str, str]) -> str:
    """Full path in the system folder: an administrator must not run what lies on a user's PATH.

    Raises ValueError for a program that no task uses.
    """
    if name not in _PLACES:
        raise ValueError(f"not a program of the list: {name!r}")
    root = environ.get("SystemRoot") or environ.get("SYSTEMROOT") or r"C:\Windows"
    return str(PureWindowsPath(root) / "System32" / _PLACES[name])


def run_hidden(argv: Sequence[str]) -> tuple[int, str]:
    """``Run`` without a window; what does not end in time has failed."""
    try:
        done = subprocess.run(
            list(argv),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT_S,
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
            check=False,
            env=dict(os.environ),
        )
    except subprocess.TimeoutExpired:
        return -1, "time-out"
    except OSError as error:
        return -1, error.strerror or str(error)
    text = (done.stdout + b"\n" + done.stderr).decode(
        "oem" if os.name == "nt" else "utf-8", "replace"
    )
    return done.returncode, text.strip()

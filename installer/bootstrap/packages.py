"""Runs pip in the environment with hash-pinned requirements, and tells how far it is."""

from __future__ import annotations

import os
import re
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import TextIO

from bootstrap.places import Places
from bootstrap.problems import from_output
from bootstrap.progress import Progress

WEIGHTS = {"pyside6_essentials": 40, "cryptography": 3, "shiboken6": 2, "mypy": 6, "ruff": 5}
KEPT_LINES = 400
TICK_S = 0.5
NO_WINDOW = getattr(subprocess, "CREATE_NO_WINDOW", 0)
"""For every program started on a double click: on Windows it would flash a console."""
DROPPED = (
    "PIP_CONSTRAINT",
    "PIP_FIND_LINKS",
    "PIP_NO_INDEX",
    "PIP_NO_BINARY",
    "PIP_PREFIX",
    "PIP_REQUIRE_VIRTUALENV",
    "PIP_ROOT",
    "PIP_TARGET",
    "PIP_USER",
    "PYTHONHOME",
    "PYTHONPATH",
    "__PYVENV_LAUNCHER__",
)
"""Variables that would make pip install something else, or elsewhere. Index, proxy and
certificate settings are kept: behind a company's mirror they are needed, and hashes bind."""

_PIN = re.compile(r"^([A-Za-z0-9._-]+)==", re.MULTILINE)
_COLLECT = re.compile(r"^Collecting ([A-Za-z0-9._-]+)==")
_DOWNLOAD = re.compile(r"^\s*Downloading (\S+?)(?:\.metadata)? \(([0-9.]+ [kMG]?B)\)")


def clean_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The caller's environment without what would redirect pip or Python."""
    return {k: v for k, v in environ.items() if k not in DROPPED}


def install(places: Places, name: str, progress: Progress, low: float, high: float) -> None:
    """Install the pinned file ``name``; progress moves from ``low`` to ``high`` percent.

    Raises Problem with the cause read from pip's output; all of it is in the log.
    """
    requirements = places.requirements(name)
    os.makedirs(places.temporary, exist_ok=True)
    environ = clean_environment(os.environ)
    environ.update(TMPDIR=places.temporary, TEMP=places.temporary, TMP=places.temporary)
    environ.update(PYTHONUTF8="1", PYTHONUNBUFFERED="1", LC_MESSAGES="C")
    command = [
        *(places.python, "-m", "pip", "install", "--require-hashes", "--no-deps"),
        *("--only-binary", ":all:", "--no-input", "--disable-pip-version-check"),
        *("--progress-bar", "off", "--no-warn-script-location", "-r", requirements),
    ]
    meter = _Meter(requirements, places)

    def tick() -> None:
        progress.show(low + (high - low) * meter.share(), meter.text)

    code, lines = run_logged(command, places.log, environ, meter.line, tick)
    if code != 0:
        raise from_output(lines, places.root, places.log)


def run_logged(
    command: list[str],
    log: str,
    environ: Mapping[str, str],
    on_line: Callable[[str], None],
    on_tick: Callable[[], None],
) -> tuple[int, deque[str]]:
    """Run ``command``; its output goes to the log. Returns exit code and the last lines.

    ``on_line`` is called for each line, ``on_tick`` about twice a second, from one thread each.
    """
    lines: deque[str] = deque(maxlen=KEPT_LINES)
    with open(log, "a", encoding="utf-8", errors="replace") as sink:
        sink.write(f"\n{time.strftime('%Y-%m-%d %H:%M:%S')} {' '.join(command)}\n")
        with subprocess.Popen(
            command,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            creationflags=NO_WINDOW,
            encoding="utf-8",
            errors="replace",
        ) as process:
            pump = threading.Thread(target=_pump, args=(process, sink, lines, on_line), daemon=True)
            pump.start()
            try:
                _wait(process, on_tick)
            except BaseException:
                process.terminate()
                raise
            finally:
                pump.join(5)
    return process.returncode, lines


def _wait(process: subprocess.Popen[str], on_tick: Callable[[], None]) -> None:
    while True:
        try:
            process.wait(TICK_S)
        except subprocess.TimeoutExpired:
            on_tick()
        else:
            return


def _pump(
    process: subprocess.Popen[str],
    sink: TextIO,
    lines: deque[str],
    on_line: Callable[[str], None],
) -> None:
    for line in process.stdout or ():
        lines.append(line.rstrip())
        try:
            sink.write(line)
        except OSError:  # a full disk: pip will meet it too, and say so
            lines.append("No space left on device")
        on_line(line.rstrip())


class _Meter:
    """Turns pip's lines into a percentage; large packages weigh more.

    ``line`` runs on the reading thread and only notes; ``tick`` shows.
    """

    def __init__(self, requirements: str, places: Places) -> None:
        with open(requirements, encoding="utf-8") as handle:
            names = {_key(name) for name in _PIN.findall(handle.read())}
        self._total = sum(WEIGHTS.get(name, 1) for name in names) or 1
        self._count = len(names) or 1
        self._library = places.site_packages()
        self._collected = 0
        self._current = 0
        self._unpacking = False
        self.text = "Asking the package index"

    def line(self, line: str) -> None:
        """One line of pip."""
        if found := _COLLECT.match(line):
            self._collected += self._current
            self._current = WEIGHTS.get(_key(found[1]), 1)
            self.text = f"Downloading {found[1]}"
        elif found := _DOWNLOAD.match(line):
            self.text = f"Downloading {found[1].split('-')[0]} ({found[2]})"
        elif line.startswith("Installing collected packages"):
            self._unpacking = True
            self.text = "Unpacking the packages"

    def share(self) -> float:
        """Done so far, 0 to 1: downloads are 0.7 of it, unpacking the rest."""
        if not self._unpacking:
            return 0.7 * min(self._collected / self._total, 1.0)
        return 0.7 + 0.3 * min(self._installed() / self._count, 1.0)

    def _installed(self) -> int:
        try:
            return sum(name.endswith(".dist-info") for name in os.listdir(self._library))
        except OSError:
            return 0


def _key(name: str) -> str:
    return re.sub(r"[-_.]+", "_", name).lower()

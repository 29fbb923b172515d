"""The set-up with its faults told in sentences; loaded only when there is something to do."""

from __future__ import annotations

import sys

from bootstrap import apt, environment, libraries
from bootstrap.places import Places
from bootstrap.problems import Problem, from_os_error
from bootstrap.progress import Progress


def prepare_telling(
    places: Places, names: tuple[str, ...], window: bool | None, progress: Progress
) -> int:
    """Set up; 0, or the exit code after the fault was told on standard error."""
    try:
        set_up(places, names, window, progress)
    except Problem as problem:
        progress.close()
        sys.stderr.write(f"{problem.text}\n{problem.next_step}\n")
        return problem.code
    except KeyboardInterrupt:
        progress.close()
        sys.stderr.write("Setting up was interrupted; the next start goes on.\n")
        return 130
    progress.close()
    return 0


def set_up(places: Places, names: tuple[str, ...], window: bool | None, progress: Progress) -> None:
    """Environment, packages, and the system libraries where ``window`` is not None.

    Raises Problem only.
    """
    try:
        environment.ensure(places, names, progress)
        if window is not None:
            _ensure_libraries(places, window, progress)
    except OSError as error:
        raise from_os_error(error, places.root) from error


def _ensure_libraries(places: Places, window: bool, progress: Progress) -> None:
    why = "System libraries that Qt needs are missing"
    if window:
        why += " (the terminal view needs none: python3 installer/start.py up)"
    apt.install(libraries.missing(window), why, places, progress, 98)
    if still := libraries.missing(window):
        raise Problem(
            "System libraries are still missing after their installation: " + " ".join(still),
            f"The full log is {places.log}.",
        )

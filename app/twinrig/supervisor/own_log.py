"""What the supervisor itself did, a line each; never a reason to fail."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime
from pathlib import Path

from twinrig.domain.ports import Clock

_LIMIT_BYTES = 1024 * 1024


class OwnLog:
    """Appends to ``supervisor.log``; one older part is kept."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock

    def say(self, text: object) -> None:
        """One line, in English: this file is for bug reports."""
        stamp = datetime.fromtimestamp(self._clock.now(), UTC).isoformat(timespec="seconds")
        line = f"{stamp} {' '.join(str(text).split())}\n"
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            if self._path.exists() and self._path.stat().st_size > _LIMIT_BYTES:
                self._path.replace(self._path.with_name(self._path.name + ".1"))
            with self._path.open("a", encoding="utf-8") as handle:
                handle.write(line)

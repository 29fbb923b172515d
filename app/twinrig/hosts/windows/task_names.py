"""Names of our tasks: one a profile, user and place of Twinrig's files; pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass

FOLDER = "\\Twinrig\\"


@dataclass(frozen=True)
class TaskNames:
    """``user`` is a SID: two users of one computer must not share a task. ``home`` is a place of
    files other than the usual one, "" = the usual one: it has tasks of its own."""

    user: str
    home: str = ""

    def candidates(self, profile_id: str) -> tuple[str, str]:
        """The name in our folder, and the one in the root where a folder cannot be made."""
        name = f"server-{profile_id}{self._ending}"
        return f"{FOLDER}{name}", f"\\Twinrig-{name}"

    def ours(self, names: Iterable[str]) -> tuple[str, ...]:
        """Those of ``names`` that this user and place have made, each once."""
        pattern = re.compile(r"\\Twinrig[\\-]server-[a-z0-9-]+" + re.escape(self._ending))
        return tuple(dict.fromkeys(name for name in names if pattern.fullmatch(name)))

    @property
    def _ending(self) -> str:
        number = self.user.rpartition("-")[2] or "0"
        place = hashlib.sha256(self.home.encode()).hexdigest()[:8] if self.home else ""
        return f"-{number}-{place}" if place else f"-{number}"

"""The one command line that is given to ``wsl.exe``.

It holds fixed words only. What shall run, its words and its data travel on standard input
(``framing``), so that neither Windows nor a login shell ever splits, quotes or expands them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from twinrig.domain.wsl import DISTRO_NAME

SHELL = ("/bin/bash", "--noprofile", "--norc", "-s")
"""The shell that reads the frame. Fish, zsh and what a profile prints play no part in it."""

_USER_NAME = re.compile(r"[a-z_][a-z0-9_.-]{0,63}")
_OWN_VARIABLES = {"WSL_UTF8": "1", "WSL_DISABLE_WARNINGS": "1"}


@dataclass(frozen=True)
class WslCall:
    """Calls into one distribution. Raises ValueError for a name that ``wsl.exe`` would cut."""

    executable: str
    distro: str

    def __post_init__(self) -> None:
        """``wsl.exe`` ends a name at the first blank and keeps quotes, so it cannot be quoted."""
        if not DISTRO_NAME.fullmatch(self.distro) or self.distro.startswith("-"):
            raise ValueError(f"not a distribution's name: {self.distro!r}")

    def argv(self, *, root: bool = False, user: str = "") -> tuple[str, ...]:
        """The call whose standard input is a frame; root needs no password in WSL."""
        if user and not _USER_NAME.fullmatch(user):
            raise ValueError(f"not a user's name: {user!r}")
        name = "root" if root else user
        as_user = ("-u", name) if name else ()
        return (self.executable, "-d", self.distro, *as_user, "--cd", "/", "--exec", *SHELL)


def wsl_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Environment of ``wsl.exe``: its own text in UTF-8, and nothing handed on to Linux."""
    kept = {name: value for name, value in environ.items() if name.upper() != "WSLENV"}
    return {**kept, **_OWN_VARIABLES}

"""Distributions of WSL: what is known of them without starting one, and which to use."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from twinrig.domain.errors import HostError, UsageError
from twinrig.messages import message

DISTRO_NAME = re.compile(r"[A-Za-z0-9._-]{1,256}")
"""What WSL itself accepts as a name: no blanks."""

TARGET = "wsl"
_SEPARATOR = ":"

_OTHER_PROGRAMS = re.compile(r"(docker-desktop|rancher-desktop|podman-)", re.IGNORECASE)
_SHARE = re.compile(r"[\\/]{2}wsl(?:\.localhost|\$)[\\/][^\\/]+(.*)", re.IGNORECASE | re.DOTALL)
_DRIVE = re.compile(r"([A-Za-z]):[\\/](.*)", re.DOTALL)


def linux_path(path: str) -> str:
    """How Linux names a file that Windows shows as ``path``; "" when it is no path of Windows.

    ``\\\\wsl.localhost\\NAME`` is the distribution's own root, a drive lies below ``/mnt``.
    """
    share = _SHARE.fullmatch(path)
    if share is not None:
        return share[1].replace("\\", "/").rstrip("/") or "/"
    drive = _DRIVE.fullmatch(path)
    if drive is not None:
        below = drive[2].replace("\\", "/").strip("/")
        return f"/mnt/{drive[1].lower()}/{below}".rstrip("/")
    return ""


def target_with(distro: str) -> str:
    """Name of the target for one distribution, as it is passed between parts of Twinrig."""
    return f"{TARGET}{_SEPARATOR}{distro}" if distro else TARGET


def distro_of(target: str) -> str:
    """The distribution that a target's name holds, "" without one."""
    return target.partition(_SEPARATOR)[2]


def is_wsl(target: str) -> bool:
    """Whether a target's name means WSL, with a distribution or without."""
    return target.partition(_SEPARATOR)[0] == TARGET


class DistroState(StrEnum):
    """State as listed; anything that is neither running nor stopped cannot be used now."""

    RUNNING = "running"
    STOPPED = "stopped"
    BUSY = "busy"


@dataclass(frozen=True)
class WslDistro:
    """One distribution. ``version`` is 1 or 2 (of WSL, not of the Linux in it)."""

    name: str
    state: DistroState
    version: int = 2
    default: bool = False
    guid: str = ""

    @property
    def foreign(self) -> bool:
        """It belongs to another program, which fills it and empties it as it likes."""
        return _OTHER_PROGRAMS.match(self.name) is not None


def choose_distro(distros: Sequence[WslDistro], wanted: str = "") -> WslDistro:
    """The wanted one, else the default one, else the only one.

    Names compare without case, as WSL compares them. Raises HostError when there is none,
    UsageError when the choice is the user's.
    """
    usable = [distro for distro in distros if not distro.foreign]
    if wanted:
        return _checked(_named(distros, usable, wanted))
    if not usable:
        raise _nothing_installed(distros)
    default = [distro for distro in usable if distro.default]
    if default or len(usable) == 1:
        return _checked((default or usable)[0])
    raise UsageError(
        message("WSL has several distributions, and its default one cannot be used."),
        message("Name one with --distro: {names}.", names=_names(usable)),
    )


def _named(distros: Sequence[WslDistro], usable: Sequence[WslDistro], wanted: str) -> WslDistro:
    for distro in distros:
        if distro.name.casefold() == wanted.casefold():
            return distro
    if not usable:
        raise _nothing_installed(distros)
    raise UsageError(
        message("There is no WSL distribution {name}.", name=wanted),
        message("Name one with --distro: {names}.", names=_names(usable)),
    )


def _checked(distro: WslDistro) -> WslDistro:
    if not DISTRO_NAME.fullmatch(distro.name) or distro.name.startswith("-"):
        raise HostError(
            message(
                "The distribution “{name}” has a name that cannot be given to wsl.exe.",
                name=distro.name,
            ),
            message(
                "Export it and import it under a name of letters, digits, dots, hyphens and "
                "underscores, or name another one with --distro."
            ),
        )
    if distro.version != 2:
        raise HostError(
            message("The distribution {name} uses WSL 1, which has no GPU.", name=distro.name),
            message(
                'Convert it with "wsl --set-version {name} 2" in a terminal, then try again.',
                name=distro.name,
            ),
        )
    if distro.state is DistroState.BUSY:
        raise HostError(
            message(
                "The distribution {name} is being installed, moved or converted.", name=distro.name
            ),
            message("Wait until that is done, then try again."),
        )
    return distro


def _nothing_installed(distros: Sequence[WslDistro]) -> HostError:
    install = message(
        'Install one with "wsl --install -d Ubuntu" in a terminal, open it once, then try again.'
    )
    if distros:
        return HostError(
            message(
                "WSL has only distributions of other programs: {names}.", names=_names(distros)
            ),
            install,
        )
    return HostError(message("WSL has no Linux distribution installed."), install)


def _names(distros: Sequence[WslDistro]) -> str:
    return ", ".join(distro.name for distro in distros)

"""Whether the target ``wsl`` can be had, and which distribution is wanted. Opens nothing."""

from __future__ import annotations

import configparser
import sys
from collections.abc import Mapping
from pathlib import Path

from twinrig.domain.errors import HostError
from twinrig.hosts.wsl.executable import find_wsl
from twinrig.messages import message

DISTRO_VARIABLE = "TWINRIG_DISTRO"
AWAKE_VARIABLE = "TWINRIG_KEEP_AWAKE"
AWAKE_FLAG = "keep-awake"


def check_wsl(environ: Mapping[str, str]) -> None:
    """Raises HostError where this target cannot be: outside Windows, unless a test names one."""
    if sys.platform != "win32" and find_wsl(environ) is None:
        raise HostError(
            message("The target wsl needs Windows."),
            message(
                "Inside a WSL distribution use --target local; "
                "--target demo shows everything on simulated cards."
            ),
        )


def wanted_distro(config: Path, environ: Mapping[str, str]) -> str:
    """Chosen by variable, else in the panel's settings; "" = WSL's default one."""
    return environ.get(DISTRO_VARIABLE, "").strip() or _of_panel(config, "General", "distro")


def wants_awake(config: Path, environ: Mapping[str, str]) -> bool:
    """Whether the computer shall not go to sleep under a server: by variable, else as the panel's
    settings say; not unless somebody asked for it."""
    named = environ.get(AWAKE_VARIABLE, "").strip() or _of_panel(config, "flags", AWAKE_FLAG)
    return named in ("1", "true")


def _of_panel(config: Path, section: str, name: str) -> str:
    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read(config / "panel.ini", encoding="utf-8")
        return parser.get(section, name, fallback="").strip().strip('"')
    except (configparser.Error, UnicodeDecodeError, OSError):
        return ""

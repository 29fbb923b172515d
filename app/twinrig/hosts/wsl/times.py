"""How long ``wsl.exe`` may take: a warm call 0.3 s, a cold start a minute, after sleep for ever."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class WslTimes:
    """Limits in seconds.

    ``start_s`` until Linux runs (30 s virtual machine, 60 s distribution, twice 10 s systemd);
    ``doubt_s`` until a start that shows nothing makes us ask whether WSL answers at all.
    """

    start_s: float = 120.0
    doubt_s: float = 15.0
    list_s: float = 15.0
    sweep_s: float = 10.0
    linger_s: float = 2.0

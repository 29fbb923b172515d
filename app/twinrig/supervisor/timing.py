"""All intervals and limits of the supervisor in one place, replaceable in tests."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Timing:
    """Seconds, except where a name says otherwise.

    A restart needs ``restart_checks`` health checks in a row that are refused or answer 5xx
    while the process lives: one a ``watch_s``, so about a minute. Counted, not timed, so that
    a machine that slept does not look like a sick server.
    """

    desired_poll_s: float = 0.5
    heartbeat_s: float = 5.0
    ready_poll_s: float = 1.0
    ready_timeout_s: float = 2.0
    watch_s: float = 5.0
    request_timeout_s: float = 5.0
    idle_probe_s: float = 60.0
    stall_probe_s: float = 120.0
    probe_pause_s: float = 30.0
    cut_off_s: float = 60.0
    """So long a server that starts may be reachable on its own side only; a relay of ports that
    works needs a second."""
    degraded_checks: int = 2
    restart_checks: int = 12
    backoff_s: tuple[float, ...] = (5.0, 15.0, 60.0, 300.0)
    gone_pause_s: float = 30.0
    """Least wait after WSL went away: whoever shut it down may do so again at once."""
    wake_grace_s: float = 10.0
    """What network and WSL need after sleep before they are judged."""
    quick_failures_limit: int = 5
    quick_s: float = 60.0
    stop_limit_s: float = 24.0
    orphan_grace_s: float = 20.0
    kill_wait_s: float = 3.0
    poll_exit_s: float = 0.2

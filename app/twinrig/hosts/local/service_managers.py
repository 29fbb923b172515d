"""Picks who owns the supervisor on this machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from twinrig.domain.ports import Clock, CommandResult, Lock
from twinrig.hosts.local.detached_manager import DetachedManager
from twinrig.hosts.local.subprocesses import Invocation, run_to_end
from twinrig.hosts.local.systemd_manager import (
    Runner,
    SystemdUserManager,
    unit_folder,
    user_systemd_answers,
)

_PASSED_ON = ("TWINRIG_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "PYTHONPATH")


def choose_manager(
    target: str,
    command: Callable[[str], Sequence[str]],
    lock: Lock,
    environ: Mapping[str, str],
    output: Path,
    clock: Clock,
) -> SystemdUserManager | DetachedManager:
    """systemd where this user's really runs, else a detached session.

    ``command`` gives the supervisor's command line for a profile id; ``output`` is a log file
    for what a detached one prints. ``lock`` must be an object of its own for ``holder`` only.
    """
    if user_systemd_answers(environ):
        passed_on = {name: environ[name] for name in _PASSED_ON if name in environ}
        return SystemdUserManager(
            target, command, session_runner(environ), unit_folder(environ), passed_on
        )
    return DetachedManager(command, lock, environ, output, clock)


def session_runner(environ: Mapping[str, str]) -> Runner:
    """Runs ``systemctl --user`` and the like with the variables that lead to the user's bus."""
    names = ("PATH", "HOME", "USER", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS")
    environment = {name: environ[name] for name in names if name in environ}
    environment.setdefault("XDG_RUNTIME_DIR", f"/run/user/{os.getuid()}")
    environment.update({"LC_ALL": "C.UTF-8", "SYSTEMD_PAGER": "", "SYSTEMD_COLORS": "0"})

    async def run(argv: Sequence[str], timeout_s: float) -> CommandResult:
        return await run_to_end(Invocation(tuple(argv), None, environment), timeout_s)

    return run

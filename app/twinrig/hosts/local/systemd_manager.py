"""A systemd user unit per profile owns the supervisor."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from twinrig.domain.errors import HostError
from twinrig.domain.ports import CommandResult
from twinrig.files import write_atomic
from twinrig.hosts.local.systemd_unit import STOP_TIMEOUT_S, unit_name, unit_text
from twinrig.messages import Message, message

Runner = Callable[[Sequence[str], float], Awaitable[CommandResult]]
"""Runs argv with a time-out in seconds; in production ``LocalHost.run`` with the session's bus."""

_QUERY_TIMEOUT_S = 10.0
_RUNNING = frozenset({"active", "activating", "deactivating", "reloading"})
_NOT_RUNNING = frozenset({"inactive", "failed"})
_ENABLED = frozenset({"enabled", "enabled-runtime"})
_DISABLED = frozenset({"disabled", "not-found", "masked", "static", "linked"})


def user_systemd_answers(environ: Mapping[str, str], run: Path = Path("/run")) -> bool:
    """Whether this user's systemd really runs: its socket accepts a connection.

    A socket file alone proves nothing; on WSL it may be a stale one.
    """
    runtime = environ.get("XDG_RUNTIME_DIR", "")
    if not runtime or not (run / "systemd" / "system").is_dir():
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(Path(runtime) / "systemd" / "private"))
        except OSError:
            return False
    return True


def unit_folder(environ: Mapping[str, str]) -> Path:
    """Where this user's units are."""
    base = environ.get("XDG_CONFIG_HOME") or str(Path(environ.get("HOME", "~")) / ".config")
    return Path(base).expanduser() / "systemd" / "user"


class SystemdUserManager:
    """``ServiceManager``. ``command`` gives the supervisor's command line for a profile."""

    def __init__(
        self,
        target: str,
        command: Callable[[str], Sequence[str]],
        run: Runner,
        folder: Path,
        environment: Mapping[str, str],
    ) -> None:
        self._target = target
        self._command = command
        self._run = run
        self._folder = folder
        self._environment = environment

    @property
    def kind(self) -> str:
        """Fixed."""
        return "systemd-user"

    async def start(self, profile_id: str) -> None:
        """Write the unit when it is not up to date, then start it. Raises HostError."""
        unit = await self._write_unit(profile_id)
        await self._systemctl("reset-failed", unit, may_fail=True)
        await self._systemctl("start", unit)

    async def kill(self, profile_id: str) -> None:
        """Stop the unit; systemd kills what is left of it, the server included."""
        await self._systemctl("stop", self._unit(profile_id), timeout_s=STOP_TIMEOUT_S + 15.0)

    async def is_running(self, profile_id: str) -> bool | None:
        """By the unit's active state; None when systemd does not answer."""
        word = await self._ask("is-active", profile_id)
        return True if word in _RUNNING else False if word in _NOT_RUNNING else None

    async def set_autostart(self, profile_id: str, enabled: bool) -> None:
        """Start at logon. At boot too, when the user lingers (see ``advice``)."""
        if enabled:
            unit = await self._write_unit(profile_id)
            await self._systemctl("enable", unit)
        elif (self._folder / self._unit(profile_id)).exists():
            await self._systemctl("disable", self._unit(profile_id))

    async def autostart(self, profile_id: str) -> bool | None:
        """None when systemd does not answer."""
        if not (self._folder / self._unit(profile_id)).exists():
            return False
        word = await self._ask("is-enabled", profile_id)
        return True if word in _ENABLED else False if word in _DISABLED else None

    async def unregister_all(self, profile_ids: Sequence[str] = ()) -> tuple[str, ...]:
        """Remove the units of these profiles; returns the names of those that stay."""
        staying = []
        for unit in map(self._unit, profile_ids):
            if not (self._folder / unit).exists():
                continue
            await self._systemctl("disable", unit, may_fail=True)
            try:
                (self._folder / unit).unlink()
            except OSError:
                staying.append(unit)
        await self._systemctl("daemon-reload", may_fail=True)
        return tuple(staying)

    async def advice(self, user: str) -> Message | None:
        """What the user should know about ``enable``: without lingering it ends at logout."""
        argv = ("loginctl", "show-user", user, "--property=Linger", "--value")
        result = await self._run(argv, _QUERY_TIMEOUT_S)
        if result.returncode != 0 or result.output.strip() == "yes":
            return None
        return message(
            "The server starts at logon and ends at logout. To keep it always: {command}",
            command=f"loginctl enable-linger {user}",
        )

    def _unit(self, profile_id: str) -> str:
        return unit_name(self._target, profile_id)

    async def _write_unit(self, profile_id: str) -> str:
        unit = self._unit(profile_id)
        text = unit_text(
            self._target, profile_id, self._command(profile_id), self._environment
        ).encode()
        path = self._folder / unit
        try:
            if not path.exists() or path.read_bytes() != text:
                write_atomic(path, text)
                await self._systemctl("daemon-reload")
        except OSError as error:
            raise HostError(
                message(
                    "{path} cannot be written: {reason}.",
                    path=str(path),
                    reason=error.strerror or str(error),
                ),
                message("Make the folder writable for this user, then try again."),
            ) from error
        return unit

    async def _ask(self, verb: str, profile_id: str) -> str:
        argv = ("systemctl", "--user", verb, self._unit(profile_id))
        return (await self._run(argv, _QUERY_TIMEOUT_S)).output.strip()

    async def _systemctl(
        self, *words: str, may_fail: bool = False, timeout_s: float = 30.0
    ) -> None:
        result = await self._run(("systemctl", "--user", *words), timeout_s)
        if result.returncode == 0 or may_fail:
            return
        raise HostError(
            message(
                "systemd refused “{command}”: {reason}",
                command=" ".join(("systemctl", "--user", *words)),
                reason=result.stderr.decode("utf-8", "replace").strip() or str(result.returncode),
            ),
            message("Run the command in a terminal to see why, then try again."),
        )

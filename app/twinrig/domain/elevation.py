"""What Twinrig may ask a Windows administrator for: a fixed list, each a few fixed commands.

The elevated helper takes the name of a task and checked values, never a command.
Commands as Microsoft documents them for WSL networking and for the graphics time-out (2026).
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Protocol

from twinrig.domain.errors import HostError
from twinrig.domain.profile import PROFILE_ID

WSL_CREATOR = "{40E0AC32-46A5-438A-A0B2-2B479E8F2E90}"
"""Microsoft's fixed id of WSL as a creator of virtual machines."""

TDR_KEY = r"HKLM\SYSTEM\CurrentControlSet\Control\GraphicsDrivers"
LONGEST_TDR_DELAY_S = 120


class AdminTask(StrEnum):
    """The whole list."""

    OPEN_NAT = "open-nat"
    CLOSE_NAT = "close-nat"
    OPEN_MIRRORED = "open-mirrored"
    CLOSE_MIRRORED = "close-mirrored"
    SET_TDR_DELAY = "set-tdr-delay"
    RESET_TDR_DELAY = "reset-tdr-delay"


@dataclass(frozen=True)
class AdminCommand:
    """One program of Windows with its arguments. ``may_fail``: it removes what need not exist."""

    argv: tuple[str, ...]
    may_fail: bool = False


@dataclass(frozen=True)
class AdminAction:
    """A task with its values. Raises ValueError for any value that is not what it should be."""

    task: AdminTask
    params: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        given, rules = dict(self.params), _PARAMS[self.task]
        if set(given) != set(rules) or len(given) != len(self.params):
            raise ValueError(f"{self.task}: needs exactly {', '.join(rules) or 'nothing'}")
        for name, allowed in rules.items():
            if not allowed(given[name]):
                raise ValueError(f"{self.task}: not a {name}: {given[name]!r}")

    def to_words(self) -> tuple[str, ...]:
        """Arguments of the helper verb."""
        return (self.task.value, *(f"{name}={value}" for name, value in self.params))

    @classmethod
    def from_words(cls, words: Sequence[str]) -> AdminAction:
        """Inverse of ``to_words``. Raises ValueError."""
        if not words:
            raise ValueError("no task")
        pairs = tuple((name, value) for name, _, value in (w.partition("=") for w in words[1:]))
        return cls(AdminTask(words[0]), pairs)

    def commands(self) -> tuple[AdminCommand, ...]:
        """What is run, in this order; doing it twice is the same as once."""
        return _COMMANDS[self.task](dict(self.params))


class ElevationCancelledError(HostError):
    """The user said no to Windows' question; nothing was changed."""


class ElevationRefusedError(HostError):
    """Windows does not let this user do it; nothing was changed."""


class Elevation(Protocol):
    """Runs tasks of the list with administrator rights."""

    async def run(self, action: AdminAction) -> None:
        """Asks the user through Windows. Raises ElevationCancelledError, ElevationRefusedError,
        or HostError when a command failed."""
        ...


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdecimal() and 1 <= int(text) <= 65535


def _is_ipv4(text: str) -> bool:
    try:
        ipaddress.IPv4Address(text)
    except ValueError:
        return False
    return True


def _is_profile(text: str) -> bool:
    return PROFILE_ID.fullmatch(text) is not None


def _is_delay(text: str) -> bool:
    return bool(re.fullmatch(r"[1-9][0-9]{0,2}", text)) and int(text) <= LONGEST_TDR_DELAY_S


_OWNED = MappingProxyType({"profile": _is_profile, "port": _is_port})
_PARAMS: Mapping[AdminTask, Mapping[str, Callable[[str], bool]]] = MappingProxyType(
    {
        AdminTask.OPEN_NAT: MappingProxyType({**_OWNED, "address": _is_ipv4}),
        AdminTask.CLOSE_NAT: _OWNED,
        AdminTask.OPEN_MIRRORED: _OWNED,
        AdminTask.CLOSE_MIRRORED: _OWNED,
        AdminTask.SET_TDR_DELAY: MappingProxyType({"seconds": _is_delay}),
        AdminTask.RESET_TDR_DELAY: MappingProxyType({}),
    }
)


def _rule(params: Mapping[str, str]) -> str:
    return f"Twinrig-{params['profile']}"


def _close_nat(params: Mapping[str, str]) -> tuple[AdminCommand, ...]:
    proxy = ("netsh", "interface", "portproxy", "delete", "v4tov4")
    listen = ("listenaddress=0.0.0.0", f"listenport={params['port']}")
    rule = ("netsh", "advfirewall", "firewall", "delete", "rule", f"name={_rule(params)}")
    return AdminCommand((*proxy, *listen), True), AdminCommand(rule, True)


def _open_nat(params: Mapping[str, str]) -> tuple[AdminCommand, ...]:
    port = params["port"]
    # Without the removal a second rule of the same name would be added.
    return (
        *_close_nat(params),
        AdminCommand(
            (
                *("netsh", "interface", "portproxy", "add", "v4tov4"),
                *("listenaddress=0.0.0.0", f"listenport={port}"),
                *(f"connectaddress={params['address']}", f"connectport={port}"),
            )
        ),
        AdminCommand(
            (
                *("netsh", "advfirewall", "firewall", "add", "rule", f"name={_rule(params)}"),
                *("dir=in", "action=allow", "protocol=TCP", f"localport={port}"),
                *("profile=private", "remoteip=localsubnet"),
            )
        ),
    )


def _powershell(script: str, *, may_fail: bool = False) -> AdminCommand:
    return AdminCommand(
        ("powershell", "-NoProfile", "-NonInteractive", "-Command", script), may_fail
    )


def _close_mirrored(params: Mapping[str, str]) -> tuple[AdminCommand, ...]:
    return (_powershell(f"Remove-NetFirewallHyperVRule -Name '{_rule(params)}'", may_fail=True),)


def _open_mirrored(params: Mapping[str, str]) -> tuple[AdminCommand, ...]:
    name = _rule(params)
    return (
        *_close_mirrored(params),
        _powershell(
            f"New-NetFirewallHyperVRule -Name '{name}' -DisplayName '{name}' -Direction Inbound"
            f" -VMCreatorId '{WSL_CREATOR}' -Protocol TCP -LocalPorts {params['port']}"
            " -Action Allow -ErrorAction Stop"
        ),
    )


def _set_tdr(params: Mapping[str, str]) -> tuple[AdminCommand, ...]:
    value = ("/v", "TdrDelay", "/t", "REG_DWORD", "/d", params["seconds"], "/f")
    return (AdminCommand(("reg", "add", TDR_KEY, *value)),)


def _reset_tdr(params: Mapping[str, str]) -> tuple[AdminCommand, ...]:
    return (AdminCommand(("reg", "delete", TDR_KEY, "/v", "TdrDelay", "/f"), True),)


_COMMANDS: Mapping[AdminTask, Callable[[Mapping[str, str]], tuple[AdminCommand, ...]]] = (
    MappingProxyType(
        {
            AdminTask.OPEN_NAT: _open_nat,
            AdminTask.CLOSE_NAT: _close_nat,
            AdminTask.OPEN_MIRRORED: _open_mirrored,
            AdminTask.CLOSE_MIRRORED: _close_mirrored,
            AdminTask.SET_TDR_DELAY: _set_tdr,
            AdminTask.RESET_TDR_DELAY: _reset_tdr,
        }
    )
)

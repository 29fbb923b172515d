"""What it takes to reach a server from other machines, and what stands open then.

A plan in words and commands, computed, never run from here: the Windows side needs an
administrator. Rules of WSL2 networking as read in its sources and documentation (2026).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from twinrig.domain.errors import UsageError
from twinrig.domain.profile import PROFILE_ID, Profile
from twinrig.engines.base import Engine
from twinrig.engines.field_rules import is_loopback
from twinrig.messages import Message, message

WSL_CREATOR = "{40E0AC32-46A5-438A-A0B2-2B479E8F2E90}"
"""Microsoft's fixed id of WSL as a creator of virtual machines."""


class NetworkKind(StrEnum):
    """How the Linux side hangs on the network. ``NATIVE``: no Windows between."""

    NATIVE = "native"
    NAT = "nat"
    MIRRORED = "mirrored"


@dataclass(frozen=True)
class WindowsStep:
    """One command for an administrator's PowerShell, and the one that takes it back."""

    purpose: Message
    command: str
    undo: str


@dataclass(frozen=True)
class LanPlan:
    """``urls`` are what other machines use; ``unguarded`` answers there without the key."""

    urls: tuple[str, ...]
    steps: tuple[WindowsStep, ...]
    unguarded: tuple[str, ...]
    notes: tuple[Message, ...]


def plan_lan(
    profile: Profile,
    engine: Engine,
    kind: NetworkKind,
    *,
    linux_address: str,
    lan_addresses: Sequence[str],
) -> LanPlan:
    """The plan for this profile. ``linux_address`` is the virtual machine's own, ``lan_addresses``
    those under which other machines know this computer.

    Raises UsageError for a server that listens on loopback, that has no key, or for addresses
    that are none: they would end up in a command for an administrator.
    """
    _refuse(profile, [linux_address, *lan_addresses])
    port = profile.network.port
    notes = [message("The key travels unencrypted; use it in a network that you trust.")]
    if kind is NetworkKind.NAT:
        notes.append(
            message(
                "The virtual machine's address changes with each start of WSL; so must the rule."
            )
        )
    return LanPlan(
        urls=tuple(f"http://{_in_url(address)}:{port}/v1" for address in lan_addresses),
        steps=_STEPS[kind](profile.id, port, linux_address),
        unguarded=engine.unguarded_paths,
        notes=tuple(notes),
    )


def _refuse(profile: Profile, addresses: Sequence[str]) -> None:
    if is_loopback(profile.network.host):
        raise UsageError(
            message("The server of {id} listens for this computer only.", id=profile.id),
            message("Set network.host to 0.0.0.0 and store a key first."),
        )
    if not profile.network.key_name:
        raise UsageError(
            message("The server of {id} has no key.", id=profile.id),
            message('Store one with "twinrig profiles key {id} --generate".', id=profile.id),
        )
    if not PROFILE_ID.fullmatch(profile.id):
        raise UsageError(
            message("{id} cannot be a profile's name.", id=profile.id),
            message("Use 1 to 48 small letters, digits or hyphens."),
        )
    for address in addresses:
        try:
            ipaddress.ip_address(address)
        except ValueError:
            raise UsageError(
                message("{address} is no IP address.", address=address),
                message("Look at the network settings of Windows and of WSL."),
            ) from None


def _in_url(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def _native(profile_id: str, port: int, address: str) -> tuple[WindowsStep, ...]:
    return ()


def _nat(profile_id: str, port: int, address: str) -> tuple[WindowsStep, ...]:
    name = f"Twinrig {profile_id}"
    listen = f"listenaddress=0.0.0.0 listenport={port}"
    return (
        WindowsStep(
            message("Pass connections on to the virtual machine"),
            f"netsh interface portproxy add v4tov4 {listen}"
            f" connectaddress={address} connectport={port}",
            f"netsh interface portproxy delete v4tov4 {listen}",
        ),
        WindowsStep(
            message("Let connections from the local network in"),
            f'New-NetFirewallRule -Name "{name}" -DisplayName "{name}" -Direction Inbound'
            f" -Action Allow -Protocol TCP -LocalPort {port} -Profile Private"
            " -RemoteAddress LocalSubnet",
            f'Remove-NetFirewallRule -Name "{name}"',
        ),
    )


def _mirrored(profile_id: str, port: int, address: str) -> tuple[WindowsStep, ...]:
    name = f"Twinrig {profile_id}"
    return (
        WindowsStep(
            message("Let connections through to the virtual machine"),
            f'New-NetFirewallHyperVRule -Name "{name}" -DisplayName "{name}" -Direction Inbound'
            f" -VMCreatorId '{WSL_CREATOR}' -Protocol TCP -LocalPorts {port} -Action Allow",
            f'Remove-NetFirewallHyperVRule -Name "{name}"',
        ),
    )


_STEPS = {
    NetworkKind.NATIVE: _native,
    NetworkKind.NAT: _nat,
    NetworkKind.MIRRORED: _mirrored,
}

"""Let other devices reach a server in WSL: the rules of Windows, by its mode of networking.

NAT: ``netsh interface portproxy`` to the virtual machine, and a rule of the Windows firewall for
the local network. Mirrored: a rule of the Hyper-V firewall, whose default is to block.
"""

from __future__ import annotations

from twinrig.domain.checks import Facts, Finding
from twinrig.domain.elevation import AdminAction, AdminTask
from twinrig.domain.errors import UsageError
from twinrig.domain.fixes import AdminStep, FixPlan
from twinrig.domain.profile import PROFILE_ID, Profile
from twinrig.domain.wsl_config import networking_mode
from twinrig.engines.field_rules import is_loopback
from twinrig.fixes.planning import UndecidedError, needs_profile
from twinrig.fixes.wslconfig_edits import read_config
from twinrig.messages import N_, Message, message

MIRRORED, NAT = "mirrored", "nat"
RISK = message(
    "Every device of your network can then try the server. The key travels unencrypted; use it in "
    "a network that you trust."
)


class LanOpen:
    """For a profile that listens for other devices and has a key."""

    id = "lan-open"
    title = N_("Let other devices reach the server")
    probes: tuple[str, ...] = ("windows_wslconfig", "address")

    def plan(self, finding: Finding, facts: Facts) -> FixPlan:
        """Raises UsageError for a server that has no key or is for this computer only."""
        profile = needs_profile(facts.profile)
        refuse_unguarded(profile)
        if is_loopback(profile.network.host):
            raise UsageError(
                message("The server of {id} listens for this computer only.", id=profile.id),
                message("Set network.host to 0.0.0.0 and store a key first."),
            )
        step = open_step(profile, *network_of(facts))
        return FixPlan(self.id, lan_title(profile), (step,), risk=RISK, needs_admin=True)


def lan_title(profile: Profile) -> Message:
    """With the port that is opened."""
    return message("Let other devices reach port {port}", port=profile.network.port)


def network_of(facts: Facts) -> tuple[str, str]:
    """Mode of networking, and WSL's own address. Raises UndecidedError when not known."""
    mode = networking_mode(read_config(facts).ini())
    lines = facts.probe("address").stdout.splitlines()
    found = [line.removeprefix("address ") for line in lines if line.startswith("address ")]
    if mode not in (MIRRORED, NAT) or (mode == NAT and not found):
        raise UndecidedError(
            message("It is not known how WSL hangs on the network."),
            message("Use NAT or mirrored networking, then try again."),
        )
    return mode, found[0] if found else ""


def open_step(profile: Profile, mode: str, address: str) -> AdminStep:
    """The step for Windows, and its way back. Raises UsageError for values that are none."""
    owned = (("profile", profile.id), ("port", str(profile.network.port)))
    try:
        if mode == MIRRORED:
            return AdminStep(
                AdminAction(AdminTask.OPEN_MIRRORED, owned),
                AdminAction(AdminTask.CLOSE_MIRRORED, owned),
            )
        return AdminStep(
            AdminAction(AdminTask.OPEN_NAT, (*owned, ("address", address))),
            AdminAction(AdminTask.CLOSE_NAT, owned),
        )
    except ValueError as error:
        raise UsageError(
            message("{address} is no IP address.", address=address),
            message("Look at the network settings of Windows and of WSL."),
        ) from error


def refuse_unguarded(profile: Profile) -> None:
    """Raises UsageError without a key, or for a name that no rule may have."""
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

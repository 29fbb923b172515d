"""Let other devices reach a server, and end it again.

On Linux it is the address on which the server listens. For a server in WSL Windows must let it
through too. NAT: ``netsh interface portproxy`` to the virtual machine, and a rule of the Windows
firewall for the local network. Mirrored: a rule of the Hyper-V firewall, whose default is to block.
"""

from __future__ import annotations

from twinrig.domain.checks import Facts, Finding
from twinrig.domain.elevation import AdminAction, AdminTask
from twinrig.domain.errors import UsageError
from twinrig.domain.fixes import AdminStep, FixPlan, FixStep, ProfileStep
from twinrig.domain.profile import PROFILE_ID, Profile
from twinrig.domain.wsl_config import networking_mode
from twinrig.engines.field_rules import is_loopback
from twinrig.fixes.planning import UndecidedError, needs_profile, nothing_to_change
from twinrig.fixes.wslconfig_edits import read_config
from twinrig.messages import N_, Message, message

ANYWHERE, HERE = "0.0.0.0", "127.0.0.1"
NO_KEY = "server-without-key"
"""``finding_id`` of the refusal to share a server that asks for no key."""

MIRRORED, NAT = "mirrored", "nat"
_PROBES = ("system", "windows_wslconfig", "address")


class LanOpen:
    """For a profile that has a key. The finding may name the paths that need none."""

    id = "lan-open"
    title = N_("Let other devices reach the server")
    probes: tuple[str, ...] = _PROBES

    def plan(self, finding: Finding, facts: Facts) -> FixPlan:
        """Raises UsageError for a server without a key, UndecidedError from inside WSL."""
        profile = needs_profile(facts.profile)
        refuse_unguarded(profile)
        way = windows_way(profile, facts)
        here = is_loopback(profile.network.host)
        bind = (_bind(profile, ANYWHERE, "reachable from other devices"),) if here else ()
        rules = () if way is None else (AdminStep(*way),)
        # First: what closes an earlier port takes the rule of the firewall along.
        steps: tuple[FixStep, ...] = (*bind, *_close_earlier(profile, finding, way), *rules)
        title = message("Let other devices reach port {port}", port=profile.network.port)
        if not steps:
            raise nothing_to_change(title)
        return FixPlan(
            self.id,
            title,
            steps,
            risk=_risk(finding),
            needs_admin=bool(rules),
            needs_restart=bool(bind),
        )


class LanClose:
    """The server is for this computer only again."""

    id = "lan-close"
    title = N_("Keep the server for this computer")
    probes: tuple[str, ...] = _PROBES

    def plan(self, finding: Finding, facts: Facts) -> FixPlan:
        """Raises NothingToChangeError for a server that other devices cannot reach."""
        profile = needs_profile(facts.profile)
        title = message("Keep port {port} for this computer", port=profile.network.port)
        if is_loopback(profile.network.host):
            raise nothing_to_change(title)
        way = windows_way(profile, facts)
        steps: tuple[FixStep, ...] = (_bind(profile, HERE, "for this computer only"),)
        if way is not None:
            earlier = _close_earlier(profile, finding, way)
            steps = (*steps, AdminStep(way[1], way[0]), *earlier)
        return FixPlan(self.id, title, steps, needs_admin=way is not None, needs_restart=True)


def _close_earlier(
    profile: Profile, finding: Finding, way: tuple[AdminAction, AdminAction] | None
) -> tuple[AdminStep, ...]:
    """Ends what Windows passes on for ports that the profile had before. Undo leaves it ended."""
    if way is None or way[1].task is not AdminTask.CLOSE_NAT:
        return ()  # a rule of the other firewall has the profile's name, and is replaced
    ports = [port for port in finding.param("earlier").split(",") if port]
    closing = [
        AdminAction(AdminTask.CLOSE_NAT, (("profile", profile.id), ("port", port)))
        for port in ports
    ]
    return tuple(AdminStep(action, action) for action in closing)


def _bind(profile: Profile, host: str, reason: str) -> ProfileStep:
    return ProfileStep(profile.id, {}, {}, reason, fields={"network.host": host})


def _risk(finding: Finding) -> Message:
    paths = finding.param("unguarded")
    if not paths:
        return message(
            "Every device of your network can then try the server. The key travels unencrypted; "
            "use it in a network that you trust."
        )
    return message(
        "Every device of your network can then try the server. The key travels unencrypted, and "
        "these paths answer without it: {paths}",
        paths=paths,
    )


def windows_way(profile: Profile, facts: Facts) -> tuple[AdminAction, AdminAction] | None:
    """What opens and what closes the way through Windows; None where there is none between.

    Raises UndecidedError where it is needed but cannot be taken from here.
    """
    system = facts.probe("system")
    if facts.probe("windows_wslconfig").returncode is None:
        if system.returncode == 0 and "wsl=yes" in system.stdout.splitlines():
            raise UndecidedError(
                message("Windows lies between, and Twinrig does not run there."),
                message("Run Twinrig on Windows, or run the commands there yourself."),
            )
        return None
    mode = networking_mode(read_config(facts).ini())
    lines = facts.probe("address").stdout.splitlines()
    found = [line.removeprefix("address ") for line in lines if line.startswith("address ")]
    if mode not in (MIRRORED, NAT) or (mode == NAT and not found):
        raise UndecidedError(
            message("It is not known how WSL is connected to the network."),
            message("Use NAT or mirrored networking, then try again."),
        )
    return _actions(profile, mode, found[0] if found else "")


def _actions(profile: Profile, mode: str, address: str) -> tuple[AdminAction, AdminAction]:
    owned = (("profile", profile.id), ("port", str(profile.network.port)))
    try:
        if mode == MIRRORED:
            return (
                AdminAction(AdminTask.OPEN_MIRRORED, owned),
                AdminAction(AdminTask.CLOSE_MIRRORED, owned),
            )
        opened = AdminAction(AdminTask.OPEN_NAT, (*owned, ("address", address)))
        return opened, AdminAction(AdminTask.CLOSE_NAT, owned)
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
            finding_id=NO_KEY,
        )
    if not PROFILE_ID.fullmatch(profile.id):
        raise UsageError(
            message("{id} cannot be a profile's name.", id=profile.id),
            message("Use 1 to 48 small letters, digits or hyphens."),
        )

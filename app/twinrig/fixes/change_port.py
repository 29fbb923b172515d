"""Give the server the next port on which nobody listens."""

from __future__ import annotations

from twinrig.domain.checks import Facts, Finding
from twinrig.domain.fixes import FixPlan, ProfileStep
from twinrig.fixes.planning import UndecidedError, needs_profile
from twinrig.messages import N_, message

_HIGHEST_PORT = 65535


class ChangePort:
    """The finding may name a free port; else it is looked for above the present one."""

    id = "cfg-change-port"
    title = N_("Use another port")
    probes: tuple[str, ...] = ("port",)

    def plan(self, finding: Finding, facts: Facts) -> FixPlan:
        """Raises UndecidedError when it is not known which ports are free."""
        profile = needs_profile(facts.profile)
        port = int(finding.param("free_port", "0") or 0) or _next_free(facts, profile.network.port)
        if port == profile.network.port or not 0 < port <= _HIGHEST_PORT:
            raise UndecidedError(
                message("No free port is known."),
                message("Choose a port in the profile yourself."),
            )
        step = ProfileStep(profile.id, {}, {}, "the port was in use", fields={"network.port": port})
        return FixPlan(
            self.id,
            message("Use port {port} instead of {old}", port=port, old=profile.network.port),
            (step,),
            risk=message("Clients must be told the new port."),
            needs_restart=True,
        )


def _next_free(facts: Facts, port: int) -> int:
    output = facts.probe("port")
    if output.returncode != 0 or f"checked={port}" not in output.stdout.splitlines():
        return 0
    words = [line.split(" ") for line in output.stdout.splitlines()]
    busy = {int(w[1]) for w in words if len(w) == 2 and w[0] == "busy" and w[1].isdecimal()}
    return next((p for p in range(port + 1, _HIGHEST_PORT + 1) if p not in busy), 0)

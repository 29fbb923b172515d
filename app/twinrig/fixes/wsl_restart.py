"""Restart WSL: stops everything in it, and starts a server that ran again."""

from __future__ import annotations

from twinrig.domain.checks import Facts, Finding
from twinrig.domain.fixes import FixPlan, RestartWslStep
from twinrig.fixes.planning import UndecidedError
from twinrig.messages import N_, message


class WslRestartFix:
    """Only where Twinrig runs on Windows: from inside it would end itself."""

    id = "wsl-restart"
    title = N_("Restart WSL")
    probes: tuple[str, ...] = ("windows_wsl",)

    def plan(self, finding: Finding, facts: Facts) -> FixPlan:
        """Raises UndecidedError elsewhere."""
        if facts.probe("windows_wsl").returncode != 0:
            raise UndecidedError(
                message("WSL cannot be restarted from inside WSL or without Windows."),
                message("In PowerShell: wsl --shutdown"),
            )
        return FixPlan(
            self.id,
            message("Restart WSL"),
            (RestartWslStep(),),
            risk=message(
                "Everything that runs in WSL is stopped, that of other programs such as Docker "
                "Desktop too."
            ),
            needs_wsl_shutdown=True,
            reversible=False,
        )

"""Let Windows wait longer before it resets a busy graphics card: ``TdrDelay`` in the registry."""

from __future__ import annotations

from twinrig.domain.checks import Facts, Finding
from twinrig.domain.elevation import LONGEST_TDR_DELAY_S, AdminAction, AdminTask
from twinrig.domain.fixes import AdminStep, FixPlan
from twinrig.fixes.planning import UndecidedError, nothing_to_change
from twinrig.messages import N_, message

DELAY_S = 10


class TdrDelay:
    """Needs an administrator and a restart of Windows."""

    id = "win-tdr-delay"
    title = N_("Let Windows wait longer for the card")
    probes: tuple[str, ...] = ("windows_graphics",)

    def plan(self, finding: Finding, facts: Facts) -> FixPlan:
        """Raises UndecidedError where the present value is not known."""
        output = facts.probe("windows_graphics")
        if output.returncode != 0 or "hags=" not in output.stdout:
            raise UndecidedError(
                message("The present value of {key} could not be read.", key="TdrDelay"),
                message("Run the check again."),
            )
        title = message("Let Windows wait {seconds} s for the card", seconds=DELAY_S)
        present = _present(output.stdout)
        if present is not None and present >= DELAY_S:
            raise nothing_to_change(title)
        wanted = AdminAction(AdminTask.SET_TDR_DELAY, (("seconds", str(DELAY_S)),))
        return FixPlan(
            self.id,
            title,
            (AdminStep(wanted, _back(present)),),
            risk=message("A card that really hangs is noticed later, for all programs."),
            needs_admin=True,
            needs_reboot=True,
        )


def _present(text: str) -> int | None:
    found = [line.partition("=")[2] for line in text.splitlines() if line.startswith("tdr_delay_s")]
    return int(found[0]) if found and found[0].isdecimal() else None


def _back(present: int | None) -> AdminAction:
    """What was not set, or is no value of the list, goes back to Windows' default."""
    if present is None or not 1 <= present <= LONGEST_TDR_DELAY_S:
        return AdminAction(AdminTask.RESET_TDR_DELAY)
    return AdminAction(AdminTask.SET_TDR_DELAY, (("seconds", str(present)),))

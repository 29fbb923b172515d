"""Put Windows' driver libraries into the list of the loader, as WSL itself does by default."""

from __future__ import annotations

from twinrig.domain.checks import Facts, Finding
from twinrig.domain.fixes import CommandStep, FixPlan
from twinrig.fixes.drop_ins import LOADER, drop_in
from twinrig.fixes.planning import UndecidedError, nothing_to_change
from twinrig.messages import N_, message

CONTENT = "/usr/lib/wsl/lib\n"


class DriverLibraries:
    """A file of the loader, then its cache; undo removes the file and makes the cache anew."""

    id = "wsl-ldpath-wsllib"
    title = N_("Let Linux find the driver's libraries")
    probes: tuple[str, ...] = ("wsl", "drop_ins")

    def plan(self, finding: Finding, facts: Facts) -> FixPlan:
        """Raises UndecidedError where Windows' driver is not mounted at all."""
        if "driver=yes" not in facts.probe("wsl").stdout.splitlines():
            raise UndecidedError(
                message("The driver that Windows mounts at /usr/lib/wsl/lib is not there."),
                message("Restart WSL first."),
            )
        steps = drop_in(facts, LOADER, CONTENT)
        title = message("Let Linux find the driver's libraries")
        if not steps:
            raise nothing_to_change(title)
        # Undo goes backwards: the one before the file makes the cache anew without it.
        refresh = CommandStep(("ldconfig",), ("ldconfig",), root=True)
        return FixPlan(
            self.id,
            title,
            (refresh, *steps, refresh),
            needs_root=True,
            needs_restart=True,
        )

"""Remove what dead servers left in /dev/shm; only while no server runs that may use it."""

from __future__ import annotations

from twinrig.domain.checks import Facts, Finding
from twinrig.domain.fixes import CommandStep, FixPlan
from twinrig.fixes.planning import UndecidedError
from twinrig.messages import N_, message


class ShmLeftovers:
    """Names of NCCL, torch and vLLM only. Their content means nothing without their process."""

    id = "shm-size"
    title = N_("Make room in /dev/shm")
    probes: tuple[str, ...] = ("shm", "workers")

    def plan(self, finding: Finding, facts: Facts) -> FixPlan:
        """Raises UndecidedError when nothing is left there, or something may use it."""
        lines = facts.probe("shm").stdout.splitlines()
        left = [line.split(" ", 2)[2] for line in lines if line.startswith("left ")]
        used = {line.removeprefix("mapped ") for line in lines if line.startswith("mapped ")}
        workers = facts.probe("workers").stdout.splitlines()
        quiet = workers == ["checked=yes"]
        stale = [path for path in left if path not in used]
        if not stale or not quiet:
            raise UndecidedError(
                message("Nothing can be removed from /dev/shm without harm."),
                message("Stop all servers first; else it must be made larger."),
            )
        return FixPlan(
            self.id,
            message("Remove what dead servers left in /dev/shm ({count} files)", count=len(stale)),
            (CommandStep(("rm", "-f", "--", *stale), None, timeout_s=30.0),),
            risk=message("A program that still uses them, unseen from here, would end."),
            reversible=False,
        )

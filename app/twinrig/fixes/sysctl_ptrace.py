"""Allow processes of one user to share file descriptors: ``kernel.yama.ptrace_scope=0``.

The drop-in makes it last over a restart, the command applies it now. Undo puts both back.
"""

from __future__ import annotations

import hashlib

from twinrig.domain.checks import Facts, Finding
from twinrig.domain.fixes import CommandStep, FixPlan, FixStep, WriteFileStep
from twinrig.fixes.planning import UndecidedError, nothing_to_change
from twinrig.messages import N_, message

PATH = "/etc/sysctl.d/60-twinrig-ptrace.conf"
KEY = "kernel.yama.ptrace_scope"
CONTENT = (
    f"# Written by Twinrig: workers of one server share memory by file descriptor.\n{KEY} = 0\n"
)
_LOCKED = "3"


class SysctlPtrace:
    """Needs root; refuses when the drop-in changes between reading and writing."""

    id = "sysctl-ptrace-0"
    title = N_("Let workers of one user share memory (ptrace_scope = 0)")
    probes: tuple[str, ...] = ("ptrace", "ptrace_file")

    def plan(self, finding: Finding, facts: Facts) -> FixPlan:
        """Raises UndecidedError when the value cannot be read or lowered."""
        title = message("Let workers of one user share memory (ptrace_scope = 0)")
        scope = facts.probe("ptrace").stdout.strip()
        if scope == "absent":
            raise nothing_to_change(title)
        if scope == _LOCKED:
            raise UndecidedError(
                message("The kernel keeps ptrace_scope at 3 until the next boot."),
                message("Remove the setting that raises it, then restart."),
            )
        if scope not in ("0", "1", "2"):
            raise UndecidedError(
                message("The present value of {key} could not be read.", key=KEY),
                message("Run the check again."),
            )
        steps = (*_file_steps(facts), *_command_steps(scope))
        if not steps:
            raise nothing_to_change(title)
        return FixPlan(
            fix_id=self.id,
            title=title,
            steps=steps,
            risk=message(
                "Any of your programs may then look into your other programs: "
                "they are less isolated from each other."
            ),
            needs_root=True,
            needs_restart=True,
        )


def _file_steps(facts: Facts) -> tuple[FixStep, ...]:
    output = facts.probe("ptrace_file")
    answer = output.stdout.strip()
    if output.returncode != 0 or not (answer == "absent" or answer.startswith("sha256=")):
        raise UndecidedError(
            message("{path} could not be read.", path=PATH),
            message("Look at the file, then try again."),
        )
    present = "" if answer == "absent" else answer.removeprefix("sha256=")
    if present == hashlib.sha256(CONTENT.encode()).hexdigest():
        return ()
    return (WriteFileStep(PATH, CONTENT, expected_sha256=present, mode=0o644, root=True),)


def _command_steps(scope: str) -> tuple[FixStep, ...]:
    if scope == "0":
        return ()
    return (
        CommandStep(
            ("sysctl", "-w", f"{KEY}=0"),
            ("sysctl", "-w", f"{KEY}={scope}"),
            root=True,
            timeout_s=10.0,
        ),
    )

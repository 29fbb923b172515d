"""Does systemd run in the distribution? Settings of the kernel last only with it.

A server that Twinrig keeps does not need it; ``/etc/sysctl.d`` and user units do.
"""

from __future__ import annotations

from twinrig.checks.judging import (
    evidence_of,
    garbled,
    key_values,
    on_wsl,
    passed,
    probe_fault,
    warned,
)
from twinrig.domain.checks import Check, CheckResult, Facts, Finding, Severity
from twinrig.messages import N_, message

ID = "wsl-systemd"
_KIND = "wsl-systemd-off"


def judge(facts: Facts) -> CheckResult:
    """A warning, never more: servers start without it."""
    output = facts.probe("init")
    if (fault := probe_fault(ID, facts.probe("system")) or probe_fault(ID, output)) is not None:
        return fault
    if not on_wsl(facts):
        text = message("Not under WSL")
        return passed(ID, text, evidence_of(facts.probe("system")))
    state = key_values(output).get("systemd")
    if state not in ("yes", "no"):
        return garbled(ID, output)
    if state == "yes":
        return passed(ID, message("systemd runs"), evidence_of(output))
    return warned(
        ID,
        message(
            "systemd does not run in this distribution: settings of the kernel are lost whenever "
            "WSL stops, and servers that are systemd units cannot start."
        ),
        Finding(_KIND, (), Severity.WARNING, ("wsl-enable-systemd",)),
        evidence_of(output),
    )


CHECK = Check(
    id=ID,
    title=N_("systemd runs in the distribution"),
    probes=("system", "init"),
    judge=judge,
    findings=(_KIND,),
)

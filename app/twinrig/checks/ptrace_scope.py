"""May the workers of a server share memory by file descriptor?

Only expandable segments need it (torch then duplicates a descriptor of the other process), and
only with more than one card. A kernel without Yama does not restrict. 3 cannot be lowered until
the next boot.
"""

from __future__ import annotations

from twinrig.checks.judging import evidence_of, failed, garbled, passed, probe_fault, warned
from twinrig.checks.profile_facts import rank_count, uses_expandable_segments
from twinrig.domain.checks import Check, CheckResult, Facts, Finding, Severity
from twinrig.messages import N_, message

ID = "ptrace-scope"
_LOCKED = 3


def judge(facts: Facts) -> CheckResult:
    """1 is every distribution's default: no warning unless the profile needs more."""
    output = facts.probe("ptrace")
    if (fault := probe_fault(ID, output)) is not None:
        return fault
    text = output.stdout.strip()
    if text == "absent":
        return passed(ID, message("The kernel does not restrict ptrace"), evidence_of(output))
    if text not in ("0", "1", "2", "3"):
        return garbled(ID, output)
    scope = int(text)
    needed = rank_count(facts.profile) > 1 and uses_expandable_segments(facts.profile)
    if scope == 0 or (scope == 1 and not needed):
        return passed(
            ID, message("kernel.yama.ptrace_scope is {scope}", scope=scope), evidence_of(output)
        )
    fixes = ("env-expandable-off",) if needed else ()
    if scope < _LOCKED:
        fixes = ("sysctl-ptrace-0", *fixes)
    params = (("scope", text),)
    if needed:
        return failed(
            ID,
            message(
                "kernel.yama.ptrace_scope is {scope}: workers with expandable segments "
                "cannot share memory.",
                scope=scope,
            ),
            Finding("pidfd-getfd-denied", params, fixes=fixes),
            evidence_of(output),
        )
    return warned(
        ID,
        message(
            "kernel.yama.ptrace_scope is {scope}, stricter than usual; some ways to share "
            "memory between workers do not work.",
            scope=scope,
        ),
        Finding("ptrace-scope-strict", params, Severity.WARNING, fixes),
        evidence_of(output),
        next_step=message("Nothing needs to be done unless a server reports pidfd_getfd."),
    )


CHECK = Check(
    id=ID,
    title=N_("Workers may share memory"),
    probes=("ptrace",),
    judge=judge,
    findings=("pidfd-getfd-denied", "ptrace-scope-strict"),
)

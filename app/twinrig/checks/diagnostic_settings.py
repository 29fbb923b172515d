"""Are settings of a diagnosis still in force?

``CUDA_LAUNCH_BLOCKING`` makes every kernel wait for the one before it, and ``NCCL_DEBUG=INFO``
writes a line a communicator and channel. Both are meant for one start that is to tell more
(failure catalogue 1.4 and 1.5), and are easily forgotten in the profile.
"""

from __future__ import annotations

from twinrig.checks.judging import passed, skipped, warned
from twinrig.domain.checks import Check, CheckResult, Evidence, Facts, Finding, Severity
from twinrig.messages import N_, message

ID = "diagnostic-settings"
_OFF = ("", "0")
_LOUD = ("INFO", "TRACE")


def judge(facts: Facts) -> CheckResult:
    """Looks at the profile only."""
    profile = facts.profile
    if profile is None:
        return skipped(ID, message("No profile was given."))
    env = {name: entry.value.strip() for name, entry in profile.env.items()}
    found = []
    if env.get("CUDA_LAUNCH_BLOCKING", "") not in _OFF:
        found.append("CUDA_LAUNCH_BLOCKING")
    if env.get("NCCL_DEBUG", "").upper() in _LOUD:
        found.append("NCCL_DEBUG")
    evidence = Evidence("profile", "\n".join(f"{n}={env[n]}" for n in found) or "-")
    if not found:
        return passed(ID, message("No setting of a diagnosis is left"), evidence)
    return warned(
        ID,
        message(
            "Settings of a diagnosis are still in force: {names}. They make the server slower or "
            "its log long.",
            names=", ".join(found),
        ),
        Finding(
            "diagnostic-settings-left",
            (("names", ",".join(found)),),
            severity=Severity.WARNING,
            fixes=("env-diagnosis-off",),
        ),
        evidence,
    )


CHECK = Check(
    id=ID,
    title=N_("No setting of a diagnosis is left"),
    probes=(),
    judge=judge,
    needs_profile=True,
    findings=("diagnostic-settings-left",),
)

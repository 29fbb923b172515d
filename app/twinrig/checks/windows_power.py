"""Does this computer run on mains? On battery Windows slows the cards and goes to sleep sooner.

Source: GetSystemPowerStatus. A desktop has no battery; what Windows does not tell accuses nobody.
"""

from __future__ import annotations

from twinrig.checks.judging import (
    evidence_of,
    garbled,
    key_values,
    passed,
    probe_fault,
    warned,
)
from twinrig.domain.checks import Check, CheckResult, Facts, Finding, Severity
from twinrig.messages import N_, message

ID = "windows-power"
_WORDS = frozenset({"yes", "no", "unknown"})


def judge(facts: Facts) -> CheckResult:
    """WARN on battery only; a UPS that has taken over counts as one."""
    output = facts.probe("windows_power")
    if (fault := probe_fault(ID, output)) is not None:
        return fault
    values = key_values(output)
    line, battery = values.get("line", ""), values.get("battery", "")
    if line not in _WORDS or battery not in _WORDS:
        return garbled(ID, output)
    if line == "no" and battery != "no":
        percent = values.get("percent", "-")
        return warned(
            ID,
            message(
                "This computer runs on battery ({percent} %): the cards are slowed, and it goes to "
                "sleep sooner, with the server.",
                percent=percent,
            ),
            Finding("on-battery", (("percent", percent),), Severity.WARNING),
            evidence_of(output),
            next_step=message("Plug it in before you start the server."),
        )
    return passed(ID, message("Not on battery"), evidence_of(output))


CHECK = Check(
    id=ID,
    title=N_("This computer runs on mains"),
    probes=("windows_power",),
    judge=judge,
    findings=("on-battery",),
)

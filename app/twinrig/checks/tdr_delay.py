"""How long does Windows wait for a graphics card before it resets it (TDR)?

The default of 2 s is enough for servers; a shorter time, or the time-out switched off, is not.
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

ID = "tdr-delay"
_KIND = "gpu-lost-tdr"
DEFAULT_S = 2
_OFF = "0"


def judge(facts: Facts) -> CheckResult:
    """What is not set is the default."""
    output = facts.probe("windows_graphics")
    if (fault := probe_fault(ID, output)) is not None:
        return fault
    values = key_values(output)
    text = values.get("tdr_delay_s", str(DEFAULT_S))
    if "hags" not in values or not text.isdecimal() or len(text) > 9:
        return garbled(ID, output)
    if values.get("tdr_level") == _OFF:
        return warned(
            ID,
            message("Windows never resets a card that hangs: the whole computer would hang."),
            Finding(_KIND, (("level", _OFF),), Severity.WARNING),
            evidence_of(output),
            next_step=message(
                "Remove the registry value TdrLevel below "
                "HKLM\\SYSTEM\\CurrentControlSet\\Control\\GraphicsDrivers, then restart Windows."
            ),
        )
    if int(text) < DEFAULT_S:
        return warned(
            ID,
            message("Windows resets a card that is busy for {seconds} s.", seconds=text),
            Finding(_KIND, (("delay_s", text),), Severity.WARNING, ("win-tdr-delay",)),
            evidence_of(output),
        )
    return passed(
        ID,
        message("Windows waits {seconds} s for a busy card", seconds=text),
        evidence_of(output),
    )


CHECK = Check(
    id=ID,
    title=N_("Windows leaves the cards time to work"),
    probes=("windows_graphics",),
    judge=judge,
    findings=(_KIND,),
)

"""Is virtualisation on, without which WSL 2 cannot start?

A Linux side that answers proves it. The flag of the firmware alone says nothing against it:
Windows hides the feature from programs while its own hypervisor runs.
"""

from __future__ import annotations

from twinrig.checks.judging import (
    evidence_of,
    failed,
    garbled,
    key_values,
    on_wsl,
    passed,
    probe_fault,
    unknown,
)
from twinrig.domain.checks import Check, CheckResult, Facts, Finding
from twinrig.messages import N_, message

ID = "virtualisation"
_KIND = "wsl-virtualization-off"
_WORDS = frozenset({"yes", "no", "unknown"})


def judge(facts: Facts) -> CheckResult:
    """FAIL only for the missing Windows feature; the firmware is named where nothing runs."""
    output = facts.probe("windows_virtual")
    if (fault := probe_fault(ID, output)) is not None:
        return fault
    values = key_values(output)
    platform, firmware = values.get("platform", ""), values.get("firmware", "")
    if not {platform, firmware} <= _WORDS:
        return garbled(ID, output)
    if facts.probe("system").returncode == 0 and on_wsl(facts):
        text = message("Virtualisation works: WSL runs")
        return passed(ID, text, evidence_of(output))
    if platform == "no":
        return failed(
            ID,
            message("The Windows feature “Virtual Machine Platform” is not installed."),
            Finding(_KIND, (("missing", "platform"),), fixes=("wsl-enable-vmp",)),
            evidence_of(output),
        )
    if firmware == "yes":
        text = message("Virtualisation is on, and the Virtual Machine Platform is installed")
        return passed(ID, text, evidence_of(output))
    return unknown(
        ID,
        message(
            "WSL does not answer, and Windows does not tell whether virtualisation is switched on "
            "in the firmware."
        ),
        evidence_of(output),
    )


CHECK = Check(
    id=ID,
    title=N_("Virtualisation is on"),
    probes=("windows_virtual",),
    judge=judge,
    findings=(_KIND,),
    optional=("system",),
)

"""Is the driver inside WSL the one that Windows brings, and no other?

Windows mounts its user-mode driver at /usr/lib/wsl/lib. A Linux driver installed inside the
distribution hides it (NVIDIA's guide for CUDA on WSL: never install one).
"""

from __future__ import annotations

from twinrig.checks.judging import (
    evidence_of,
    failed,
    key_values,
    on_wsl,
    passed,
    probe_fault,
    tagged,
    warned,
)
from twinrig.domain.checks import Check, CheckResult, Facts, Finding, ProbeOutput, Severity
from twinrig.messages import N_, message

ID = "wsl-driver"
_KIND = "cuda-driver-missing-wsl"


def judge(facts: Facts) -> CheckResult:
    """FAIL when Windows' driver is not there; WARN when another one stands beside it."""
    output = facts.probe("wsl")
    if (fault := probe_fault(ID, facts.probe("system")) or probe_fault(ID, output)) is not None:
        return fault
    if not on_wsl(facts):
        return passed(ID, message("Not under WSL"), evidence_of(facts.probe("system")))
    foreign = (*tagged(output, "package"), *tagged(output, "foreign"))
    if key_values(output).get("driver") != "yes":
        return failed(
            ID,
            message("The driver that Windows mounts at /usr/lib/wsl/lib is not there."),
            Finding(_KIND, (("foreign", foreign[0] if foreign else ""),), fixes=("wsl-restart",)),
            evidence_of(output),
        )
    if foreign:
        return warned(
            ID,
            message("A Linux driver is installed inside WSL: {name}", name=foreign[0]),
            Finding(
                _KIND,
                (("foreign", foreign[0]),),
                Severity.WARNING,
                ("wsl-remove-linux-driver", "wsl-restart"),
            ),
            evidence_of(output),
        )
    return _loader(output) or passed(
        ID, message("The driver is the one of Windows"), evidence_of(output)
    )


def _loader(output: ProbeOutput) -> CheckResult | None:
    """Programs take the first libcuda in the loader's list, wherever Windows' own one lies."""
    found = tagged(output, "library")
    if key_values(output).get("libraries") != "listed" or (found and _of_windows(found[0])):
        return None
    if found:
        finding = Finding(
            _KIND,
            (("foreign", found[0]),),
            Severity.WARNING,
            ("wsl-remove-linux-driver", "wsl-ldpath-wsllib", "wsl-restart"),
        )
        text = message("Programs find another driver library first: {name}", name=found[0])
        return warned(ID, text, finding, evidence_of(output))
    finding = Finding("wsl-driver-not-listed", (), Severity.WARNING, ("wsl-ldpath-wsllib",))
    text = message("Programs do not find the driver's library; its folder is not in the list.")
    return warned(ID, text, finding, evidence_of(output))


def _of_windows(path: str) -> bool:
    return "/wsl/" in path


CHECK = Check(
    id=ID,
    title=N_("No Linux driver inside WSL"),
    probes=("system", "wsl"),
    judge=judge,
    findings=(_KIND, "wsl-driver-not-listed"),
)

"""Does the distribution use WSL 2? WSL 1 has no kernel of its own and no graphics card."""

from __future__ import annotations

import re

from twinrig.checks.judging import (
    evidence_of,
    failed,
    garbled,
    key_values,
    on_wsl,
    passed,
    probe_fault,
)
from twinrig.domain.checks import Check, CheckResult, Facts, Finding
from twinrig.messages import N_, message

ID = "wsl-distro-version"
_WSL1_KERNEL = re.compile(r"4\.4\.0-\d+-Microsoft")
"""What WSL 1 says of itself whatever Windows it runs on; kernels of WSL 2 may be home-made."""


def judge(facts: Facts) -> CheckResult:
    """Told by the kernel's name."""
    output = facts.probe("system")
    if (fault := probe_fault(ID, output)) is not None:
        return fault
    values = key_values(output)
    kernel = values.get("kernel", "")
    if not kernel or values.get("wsl") not in ("yes", "no"):
        return garbled(ID, output)
    if not on_wsl(facts):
        return passed(ID, message("Not under WSL"), evidence_of(output))
    if not _WSL1_KERNEL.fullmatch(kernel):
        return passed(ID, message("WSL 2, kernel {kernel}", kernel=kernel), evidence_of(output))
    return failed(
        ID,
        message("The distribution uses WSL 1, which has no graphics card."),
        Finding("wsl-distro-version-one", (("kernel", kernel),)),
        evidence_of(output),
        next_step=message("Convert it in PowerShell: wsl --set-version DISTRIBUTION 2"),
    )


CHECK = Check(
    id=ID,
    title=N_("The distribution uses WSL 2"),
    probes=("system",),
    judge=judge,
    findings=("wsl-distro-version-one",),
)

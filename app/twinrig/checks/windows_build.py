"""Can this Windows give the graphics cards to WSL? Windows 11, or Windows 10 from 21H2 on.

Source: Microsoft's page on GPU compute in WSL (build 19044).
"""

from __future__ import annotations

from twinrig.checks.judging import (
    evidence_of,
    failed,
    garbled,
    key_values,
    passed,
    probe_fault,
)
from twinrig.domain.checks import Check, CheckResult, Facts, Finding
from twinrig.messages import N_, message

ID = "windows-build"
FIRST_BUILD = 19044


def judge(facts: Facts) -> CheckResult:
    """Any edition will do; Home has everything that WSL needs."""
    output = facts.probe("windows_system")
    if (fault := probe_fault(ID, output)) is not None:
        return fault
    values = key_values(output)
    build = values.get("build", "")
    if not build.isdecimal() or not 1 <= int(build) < 10**6:
        return garbled(ID, output)
    product = values.get("product") or "Windows"
    if int(build) >= FIRST_BUILD:
        return passed(
            ID,
            message("{product}, build {build}", product=product, build=build),
            evidence_of(output),
        )
    return failed(
        ID,
        message(
            "{product}, build {build}, cannot give the graphics cards to WSL.",
            product=product,
            build=build,
        ),
        Finding("windows-too-old", (("build", build),)),
        evidence_of(output),
        next_step=message("Update to Windows 11, or to Windows 10 21H2."),
    )


CHECK = Check(
    id=ID,
    title=N_("Windows is new enough"),
    probes=("windows_system",),
    judge=judge,
    findings=("windows-too-old",),
)

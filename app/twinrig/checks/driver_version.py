"""Is the driver readable and recent enough for any current engine?

Source of the rule: NVIDIA's release notes (minor-version compatibility): CUDA 12.x needs
driver 525 or newer. Whether CUDA 13 wheels are installed is another check's question; a driver
above the minimum is never called outdated.
"""

from __future__ import annotations

from twinrig.checks.gpu_facts import driver_cuda, driver_major, driver_version
from twinrig.checks.judging import evidence_of, failed, garbled, on_wsl, passed, probe_fault
from twinrig.domain.checks import Check, CheckResult, Facts, Finding
from twinrig.messages import N_, message

ID = "driver-version"
MINIMUM_DRIVER = 525


def judge(facts: Facts) -> CheckResult:
    """ERROR when no version can be read anywhere, FAIL below the minimum."""
    cards, header = facts.probe("gpu"), facts.probe("driver")
    major, version = driver_major(facts), driver_version(facts)
    if major is None or version is None:
        return probe_fault(ID, cards) or probe_fault(ID, header) or garbled(ID, header)
    evidence = (evidence_of(header), evidence_of(cards))
    if major < MINIMUM_DRIVER:
        return failed(
            ID,
            message(
                "The NVIDIA driver {version} is too old; {minimum} or newer is needed.",
                version=version,
                minimum=MINIMUM_DRIVER,
            ),
            Finding(
                "driver-too-old",
                (("driver", version), ("needed", str(MINIMUM_DRIVER))),
                fixes=("win-driver-update",) if on_wsl(facts) else (),
            ),
            *evidence,
            next_step=message("Install a current NVIDIA driver, then restart."),
        )
    cuda = driver_cuda(facts)
    if cuda is None:
        return passed(ID, message("Driver {version}", version=version), *evidence)
    return passed(
        ID,
        message(
            "Driver {version}, CUDA up to {cuda}", version=version, cuda=f"{cuda[0]}.{cuda[1]}"
        ),
        *evidence,
    )


CHECK = Check(
    id=ID,
    title=N_("NVIDIA driver is recent enough"),
    probes=("system", "gpu", "driver"),
    judge=judge,
    requires=("gpu-visible",),
    findings=("driver-too-old",),
)

"""Do the NCCL settings of the profile still stand on a proof made with these versions?

The experiment keeps driver, kernel, torch, NCCL and engine beside what it proved. When one of
them changes, the settings may be needless, or no longer enough.
"""

from __future__ import annotations

from twinrig.checks.engine_facts import dist_version
from twinrig.checks.judging import passed, probe_fault, skipped, warned
from twinrig.checks.nccl_facts import machine_versions
from twinrig.domain import fingerprint
from twinrig.domain.checks import Check, CheckResult, Evidence, Facts, Finding, Severity
from twinrig.messages import N_, message

ID = "nccl-proof"


def judge(facts: Facts) -> CheckResult:
    """Versions that cannot be read now are not called changed."""
    profile = facts.profile
    if profile is None:
        return skipped(ID, message("No profile was given."))
    reasons = [e.reason for e in profile.env.values() if fingerprint.from_text(e.reason)]
    if not reasons:
        return passed(ID, message("No settings were found by experiment"), Evidence("profile", "-"))
    for name in ("system", "gpu", "environment"):
        if (fault := probe_fault(ID, facts.probe(name))) is not None:
            return fault
    then, now = fingerprint.from_text(reasons[0]), _now(facts)
    changed = fingerprint.changed(then, now)
    lines = "\n".join(f"{name}: {before} -> {after}" for name, (before, after) in changed.items())
    evidence = Evidence("proof", lines or fingerprint.to_text(then))
    if not changed:
        return passed(ID, message("Proven with the present versions"), evidence)
    return warned(
        ID,
        message(
            "The NCCL settings were proven with other versions: {names}",
            names=", ".join(changed),
        ),
        Finding(
            "nccl-proof-stale",
            (("changed", ",".join(changed)),),
            Severity.WARNING,
            ("nccl-experiment",),
        ),
        evidence,
    )


def _now(facts: Facts) -> dict[str, str]:
    engine = facts.profile.engine.id if facts.profile else ""
    install = facts.install
    torch = dist_version(facts, "torch") or (install.torch_version if install else "")
    return {
        **machine_versions(facts),
        "torch": torch,
        engine: install.version if install else "",
    }


CHECK = Check(
    id=ID,
    title=N_("NCCL settings are proven"),
    probes=("system", "gpu", "driver", "environment"),
    judge=judge,
    requires=("gpu-visible", "engine-installed"),
    needs_profile=True,
    findings=("nccl-proof-stale",),
)

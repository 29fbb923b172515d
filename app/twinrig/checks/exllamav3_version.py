"""Is this exllamav3 free of the faults that are known of its versions?

Sources: exllamav3's history up to 1.6.5. The package of that name on the public index holds
sources only; ready wheels carry ``+cuNNN.torchX.Y``. Tensor parallelism under WSL used host
addresses before 1.1.0; a flag race in small gathers was there from 0.0.38 to 1.5.3.
"""

from __future__ import annotations

from twinrig.checks.engine_facts import dist_version, within
from twinrig.checks.judging import evidence_of, failed, on_wsl, passed, probe_fault, unknown, warned
from twinrig.checks.profile_facts import rank_count
from twinrig.domain.checks import Check, CheckResult, Facts, Finding, Severity
from twinrig.domain.profile import Profile
from twinrig.messages import N_, message

ID = "exllamav3-version"


def judge(facts: Facts) -> CheckResult:
    """Worst fault first; layer split is not concerned by those of tensor parallelism."""
    output = facts.probe("environment")
    if (fault := probe_fault(ID, output)) is not None:
        return fault
    version = dist_version(facts, "exllamav3")
    if within(version, ">=0") is None:
        return unknown(
            ID, message("The version of exllamav3 could not be read."), evidence_of(output)
        )
    return (
        _source_package(version, facts)
        or _old(version, facts)
        or passed(ID, message("exllamav3 {version}", version=version), evidence_of(output))
    )


def _source_package(version: str, facts: Facts) -> CheckResult | None:
    if "+cu" in version:
        return None
    return failed(
        ID,
        message(
            "exllamav3 {version} is a package of sources; its first start compiles for minutes "
            "or fails.",
            version=version,
        ),
        Finding(
            "exl3-source-package",
            (("version", version),),
            fixes=("pkg-exl3-wheel", "apt-cuda-nvcc"),
        ),
        evidence_of(facts.probe("environment")),
    )


def _old(version: str, facts: Facts) -> CheckResult | None:
    evidence = evidence_of(facts.probe("environment"))
    params = (("version", version),)
    if _drafts(facts.profile) and within(version, "<1.0.0"):
        return warned(
            ID,
            message(
                "exllamav3 {version} repeats itself when it guesses ahead for several requests; "
                "1.0.0 mended it.",
                version=version,
            ),
            Finding(
                "exl3-draft-rewind",
                params,
                Severity.WARNING,
                ("pkg-upgrade-exllamav3",),
            ),
            evidence,
        )
    if rank_count(facts.profile) < 2:
        return None
    if on_wsl(facts) and within(version, "<1.1.0"):
        return failed(
            ID,
            message(
                "Tensor parallelism of exllamav3 {version} reads wrong addresses under WSL; "
                "1.1.0 and newer do not.",
                version=version,
            ),
            Finding(
                "exl3-tp-hostptr",
                params,
                fixes=("pkg-upgrade-exllamav3", "tabby-disable-tp", "exl3-own-gather"),
            ),
            evidence,
        )
    if within(version, ">=0.0.38,<1.6.0"):
        return warned(
            ID,
            message(
                "In exllamav3 {version} ranks may lose step with each other; 1.6.0 mended it.",
                version=version,
            ),
            Finding(
                "exl3-tp-sync-timeout",
                params,
                Severity.WARNING,
                ("pkg-upgrade-exllamav3", "tabby-disable-tp"),
            ),
            evidence,
        )
    return None


def _drafts(profile: Profile | None) -> bool:
    """Speculative decoding for several requests at a time; unset leaves it to tabbyAPI."""
    if profile is None or profile.settings.get("draft_mode") in (None, "disabled"):
        return False
    return profile.settings.get("max_batch_size") != 1


CHECK = Check(
    id=ID,
    title=N_("exllamav3 has no known fault"),
    probes=("system", "environment"),
    judge=judge,
    requires=("engine-installed",),
    needs_profile=True,
    engines=("tabbyapi",),
    findings=(
        "exl3-source-package",
        "exl3-tp-hostptr",
        "exl3-tp-sync-timeout",
        "exl3-draft-rewind",
    ),
)

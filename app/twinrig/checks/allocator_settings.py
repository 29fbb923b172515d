"""Do the settings of torch's allocator suit the engine?

The engines contradict each other: expandable segments save exllamav3's tensor parallelism, and
give vLLM's custom all-reduce and its memory pool addresses that they cannot share. tabbyAPI
overwrites what the profile asks for unless ``cuda_malloc_async`` is off (default on since
2026-04-17). Sources: failure catalogue A and E; tabbyAPI's main.py of August 2026.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from twinrig.checks.judging import failed, passed, skipped, warned
from twinrig.checks.profile_facts import ALLOCATOR_NAMES, rank_count, uses_expandable_segments
from twinrig.domain.checks import Check, CheckResult, Evidence, Facts, Finding, Severity
from twinrig.domain.profile import Profile
from twinrig.messages import N_, message

ID = "allocator-settings"


def judge(facts: Facts) -> CheckResult:
    """A profile that sets nothing is fine with every engine."""
    profile = facts.profile
    if profile is None:
        return skipped(ID, message("No profile was given."))
    values = {name: profile.env[name].value for name in ALLOCATOR_NAMES if name in profile.env}
    evidence = Evidence("profile", "\n".join(f"{n}={v}" for n, v in values.items()) or "-")
    if not values:
        return passed(ID, message("torch's own settings are used"), evidence)
    judge_rows = _ROWS.get(profile.engine.id)
    judged = judge_rows(profile, evidence) if judge_rows is not None else None
    return judged or passed(ID, message("The allocator settings suit the engine"), evidence)


def _vllm(profile: Profile, evidence: Evidence) -> CheckResult | None:
    if not uses_expandable_segments(profile):
        return None
    if profile.settings.get("enable_sleep_mode"):
        return failed(
            ID,
            message("Sleep mode and expandable segments exclude each other."),
            Finding("cumem-expandable-assert", fixes=("env-expandable-off", "flag-no-sleep-mode")),
            evidence,
        )
    if rank_count(profile) < 2 or profile.settings.get("disable_custom_all_reduce"):
        return None
    return warned(
        ID,
        message("vLLM's own all-reduce cannot share memory of expandable segments."),
        Finding(
            "custom-ar-vmm-invalid-argument",
            severity=Severity.WARNING,
            fixes=("env-expandable-off", "flag-disable-custom-ar"),
        ),
        evidence,
    )


def _tabby(profile: Profile, evidence: Evidence) -> CheckResult | None:
    if profile.settings.get("cuda_malloc_async") is False:
        return None
    return warned(
        ID,
        message("tabbyAPI overwrites these settings while cuda_malloc_async is on."),
        Finding(
            "tabby-malloc-async-override",
            severity=Severity.WARNING,
            fixes=("tabby-malloc-async-false",),
        ),
        evidence,
    )


_ROWS: Mapping[str, Callable[[Profile, Evidence], CheckResult | None]] = MappingProxyType(
    {"vllm": _vllm, "tabbyapi": _tabby}
)
"""What is known of each engine; another one is fine with all settings."""

CHECK = Check(
    id=ID,
    title=N_("Allocator settings suit the engine"),
    probes=(),
    judge=judge,
    needs_profile=True,
    findings=(
        "cumem-expandable-assert",
        "custom-ar-vmm-invalid-argument",
        "tabby-malloc-async-override",
    ),
)

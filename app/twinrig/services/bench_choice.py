"""Makes a measured setup that of a profile: a change of the profile like any other fix."""

from __future__ import annotations

from collections.abc import Mapping

from twinrig.domain.benchmark import BenchmarkResult
from twinrig.domain.checks import Finding, Severity
from twinrig.domain.errors import ConflictError
from twinrig.domain.fixes import FixPlan, ProfileStep
from twinrig.domain.profile import Profile
from twinrig.messages import message
from twinrig.services.bench_results import MASK, flat_settings
from twinrig.services.bench_store import difference

FIX_ID = "benchmark-choice"
_PARTS = ("settings", "extra", "env")


def choice_plan(
    profile: Profile, measured: BenchmarkResult, best: BenchmarkResult
) -> FixPlan | None:
    """What gives ``profile`` the settings of ``best``; None when that needs no change, or another
    engine or model. ``measured`` is the profile's own result.

    Raises ConflictError when the profile is not what was measured any more.
    """
    if flat_settings(profile) != dict(measured.settings):
        raise ConflictError(
            message("The profile {name} was changed after it was measured.", name=profile.name),
            message("Measure again, or change the settings by hand."),
        )
    same = (measured.engine_id, measured.model) == (best.engine_id, best.model)
    changes: dict[str, dict[str, object]] = {part: {} for part in _PARTS}
    for name, _, value in difference(measured, best):
        part, _, key = name.partition(".")
        if part in changes and key and value != MASK:
            changes[part][key] = value
    if not same or not any(changes.values()):
        return None
    step = ProfileStep(
        profile.id,
        changes["settings"],
        _texts(changes["env"]),
        f"measured as best: profile {best.profile_id}",
        extra=changes["extra"],
    )
    return FixPlan(
        FIX_ID,
        message(
            "Use the settings of {best} in {profile}", best=best.profile_name, profile=profile.name
        ),
        (step,),
        needs_restart=True,
    )


def choice_finding(measured: BenchmarkResult, best: BenchmarkResult) -> Finding:
    """The reason, for the journal."""
    params = (("profile", measured.profile_id), ("best", best.profile_id), ("result", best.id))
    return Finding(FIX_ID, params, Severity.INFO, (FIX_ID,))


def _texts(values: Mapping[str, object]) -> dict[str, str | None]:
    return {name: None if value is None else str(value) for name, value in values.items()}

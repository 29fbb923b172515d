"""Settings of a diagnosis are meant for one start; what is left of them is told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fixtures.standard_machine import facts
from twinrig.checks import diagnostic_settings
from twinrig.domain.checks import CheckResult, Status
from twinrig.domain.fixes import FixPlan, ProfileStep
from twinrig.domain.profile import EnvEntry
from twinrig.fixes.edit_table import EDITS
from twinrig.fixes.profile_edits import ProfileEditFix


def judge(**env: str) -> CheckResult:
    profile = facts().profile
    assert profile is not None
    entries = {name: EnvEntry(value) for name, value in env.items()}
    return diagnostic_settings.judge(replace(facts(), profile=replace(profile, env=entries)))


@pytest.mark.parametrize(
    "env",
    [
        {},
        {"CUDA_LAUNCH_BLOCKING": "0", "NCCL_DEBUG": "WARN"},
        {"CUDA_LAUNCH_BLOCKING": "", "NCCL_DEBUG": "VERSION"},
        {"NCCL_P2P_DISABLE": "1"},
    ],
)
def test_ordinary_settings_are_fine(env: dict[str, str]) -> None:
    result = judge(**env)
    assert (result.status, result.finding) == (Status.PASS, None)


@pytest.mark.parametrize(
    ("env", "names"),
    [
        ({"CUDA_LAUNCH_BLOCKING": "1"}, "CUDA_LAUNCH_BLOCKING"),
        ({"NCCL_DEBUG": "info"}, "NCCL_DEBUG"),
        ({"NCCL_DEBUG": "TRACE", "CUDA_LAUNCH_BLOCKING": "1"}, "CUDA_LAUNCH_BLOCKING,NCCL_DEBUG"),
    ],
)
def test_what_is_left_is_named_and_can_be_taken_out(env: dict[str, str], names: str) -> None:
    result = judge(**env)
    assert result.status is Status.WARN
    assert result.finding is not None
    assert dict(result.finding.params) == {"names": names}
    (fix_id,) = result.finding.fixes
    fix = ProfileEditFix(next(row for row in EDITS if row.fix_id == fix_id))
    profile = facts().profile
    assert profile is not None
    loud = replace(profile, env={name: EnvEntry(value) for name, value in env.items()})
    plan = fix.plan(result.finding, replace(facts(), profile=loud))
    assert isinstance(plan, FixPlan) and plan.reversible
    (step,) = plan.steps
    assert isinstance(step, ProfileStep)
    assert dict(step.env) == {"CUDA_LAUNCH_BLOCKING": None, "NCCL_DEBUG": None}


def test_without_a_profile_nothing_is_judged() -> None:
    assert diagnostic_settings.judge(replace(facts(), profile=None)).status is Status.SKIP

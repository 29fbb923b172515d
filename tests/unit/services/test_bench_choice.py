"""A measured setup becomes that of a profile, through the fixer, and back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fixtures.bench_results import result
from fixtures.fixer_rig import Rig
from twinrig.domain.errors import ConflictError
from twinrig.domain.profile import EngineRef, EnvEntry, ModelRef, Profile
from twinrig.services.bench_choice import FIX_ID, choice_finding, choice_plan
from twinrig.services.bench_results import flat_settings
from twinrig.services.journal import Outcome

MINE = Profile(
    "qwen",
    "Qwen",
    "local",
    EngineRef("tabbyapi"),
    ModelRef("/models/coder"),
    settings={"tensor_parallel": True, "draft_mode": "mtp", "gpu_split": ("10", "11")},
    env={"HF_TOKEN": EnvEntry("hf_secret"), "MAX_JOBS": EnvEntry("4")},
)
BETTER = replace(
    MINE,
    id="plain",
    name="Plain",
    settings={"tensor_parallel": True, "draft_mode": "disabled", "max_batch_size": 8},
    env={"HF_TOKEN": EnvEntry("other"), "NCCL_DEBUG": EnvEntry("WARN")},
)


def measured(profile: Profile, **changes: object):
    made = result(profile.name, flat_settings(profile), {1: (25, 26, 27)})
    return replace(made, profile_id=profile.id, **changes)


def test_no_secret_gets_into_a_result() -> None:
    settings = flat_settings(MINE)
    assert "hf_secret" not in str(settings)
    assert settings["env.MAX_JOBS"] == "4" and settings["settings.gpu_split"] == ["10", "11"]


def test_the_plan_changes_exactly_what_differs() -> None:
    plan = choice_plan(MINE, measured(MINE), measured(BETTER))
    assert plan is not None and plan.needs_restart and plan.fix_id == FIX_ID
    (step,) = plan.steps
    assert step.settings == {"draft_mode": "disabled", "gpu_split": None, "max_batch_size": 8}
    assert step.env == {"MAX_JOBS": None, "NCCL_DEBUG": "WARN"}


def test_nothing_to_change() -> None:
    assert choice_plan(MINE, measured(MINE), measured(MINE)) is None
    assert choice_plan(MINE, measured(MINE), measured(BETTER, model="/models/other")) is None
    assert choice_plan(MINE, measured(MINE), measured(BETTER, engine_id="vllm")) is None


def test_a_profile_changed_since_is_left_alone() -> None:
    edited = replace(MINE, settings={**MINE.settings, "max_batch_size": 2})
    with pytest.raises(ConflictError, match="changed after it was measured"):
        choice_plan(edited, measured(MINE), measured(BETTER))


async def test_applied_and_taken_back_by_the_fixer(rig: Rig) -> None:
    rig.store.profiles["qwen"] = MINE
    one, best = measured(MINE), measured(BETTER)
    plan = choice_plan(MINE, one, best)
    assert plan is not None
    outcome = await rig.fixer.apply(choice_finding(one, best), plan, MINE)
    changed = rig.store.profiles["qwen"]
    assert outcome.applied
    assert changed.settings == dict(BETTER.settings)
    assert changed.env["HF_TOKEN"] == EnvEntry("hf_secret")
    assert changed.env["NCCL_DEBUG"].reason == "measured as best: profile plain"
    assert rig.journal.entries()[-1].outcome is Outcome.APPLIED
    await rig.fixer.undo(outcome.entry_id)
    assert rig.store.profiles["qwen"] == MINE

"""Every fix that Twinrig can do itself, cut off between any two of its steps."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fixtures.fixer_rig import FIXES, Rig
from fixtures.standard_machine import INSTALL, facts, profile_with, tabby
from twinrig.domain.checks import Facts, Finding
from twinrig.domain.errors import UsageError
from twinrig.domain.fixes import FixPlan
from twinrig.domain.profile import Profile
from twinrig.services.journal import Outcome

PARAMS = (
    ("port", "8001"),
    ("free_port", "8001"),
    ("free_gib", "20.0"),
    ("total_gib", "24.0"),
    ("argument", "--nonsense"),
)
ENV = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
SETTINGS: dict[str, Any] = {"enable_sleep_mode": True, "max_num_seqs": 8}


class PowerCutError(BaseException):
    """Ends everything at once, as a crash would."""


def plans() -> list[tuple[str, FixPlan, Profile]]:
    """Each fix with the first situation in which it has a plan."""
    vllm = profile_with(env=ENV, **SETTINGS)
    newer = replace(INSTALL, version="0.29.0")
    situations: list[Facts] = [
        facts(profile=vllm, install=newer),
        facts(profile=profile_with(), install=newer),
        tabby(),
    ]
    found: list[tuple[str, FixPlan, Profile]] = []
    for fix_id, fix in FIXES.items():
        for given in situations:
            try:
                plan = fix.plan(Finding(f"for-{fix_id}", PARAMS), given)
            except UsageError:
                continue
            if isinstance(plan, FixPlan) and given.profile is not None:
                found.append((fix_id, plan, given.profile))
                break
    return found


PLANS = plans()


def state(rig: Rig) -> tuple[Any, ...]:
    return dict(rig.host.files), dict(rig.host.modes), dict(rig.store.profiles), rig.scope


def test_there_is_something_to_walk_through() -> None:
    assert len(PLANS) >= 25
    assert {"sysctl-ptrace-0", "env-nccl-cumem-0", "cfg-change-port"} <= {p[0] for p in PLANS}


def cut_after(rig: Rig, calls: int) -> None:
    """The power goes at the given event of the journal; what was done before it stays."""
    real = rig.journal._write
    left = [calls]

    def write(event: Any, entry_id: str) -> None:
        if left[0] == 0:
            raise PowerCutError
        left[0] -= 1
        real(event, entry_id)

    rig.journal._write = write  # type: ignore[method-assign]


@pytest.mark.parametrize(("fix_id", "plan", "profile"), PLANS, ids=[p[0] for p in PLANS])
async def test_cut_off_anywhere_it_can_be_taken_back(
    tmp_path: Path, fix_id: str, plan: FixPlan, profile: Profile
) -> None:
    events = 2 + 2 * len(plan.steps)  # begin, step and done of each, end
    for calls in range(events):
        folder = tmp_path / str(calls)
        folder.mkdir()
        rig = Rig(folder, profile)
        before = state(rig)
        cut_after(rig, calls)
        with pytest.raises(PowerCutError):
            await rig.fixer.apply(Finding(f"for-{fix_id}", PARAMS), plan, profile)

        again = Rig(folder, profile, scope=rig.scope)  # the next start of the program
        again.host.files, again.host.modes = rig.host.files, rig.host.modes
        again.store.profiles = rig.store.profiles
        for entry in again.journal.entries():
            assert entry.outcome is Outcome.OPEN and entry.can_undo
            await again.fixer.undo(entry.id)
        assert state(again) == before, f"cut off after {calls} events"


@pytest.mark.parametrize(("fix_id", "plan", "profile"), PLANS, ids=[p[0] for p in PLANS])
async def test_applied_and_taken_back_everything_is_as_before(
    tmp_path: Path, fix_id: str, plan: FixPlan, profile: Profile
) -> None:
    rig = Rig(tmp_path, profile)
    before = state(rig)
    outcome = await rig.fixer.apply(Finding(f"for-{fix_id}", PARAMS), plan, profile)
    assert outcome.applied and state(rig) != before
    await rig.fixer.undo(outcome.entry_id)
    assert state(rig) == before

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.fixer_rig import FIXES, Rig
from fixtures.standard_machine import facts, profile_with
from twinrig.domain.checks import CheckResult, Finding, Status
from twinrig.domain.errors import UsageError
from twinrig.domain.fixes import FixPlan
from twinrig.fixes.registry import PLANNED
from twinrig.fixes.safety import ASKS, is_safe
from twinrig.messages import message
from twinrig.services.safe_fixes import SafeFix, SafeFixes


def found(*fixes: str, finding: str = "diagnostic-settings-left") -> CheckResult:
    return CheckResult("x", Status.WARN, message("x"), Finding(finding, fixes=fixes))


async def run(rig: Rig, *results: CheckResult) -> list[SafeFix]:
    profile = rig.store.profiles["qwen"]
    safe = SafeFixes(rig.fixer, rig.store)
    return [item async for item in safe.apply(results, profile)]


LEFT = profile_with(env={"NCCL_DEBUG": "INFO"})


async def test_safe_fix_is_applied_proven_and_kept(tmp_path: Path) -> None:
    rig = Rig(tmp_path, LEFT)
    (item,) = await run(rig, found("env-diagnosis-off"))

    assert item.kept and item.plan.fix_id == "env-diagnosis-off"
    assert "NCCL_DEBUG" not in rig.store.profiles["qwen"].env


async def test_fix_that_does_not_help_is_taken_back(tmp_path: Path) -> None:
    rig = Rig(tmp_path, LEFT)
    (item,) = await run(rig, found("env-nccl-cumem-0", finding="diagnostic-settings-left"))

    assert not item.kept and "taken back" in str(item.text)
    assert rig.store.profiles["qwen"] == LEFT
    (entry,) = rig.journal.entries()
    assert entry.undone_at_s is not None


async def test_best_way_that_asks_leaves_the_safe_one_behind_it_alone(tmp_path: Path) -> None:
    rig = Rig(tmp_path, LEFT)
    for first in ("cfg-enforce-eager", "sysctl-ptrace-0", "win-driver-update", "pkg-cu12-wheels"):
        assert await run(rig, found(first, "env-nccl-cumem-0")) == []
    assert rig.store.profiles["qwen"] == LEFT and rig.scope == "1"


async def test_two_of_the_same_profile_follow_each_other(tmp_path: Path) -> None:
    rig = Rig(tmp_path, LEFT)
    results = [found("env-diagnosis-off"), found("env-device-order", finding="made-up")]
    items = await run(rig, *results)

    assert [item.plan.fix_id for item in items] == ["env-diagnosis-off", "env-device-order"]
    assert [item.kept for item in items] == [True, False]  # no check knows the second finding


async def test_fine_and_unknown_results_are_left_alone(tmp_path: Path) -> None:
    rig = Rig(tmp_path, LEFT)
    for status in (Status.PASS, Status.ERROR, Status.SKIP):
        result = CheckResult("x", status, message("x"), found("env-diagnosis-off").finding)
        assert await run(rig, result) == []


async def test_look_changes_nothing(tmp_path: Path) -> None:
    rig = Rig(tmp_path, LEFT)
    ways = await SafeFixes(rig.fixer, rig.store).find([found("env-diagnosis-off")], LEFT)

    assert [plan.fix_id for _, plan in ways] == ["env-diagnosis-off"]
    assert rig.store.profiles["qwen"] == LEFT and rig.journal.entries() == ()


def test_fixes_that_ask_exist() -> None:
    assert set(FIXES) >= ASKS


@pytest.mark.parametrize("fix", PLANNED, ids=lambda fix: fix.id)
def test_nothing_that_needs_rights_or_cannot_be_taken_back_is_safe(fix: object) -> None:
    try:
        plan = fix.plan(Finding("x"), facts())  # type: ignore[attr-defined]
    except UsageError:
        return
    if isinstance(plan, FixPlan) and is_safe(plan):
        assert plan.reversible and not (plan.needs_root or plan.needs_admin)
        assert plan.fix_id not in ASKS and "apt" not in plan.fix_id

"""Named machines with one thing wrong: exactly its findings, the fix, the proof, and the way back.

Data: ``tests/fixtures/scenarios``. Only cards, drivers and system files are stand-ins; the probe
script, the collective program with its processes, journal, fixes and profiles are the real ones.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from _pytest.mark import ParameterSet

from fixtures.scenario_rig import Scenario, ScenarioRig
from twinrig.domain.checks import Finding, Status
from twinrig.domain.fixes import FixPlan, Guidance
from twinrig.services.nccl_experiment import FIX_ID

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the machines are Linux sides")
FOLDER = Path(__file__).parents[1] / "fixtures" / "scenarios"
GROUP_A = {
    "nccl-cumem-wsl",
    "nccl-cumem-host",
    "nccl-p2p-hang",
    "custom-ar-p2p-hang",
    "custom-ar-wrong-output",
    "custom-ar-vmm-invalid-argument",
    "cumem-expandable-assert",
    "cuda-ipc-unsupported-wsl",
    "pidfd-getfd-denied",
    "shm-too-small",
    "nccl-mempool-unsupported",
    "nccl-ifname-wrong",
    "nccl-watchdog-timeout",
    "nccl-duplicate-gpu",
    "nccl-large-collective",
    "p2p-reported-not-usable",
    "tp-exceeds-gpus",
    "exl3-tp-hostptr",
    "exl3-tp-sync-timeout",
    "exl3-tp-arch-unsupported",
}


def load() -> list[Scenario]:
    rows: list[Mapping[str, Any]] = []
    for path in sorted(FOLDER.glob("*.yaml")):
        rows += yaml.safe_load(path.read_text(encoding="utf-8"))
    return [Scenario(**row) for row in rows]


SCENARIOS = load()
CHECKED = [s for s in SCENARIOS if not s.log]
LOGGED = [s for s in SCENARIOS if s.log]
FIXED = [s for s in CHECKED if s.fix and s.chosen != "-"]


def names(scenarios: list[Scenario]) -> list[str]:
    return [scenario.name for scenario in scenarios]


def test_at_least_sixty_with_every_kind_of_talking_cards() -> None:
    assert len(SCENARIOS) >= 90 and len(set(names(SCENARIOS))) == len(SCENARIOS)
    assert {kind for s in SCENARIOS for kind in s.expect} >= GROUP_A
    assert sum(s.name.startswith("healthy-") for s in SCENARIOS) >= 3
    assert len(FIXED) >= 25


@pytest.mark.parametrize("scenario", CHECKED, ids=names(CHECKED))
async def test_exactly_what_is_wrong_is_found(scenario: Scenario, tmp_path: Path) -> None:
    rig = ScenarioRig(tmp_path, scenario)
    before = rig.state()
    results = await rig.check()
    found = [f.id for r in results if (f := r.finding) and r.status in (Status.WARN, Status.FAIL)]
    told = {r.check_id: f"{r.status}: {r.summary}" for r in results}

    assert found == list(scenario.expect), told
    assert [r.check_id for r in results if r.status is Status.ERROR] == list(scenario.unknown), told
    assert rig.state() == before and rig.leftovers() == []
    if scenario.guidance:
        await guided(rig, next(r.finding for r in results if r.finding is not None))


async def guided(rig: ScenarioRig, finding: Finding) -> None:
    ways = {way.fix_id: way for way in await rig.options(finding)}
    assert isinstance(ways[rig.scenario.guidance], Guidance)


def rows(scenarios: list[Scenario]) -> list[ParameterSet]:
    marks = {True: (pytest.mark.slow,), False: ()}
    return [pytest.param(s, id=s.name, marks=marks[s.slow]) for s in scenarios]


@pytest.mark.parametrize("scenario", rows(FIXED))
async def test_fixed_proven_and_taken_back(scenario: Scenario, tmp_path: Path) -> None:
    rig = ScenarioRig(tmp_path, scenario)
    before = rig.state()
    first = (await rig.findings())[-1 if scenario.nccl is not None else 0]
    if scenario.chosen:
        result, plan = await rig.try_nccl()
        assert result.chosen is not None and result.chosen.candidate.id == scenario.chosen
        assert list(result.decisive) == list(scenario.decisive)
        assert plan is not None
    else:
        plan = await rig.plan(first, scenario.fix)
    assert rig.state() == before, "a preview or a trial has changed something"

    outcome = await rig.apply(first, plan)
    assert outcome.applied and outcome.proven == scenario.proven, outcome.text
    assert rig.state() != before
    if scenario.proven:
        assert first.id not in [finding.id for finding in await rig.findings()]

    if scenario.keeps:
        assert not plan.reversible and plan.risk is not None
        return
    await rig.fixer.undo(outcome.entry_id)
    assert rig.state() == before


async def test_nothing_is_offered_where_no_candidate_cures(tmp_path: Path) -> None:
    scenario = next(s for s in SCENARIOS if s.chosen == "-")
    rig = ScenarioRig(tmp_path, scenario)
    result, plan = await rig.try_nccl()

    assert result.needed and result.chosen is None and plan is None
    assert not any(trial.passed for trial in result.trials) and len(result.trials) == 5
    assert scenario.fix == FIX_ID and rig.leftovers() == []


@pytest.mark.parametrize("scenario", LOGGED, ids=names(LOGGED))
async def test_log_of_a_server_leads_to_a_fix_that_clears_it(
    scenario: Scenario, tmp_path: Path
) -> None:
    rig = ScenarioRig(tmp_path, scenario)
    before = rig.state()
    report = rig.diagnose()
    assert [d.finding.id for d in report.findings[:1]] == list(scenario.expect)
    if not scenario.fix:
        assert report.kind == "unknown" and report.root is not None
        return
    finding = report.findings[0].finding
    plan = await rig.plan(finding, scenario.fix)
    assert isinstance(plan, FixPlan)
    outcome = await rig.apply(finding, plan)
    assert rig.diagnose().kind == "healthy" and outcome.applied
    await rig.fixer.undo(outcome.entry_id)
    assert rig.state() == before and rig.diagnose().findings

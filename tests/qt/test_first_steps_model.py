"""Each state of each first step, told from what was found. No window."""

from __future__ import annotations

from dataclasses import replace

import pytest

from qt.pages_rig import state_record
from twinrig.checks import model_folder
from twinrig.domain.checks import CheckResult, Finding, Status
from twinrig.domain.errors import GpuUnavailableError, HostError, TwinrigError
from twinrig.domain.gpu import GpuInfo
from twinrig.domain.install import EngineInstall
from twinrig.domain.memory import MemoryPlan, Verdict
from twinrig.domain.profile import EngineRef, ModelRef, Network, Profile
from twinrig.domain.server import ServerState
from twinrig.domain.supervision import Failure
from twinrig.messages import message
from twinrig.qt.viewmodels.first_steps import (
    MODEL_CHECK,
    Act,
    Found,
    Seen,
    Step,
    StepId,
    StepState,
    complete,
    current_step,
    problems,
    steps,
)
from twinrig.qt.viewmodels.sizing import SizingAnswer

CARDS = tuple(GpuInfo(i, f"GPU-{i}", "RTX 5070", None) for i in range(2))
PROFILE = Profile("q", "Q", "local", EngineRef("vllm"), ModelRef("/m/q"), Network())
FINE = (CheckResult("a", Status.PASS, message("fine")),)
FAULT = TwinrigError(message("It broke."), message("Mend it."))


def plan(verdict: Verdict) -> SizingAnswer:
    return SizingAnswer(MemoryPlan("vllm", (), verdict, message("The verdict.")))


DONE = Seen(
    found=Found(
        looked=True,
        label="This Linux machine",
        cards=CARDS,
        engine_name="vLLM",
        install=EngineInstall("vllm", "/env", "0.19.0", "/env/bin/vllm"),
        set_ups=(("vllm", "vLLM"), ("tabbyapi", "tabbyAPI")),
        models=2,
        profile=PROFILE,
        sizing=plan(Verdict.FITS),
        record=state_record("q"),
        autostart=True,
    ),
    results=FINE,
    proven=True,
)


def seen(**changes) -> Seen:
    """Everything done, but for ``changes`` of the seen or the found."""
    own = {k: v for k, v in changes.items() if k in Seen.__dataclass_fields__}
    rest = {k: v for k, v in changes.items() if k not in own}
    return replace(DONE, found=replace(DONE.found, **rest), **own)


def step(step_id: StepId, **changes) -> Step:
    return next(s for s in steps(seen(**changes)) if s.id is step_id)


def failed(finding: Finding | None = None) -> CheckResult:
    return CheckResult("c", Status.FAIL, message("It is wrong."), finding)


def test_all_done_leaves_nothing_to_do() -> None:
    found = steps(DONE)
    assert [s.id for s in found] == list(StepId)
    assert {s.state for s in found} == {StepState.DONE}
    assert current_step(found) is None and complete(found)
    assert not any(s.demo for s in found)


def test_before_the_first_look_nothing_is_claimed() -> None:
    found = steps(Seen())
    assert {s.state for s in found} == {StepState.BUSY}
    assert not complete(found)


@pytest.mark.parametrize(
    ("step_id", "changes", "state", "acts", "demo"),
    [
        (StepId.MACHINE, {"cards": ()}, "cannot", [Act.LOOK], True),
        (StepId.MACHINE, {"cards": (), "demo": True}, "cannot", [Act.LOOK], False),
        (
            StepId.MACHINE,
            {"machine_fault": HostError(message("No WSL."))},
            "cannot",
            [Act.LOOK],
            True,
        ),
        (
            StepId.MACHINE,
            {"machine_fault": GpuUnavailableError(message("No driver."))},
            "cannot",
            [Act.LOOK],
            True,
        ),
        (StepId.CHECK, {"results": None}, "next", [Act.CHECK], False),
        (StepId.CHECK, {"checking": True}, "busy", [], False),
        (StepId.CHECK, {"check_fault": FAULT}, "cannot", [Act.CHECK], False),
        (StepId.FIX, {"results": (failed(),)}, "next", [Act.PREFLIGHT], False),
        (
            StepId.FIX,
            {"results": (failed(Finding("x", fixes=("f",))),)},
            "next",
            [Act.FIX, Act.PREFLIGHT],
            False,
        ),
        (StepId.ENGINE, {"install": None}, "next", [Act.SET_UP, Act.SET_UP], True),
        (StepId.ENGINE, {"install": None, "set_ups": ()}, "cannot", [Act.LOOK], True),
        (StepId.ENGINE, {"engine_fault": FAULT}, "cannot", [], True),
        (StepId.MODEL, {"profile": None}, "next", [], False),
        (StepId.MODEL, {"profile": None, "models": 0}, "next", [], True),
        (StepId.MODEL, {"profile": None, "models": 0, "incomplete": 2}, "next", [], True),
        (StepId.MODEL, {"profile_fault": FAULT}, "cannot", [Act.SERVER], False),
        (StepId.PLAN, {"sizing": None}, "cannot", [Act.PLAN], False),
        (StepId.PLAN, {"sizing": plan(Verdict.DOES_NOT_FIT)}, "cannot", [Act.PLAN], False),
        (StepId.PLAN, {"sizing": plan(Verdict.TIGHT)}, "done", [Act.PLAN], False),
        (StepId.START, {"record": None}, "next", [Act.START], False),
        (
            StepId.START,
            {"record": state_record("q", ServerState.LOADING)},
            "busy",
            [Act.SERVER],
            False,
        ),
        (
            StepId.START,
            {
                "record": state_record(
                    "q", ServerState.FAILED, failure=Failure(message("OOM."), message("Less."))
                )
            },
            "cannot",
            [Act.START, Act.SERVER],
            False,
        ),
        (StepId.CHAT, {"proven": False}, "next", [Act.ASK], False),
        (StepId.CHAT, {"proven": False, "asking": True}, "busy", [], False),
        (
            StepId.CHAT,
            {"proven": False, "reply_fault": FAULT},
            "cannot",
            [Act.ASK, Act.SERVER],
            False,
        ),
        (StepId.LOGON, {"autostart": False}, "next", [], False),
        (StepId.LOGON, {"autostart": None}, "cannot", [], False),
    ],
)
def test_each_state(step_id: StepId, changes, state: str, acts: list[Act], demo: bool) -> None:
    found = step(step_id, **changes)
    assert found.state == state
    assert [b.act for b in found.buttons] == acts
    assert found.demo is demo
    if found.state is StepState.CANNOT:
        assert found.text.msgid
    if found.demo:
        assert found.next_step is not None or found.id is StepId.MACHINE


def test_a_dead_end_says_what_to_do_next() -> None:
    for changes in ({"cards": ()}, {"install": None, "set_ups": ()}, {"autostart": None}):
        current = current_step(steps(seen(**changes)))
        assert current is not None and current.next_step is not None


def test_what_comes_after_the_current_step_waits_and_names_it() -> None:
    found = steps(seen(install=None, profile=None, record=None, proven=False, autostart=None))
    by_id = {s.id: s for s in found}
    assert current_step(found).id is StepId.ENGINE
    for later in (StepId.MODEL, StepId.PLAN, StepId.START, StepId.CHAT, StepId.LOGON):
        assert by_id[later].state is StepState.LATER
        assert by_id[later].buttons == ()
        assert "step" in by_id[later].text.params


def test_a_skipped_step_lets_the_next_one_come() -> None:
    changes = {"cards": (), "profile": None, "record": None, "proven": False}
    found = steps(seen(skipped=frozenset({StepId.MACHINE}), **changes))
    assert found[0].state is StepState.SKIPPED and not found[0].demo
    assert current_step(found).id is StepId.MODEL


def test_a_step_that_was_skipped_and_is_done_meanwhile_reads_as_done() -> None:
    assert step(StepId.ENGINE, skipped=frozenset({StepId.ENGINE})).state is StepState.DONE


def test_a_running_server_is_seen_while_an_earlier_step_is_open() -> None:
    found = {s.id: s for s in steps(seen(results=(failed(),), proven=False))}
    assert found[StepId.FIX].state is StepState.NEXT
    assert found[StepId.START].state is StepState.DONE
    assert found[StepId.CHAT].state is StepState.LATER


def test_what_a_set_up_cures_is_no_problem_of_the_fix_step() -> None:
    missing = failed(Finding("engine-not-installed"))
    assert problems((missing,)) == ()
    assert step(StepId.FIX, results=(missing,)).state is StepState.DONE
    assert problems((missing, failed())) == (failed(),)


def test_a_fix_goes_before_a_problem_without_one() -> None:
    fixable = CheckResult("f", Status.FAIL, message("F."), Finding("f", fixes=("x",)))
    found = step(StepId.FIX, results=(failed(), fixable))
    assert found.buttons[0].param == "f"


def test_logon_may_stay_open_at_the_end() -> None:
    assert complete(steps(seen(autostart=False)))
    assert not complete(steps(seen(autostart=False, proven=False)))


def test_the_missing_engine_of_a_profile_is_named() -> None:
    assert step(StepId.ENGINE, install=None).text.params == {"engine": "vLLM"}


def test_models_that_are_not_complete_are_not_called_missing() -> None:
    made = step(StepId.MODEL, profile=None, models=0, incomplete=2)
    assert "No model is complete. Incomplete ones: 2." in str(made.text)
    assert "what each lacks" in str(made.next_step)


def test_a_plan_for_cards_that_nobody_knows_is_not_done() -> None:
    made = step(StepId.PLAN, sizing=plan(Verdict.UNKNOWN))
    assert made.state is StepState.CANNOT
    assert "Skip this step" in str(made.next_step)


def test_a_model_that_the_checks_miss_is_not_done() -> None:
    missing = CheckResult(MODEL_CHECK, Status.FAIL, message("The model folder /m does not exist."))
    made = step(StepId.MODEL, results=(missing,), skipped={StepId.FIX})
    assert made.state is StepState.CANNOT
    assert "does not exist" in str(made.text)
    assert [button.act for button in made.buttons] == [Act.PLAN]
    fine = replace(missing, status=Status.PASS)
    assert step(StepId.MODEL, results=(fine,)).state is StepState.DONE
    assert MODEL_CHECK == model_folder.ID


@pytest.mark.parametrize("skipped", list(StepId))
def test_every_step_can_be_skipped_and_the_next_one_comes(skipped: StepId) -> None:
    """From a machine on which nothing is there or done, past whatever stands in the way."""
    nothing = Found(looked=True, label="Here", models=0)
    order = list(StepId)
    before = frozenset(order[: order.index(skipped)])
    now = current_step(steps(Seen(nothing, skipped=before)))
    assert now is not None and now.id is skipped
    found = steps(Seen(nothing, skipped=before | {skipped}))
    assert found[order.index(skipped)].state is StepState.SKIPPED
    after = current_step(found)
    assert (after.id if after else None) == next(iter(order[order.index(skipped) + 1 :]), None)

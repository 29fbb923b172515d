"""View model of the Preflight page and of the fix dialog, without a window."""

from __future__ import annotations

import pytest

from twinrig.domain.checks import Check, CheckResult, Evidence, Finding, Severity, Status
from twinrig.domain.errors import ConflictError
from twinrig.domain.fixes import CommandStep, FixPlan, Guidance
from twinrig.messages import Translator, message
from twinrig.qt.viewmodels.fixing import FixFlow, Stage
from twinrig.qt.viewmodels.preflight import PreflightModel, RowState, redact
from twinrig.services.fixer import FixOutcome, FixPreview

FINDING = Finding("shm-small", (("size", "64 MiB"),), Severity.BLOCKING, ("grow-shm", "other"))


def check(check_id: str) -> Check:
    return Check(check_id, f"Title of {check_id}", (), lambda facts: None)


def result(check_id: str, status: Status, finding: Finding | None = None) -> CheckResult:
    return CheckResult(check_id, status, message("Summary of {id}", id=check_id), finding)


@pytest.fixture
def model() -> PreflightModel:
    return PreflightModel([check("a"), check("b"), check("c")])


def headline(model: PreflightModel) -> str:
    return str(model.headline())


def test_nothing_is_claimed_before_the_first_run(model):
    assert {r.state for r in model.rows} == {RowState.NEW}
    assert "Nothing has been checked" in headline(model)
    assert sum(model.counts().values()) == 0
    assert model.first_problem() is None


def test_a_run_marks_rows_and_takes_results_one_by_one(model):
    assert model.begin() == [0, 1, 2]
    assert model.accept(result("b", Status.PASS)) == 1
    assert model.running
    assert headline(model) == "Checking… 1 of 3"
    assert model.rows[0].word == "Checking…"
    assert model.rows[1].word == "Fine"


def test_only_named_rows_are_marked_when_only_they_are_asked(model):
    assert model.begin(["c"]) == [2]
    assert [r.state for r in model.rows] == [RowState.NEW, RowState.NEW, RowState.RUNNING]


def test_cancel_keeps_old_answers_and_never_calls_an_unasked_check_fine(model):
    model.begin()
    model.accept(result("a", Status.PASS))
    model.end()
    model.begin()
    model.accept(result("b", Status.PASS))
    changed = model.end()
    assert changed == [0, 2]
    assert model.rows[0].state is RowState.DONE
    assert model.rows[2].state is RowState.NEW
    assert headline(model) == "No problem so far. Some checks have not run yet."


def test_a_whole_run_tells_what_it_left_out_on_purpose(model):
    model.begin()
    model.accept(result("a", Status.PASS))
    assert model.end(complete=True) == [1, 2]
    assert [r.word for r in model.rows] == ["Fine", "Not needed here", "Not needed here"]
    assert sum(model.counts().values()) == 1


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        ((Status.PASS, Status.PASS, Status.SKIP), "Everything that was checked is fine."),
        ((Status.PASS, Status.WARN, Status.PASS), "A server can run."),
        ((Status.ERROR, Status.WARN, Status.PASS), "could not tell"),
        ((Status.ERROR, Status.FAIL, Status.WARN), "needs your attention"),
    ],
)
def test_the_headline_tells_the_worst(model, statuses, expected):
    model.begin()
    for check_id, status in zip("abc", statuses, strict=True):
        model.accept(result(check_id, status))
    assert expected in headline(model)


def test_the_first_problem_is_a_failure_before_a_warning_before_an_unknown(model):
    model.begin()
    for check_id, status in zip("abc", (Status.ERROR, Status.WARN, Status.FAIL), strict=True):
        model.accept(result(check_id, status))
    assert model.first_problem() == 2


@pytest.mark.parametrize("status", [Status.ERROR, Status.SKIP, Status.PASS])
def test_no_fix_is_offered_for_what_is_not_known_to_be_wrong(model, status):
    model.begin()
    index = model.accept(result("a", status, FINDING))
    assert model.rows[index].finding is None
    assert not model.rows[index].fixable


def test_a_failure_with_fixes_is_fixable_until_it_is_asked_again(model):
    model.begin()
    index = model.accept(result("a", Status.FAIL, FINDING))
    assert model.rows[index].fixable
    model.begin()
    assert not model.rows[index].fixable


def test_a_finding_without_fixes_offers_no_button(model):
    model.begin()
    index = model.accept(result("a", Status.FAIL, Finding("unknown-thing")))
    assert model.rows[index].finding is not None
    assert not model.rows[index].fixable


def test_a_result_of_an_unlisted_check_gets_a_row(model):
    assert model.accept(result("new-one", Status.WARN)) == 3
    assert model.counts()[Status.WARN] == 1


def test_the_report_holds_results_and_evidence_but_no_user_name(model):
    model.begin()
    evidence = (Evidence("ls /home/alice/models", "/home/alice/models/x\nC:\\Users\\Alice\\y"),)
    model.accept(
        CheckResult("a", Status.FAIL, message("In {path}", path="/home/alice/x"), FINDING, evidence)
    )
    text = model.report(Translator("en"), "Machine: test")
    assert "[Problem] Title of a (a)" in text
    assert "Finding: shm-small" in text
    assert "[Checking…] Title of b (b)" in text
    assert "alice" not in text.lower()
    assert "/home/***/models" in text


def test_redaction_leaves_system_paths_alone():
    assert redact("/usr/lib/home/x /etc/passwd") == "/usr/lib/home/x /etc/passwd".replace(
        "/home/x", "/home/***"
    )
    assert redact("C:\\Windows\\System32") == "C:\\Windows\\System32"


# ------------------------------------------------------------------------------------ fix flow

PLAN = FixPlan(
    "grow-shm",
    message("Make it larger"),
    (CommandStep(("mount",), ("umount",), root=True),),
    risk=message("Uses memory."),
    needs_root=True,
)
GUIDE = Guidance("other", message("By hand"), (message("Do this"), message("Do that")))


def outcome(*, applied=True, proven=True, results=None) -> FixOutcome:
    shown = (result("a", Status.PASS if proven else Status.FAIL),) if results is None else results
    return FixOutcome("e1" if applied else "", applied, proven, shown, message("Told by the fixer"))


def flow_at_preview() -> FixFlow:
    flow = FixFlow()
    flow.got_options((PLAN, GUIDE))
    flow.got_preview(FixPreview(PLAN, ()))
    return flow


def test_only_what_was_previewed_can_be_applied():
    flow = FixFlow()
    assert not flow.can_apply
    flow.got_options((PLAN, GUIDE))
    assert flow.stage is Stage.LOADING
    assert not flow.can_apply
    flow.got_preview(FixPreview(PLAN, ()))
    assert flow.can_apply


def test_a_late_preview_of_another_plan_is_ignored():
    flow = FixFlow()
    flow.got_options((PLAN, GUIDE))
    flow.choose(1)
    flow.got_preview(FixPreview(PLAN, ()))
    assert flow.stage is Stage.GUIDANCE
    assert not flow.can_apply


def test_the_notes_tell_risk_and_rights_before_anything_is_changed():
    notes = " ".join(str(n) for n in flow_at_preview().notes())
    assert "Uses memory." in notes
    assert "root" in notes
    assert "You can take it back" in notes


def test_guidance_has_no_apply_and_no_notes():
    flow = FixFlow()
    flow.got_options((GUIDE,))
    assert flow.stage is Stage.GUIDANCE
    assert flow.notes() == ()
    assert not flow.can_apply


def test_proven_says_so_and_can_be_undone():
    flow = flow_at_preview()
    flow.applying()
    assert not flow.can_apply
    flow.applied(outcome())
    assert flow.stage is Stage.PROVEN
    assert flow.can_undo
    flow.undoing()
    assert not flow.can_undo
    flow.undone()
    assert flow.stage is Stage.UNDONE
    assert not flow.can_undo


def test_not_proven_never_reads_as_success():
    flow = flow_at_preview()
    flow.applied(outcome(proven=False))
    assert flow.stage is Stage.NOT_PROVEN
    assert "Not proven" in str(flow.headline())
    assert str(flow.next_step()) == "Told by the fixer"
    assert flow.can_undo


def test_applied_without_any_check_claims_neither_proof_nor_failure():
    flow = flow_at_preview()
    flow.applied(outcome(proven=False, results=()))
    assert "still fails" not in str(flow.headline())
    assert "No check can prove" in str(flow.headline())


def test_an_irreversible_plan_offers_no_undo():
    plan = FixPlan("x", message("x"), (), reversible=False)
    flow = FixFlow()
    flow.got_options((plan,))
    flow.got_preview(FixPreview(plan, ()))
    assert "cannot be taken back" in " ".join(str(n) for n in flow.notes())
    flow.applied(outcome())
    assert not flow.can_undo


def test_an_outcome_that_was_not_applied_is_a_failure_in_the_fixers_words():
    flow = flow_at_preview()
    flow.applied(outcome(applied=False, proven=False))
    assert flow.stage is Stage.FAILED
    assert str(flow.headline()) == "Told by the fixer"
    assert not flow.can_undo


def test_an_error_shows_text_and_next_step():
    flow = flow_at_preview()
    flow.failed(ConflictError(message("It changed."), message("Look again.")))
    assert str(flow.headline()) == "It changed."
    assert str(flow.next_step()) == "Look again."


def test_no_options_is_told_and_leaves_nothing_to_press():
    flow = FixFlow()
    flow.got_options(())
    assert flow.stage is Stage.FAILED
    assert "no fix" in str(flow.headline())
    assert not flow.can_apply

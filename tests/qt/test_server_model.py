"""View models of the Server page: state, phases, profiles, changes; without a window."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from qt.pages_rig import NOW_S, PageWorkbench, make_profile, state_record
from twinrig.domain.checks import Finding
from twinrig.domain.errors import FieldError
from twinrig.domain.server import Phase, ServerState
from twinrig.domain.supervision import Failure, PhaseTime
from twinrig.messages import Translator, message
from twinrig.qt.viewmodels.changes import ChangeRow, read_changes, undo_text
from twinrig.qt.viewmodels.profiles import copy_name, profile_rows
from twinrig.qt.viewmodels.server import (
    PhaseState,
    finding_of,
    phase_rows,
    remaining_s,
    server_view,
)
from twinrig.services.controller import ServerStatus
from twinrig.services.journal import AppliedStep, Journal, JournalEntry, Outcome
from twinrig.services.profile_store import BrokenProfile, ProfileListing

S = ServerState
FAILURE = Failure(message("It died."), message("Do this."), "x", "high", "the line", 7)


def status(record=None, *, alive=True, answering=None, problem=None, autostart=None):
    return ServerStatus("p", record, alive, answering, problem, autostart)


def view(state: S, *, alive=True, other="", **changes):
    record = state_record("p", state, **changes)
    return server_view(status(record, alive=alive), NOW_S, other)


# --------------------------------------------------------------------------------------- state


def test_a_profile_that_never_ran_can_only_be_started():
    shown = server_view(status(alive=False), NOW_S)
    assert str(shown.headline) == "Stopped"
    assert (shown.can_start, shown.can_stop, shown.can_restart) == (True, False, False)
    assert shown.uptime_s is None
    assert shown.base_url == ""


def test_a_damaged_record_is_not_called_stopped():
    problem = message("state.json is damaged and cannot be read.")
    shown = server_view(status(alive=False, problem=problem), NOW_S)
    assert str(shown.headline) == "State unknown"
    assert shown.warning == problem
    assert shown.can_stop


@pytest.mark.parametrize(
    ("state", "start", "stop", "restart"),
    [
        (S.STOPPED, True, False, False),
        (S.FAILED, True, False, False),
        (S.STARTING, False, True, True),
        (S.LOADING, False, True, True),
        (S.READY, False, True, True),
        (S.DEGRADED, False, True, True),
        (S.BACKOFF, True, True, True),
        (S.SLEEPING, False, True, True),
        (S.STOPPING, False, False, False),
    ],
)
def test_which_buttons_a_state_allows(state, start, stop, restart):
    alive = state not in (S.STOPPED, S.FAILED)
    shown = view(state, alive=alive)
    assert (shown.can_start, shown.can_stop, shown.can_restart) == (start, stop, restart)


def test_another_profile_on_the_cards_forbids_start_and_says_who():
    shown = view(S.STOPPED, alive=False, other="Other profile")
    assert not shown.can_start
    assert "Other profile" in str(shown.warning)


def test_a_server_that_lost_its_supervisor_can_be_started_and_stopped():
    shown = view(S.READY, alive=False)
    assert shown.can_start
    assert shown.can_stop
    assert "gone" in str(shown.warning)


def test_the_controllers_own_words_win_over_ours():
    record = state_record("p", S.READY)
    problem = message("The supervisor is gone, but the server still answers.")
    shown = server_view(status(record, alive=False, answering=True, problem=problem), NOW_S)
    assert shown.warning == problem


def test_a_ready_server_that_does_not_answer_is_not_shown_as_all_well():
    record = state_record("p", S.READY)
    shown = server_view(status(record, answering=False), NOW_S)
    assert "does not answer" in str(shown.warning)


def test_uptime_counts_from_ready_and_only_while_it_answers():
    assert view(S.READY, ready_at_s=NOW_S - 61).uptime_s == 61
    assert view(S.READY, ready_at_s=NOW_S + 5).uptime_s == 0
    assert view(S.STOPPED, ready_at_s=NOW_S - 61).uptime_s is None
    assert view(S.LOADING, ready_at_s=NOW_S - 61).uptime_s is None


def test_the_address_is_shown_only_while_it_answers():
    assert view(S.READY).base_url == "http://127.0.0.1:8000"
    assert view(S.LOADING).base_url == ""
    assert view(S.FAILED).base_url == ""


def test_backoff_tells_exit_next_try_and_count():
    shown = view(S.BACKOFF, next_restart_at_s=NOW_S + 14.6, last_exit="exit code 1", restarts=2)
    text = str(shown.detail)
    assert "exit code 1" in text
    assert "15 s" in text
    assert "2" in text


def test_a_failure_is_shown_when_it_failed_not_from_an_earlier_run():
    assert view(S.FAILED, failure=FAILURE).failure == FAILURE
    assert view(S.BACKOFF, failure=FAILURE).failure == FAILURE
    assert view(S.READY, failure=FAILURE).failure is None


def test_fixes_are_offered_only_for_a_known_cause_that_has_some():
    known = replace(FAILURE, params=(("port", "8000"),), fixes=("change-port",))
    finding = finding_of(known)
    assert (finding.id, finding.params, finding.fixes) == ("x", known.params, ("change-port",))
    assert finding_of(FAILURE) is None


def test_an_unknown_cause_offers_what_makes_the_next_start_tell_more():
    unknown = replace(FAILURE, finding_id="", fixes=("env-nccl-debug-info",))
    finding = finding_of(unknown)
    assert (finding.id, finding.fixes) == ("unknown-cause", ("env-nccl-debug-info",))
    assert finding_of(replace(unknown, fixes=())) is None
    assert finding_of(None) is None


def test_variables_that_did_not_arrive_are_told():
    shown = view(S.READY, environment_mismatch=("NCCL_CUMEM_ENABLE",))
    assert "NCCL_CUMEM_ENABLE" in str(shown.warning)


# -------------------------------------------------------------------------------------- phases


def phases(*items) -> tuple[PhaseTime, ...]:
    return tuple(PhaseTime(p, NOW_S - ago, expected, prog) for p, ago, expected, prog in items)


LOADING = phases(
    (Phase.LAUNCH, 40, 3, None), (Phase.IMPORT, 37, None, None), (Phase.WEIGHTS, 30, 60, None)
)


def test_a_phase_lasts_until_the_next_begins():
    rows = phase_rows(state_record("p", S.LOADING, phases=LOADING), NOW_S)
    assert [r.elapsed_s for r in rows] == [3, 7, 30]
    assert [r.state for r in rows] == [PhaseState.DONE, PhaseState.DONE, PhaseState.RUNNING]
    assert remaining_s(rows) == 30


def test_progress_comes_from_the_engine_else_from_last_time_else_is_unknown():
    told = phases((Phase.WEIGHTS, 30, 60, 0.1))
    timed = phases((Phase.WEIGHTS, 30, 60, None))
    late = phases((Phase.WEIGHTS, 300, 60, None))
    unknown = phases((Phase.WEIGHTS, 30, None, None))
    fractions = [
        phase_rows(state_record("p", S.LOADING, phases=p), NOW_S)[0].fraction
        for p in (told, timed, late, unknown)
    ]
    assert fractions == [0.1, 0.5, 0.99, None]


def test_a_phase_that_takes_longer_than_last_time_promises_nothing():
    late = phases((Phase.WEIGHTS, 300, 60, None))
    assert remaining_s(phase_rows(state_record("p", S.LOADING, phases=late), NOW_S)) == 0
    unknown = phases((Phase.WEIGHTS, 300, None, None))
    assert remaining_s(phase_rows(state_record("p", S.LOADING, phases=unknown), NOW_S)) is None


def test_ready_ends_the_last_phase_where_it_became_ready():
    record = state_record("p", S.READY, phases=LOADING, ready_at_s=NOW_S - 10)
    rows = phase_rows(record, NOW_S)
    assert rows[-1].state is PhaseState.DONE
    assert rows[-1].elapsed_s == 20


def test_a_failed_start_shows_where_it_stopped():
    record = state_record("p", S.FAILED, phases=LOADING, updated_at_s=NOW_S - 5)
    rows = phase_rows(record, NOW_S + 1000)
    assert rows[-1].state is PhaseState.STUCK
    assert rows[-1].elapsed_s == 25


def test_a_server_that_was_ready_and_stopped_shows_no_failed_step():
    record = state_record("p", S.STOPPED, phases=LOADING, ready_at_s=NOW_S - 10)
    rows = phase_rows(record, NOW_S + 1000)
    assert [r.state for r in rows] == [PhaseState.DONE] * 3
    assert rows[-1].elapsed_s == 20


def test_a_crash_while_serving_does_not_blame_a_step_of_the_start():
    record = state_record("p", S.FAILED, phases=LOADING, ready_at_s=NOW_S - 10)
    assert phase_rows(record, NOW_S)[-1].state is PhaseState.DONE


def test_a_start_that_was_stopped_by_the_user_is_no_failure():
    record = state_record("p", S.STOPPED, phases=LOADING, updated_at_s=NOW_S - 5)
    rows = phase_rows(record, NOW_S + 1000)
    assert rows[-1].state is PhaseState.ENDED
    assert rows[-1].elapsed_s == 25


def test_ready_of_an_earlier_run_does_not_end_a_step_of_this_one():
    record = state_record("p", S.LOADING, phases=LOADING, ready_at_s=NOW_S - 5000)
    assert phase_rows(record, NOW_S)[-1].state is PhaseState.RUNNING


def test_serving_is_no_phase_of_the_start():
    serving = (*LOADING, PhaseTime(Phase.SERVE, NOW_S - 5))
    record = state_record("p", S.READY, phases=serving, ready_at_s=NOW_S - 5)
    assert [r.phase for r in phase_rows(record, NOW_S)][-1] is Phase.WEIGHTS


def test_a_clock_that_jumped_back_gives_no_negative_times():
    rows = phase_rows(state_record("p", S.LOADING, phases=LOADING), NOW_S - 10_000)
    assert rows[-1].elapsed_s == 0


# ------------------------------------------------------------------------------------ profiles


def test_broken_files_are_listed_last_and_other_machines_before_them(tmp_path):
    workbench = PageWorkbench(tmp_path)
    make_profile(workbench, "beta")
    make_profile(workbench, "Alpha")
    foreign = workbench.profiles.draft(
        "vllm", name="A", target="wsl", model_path="/m", gpu_count=2, on_wsl=True
    )
    workbench.profiles.save(foreign)
    workbench.profiles.path("bad").write_text("name: [")
    rows = profile_rows(workbench.profiles.list(), "demo", {"demo": "Demo engine"})
    assert [r.name for r in rows] == ["Alpha", "beta", "A", "bad.yaml"]
    assert [r.usable for r in rows] == [True, True, False, False]
    assert "Demo engine" in str(rows[0].detail)
    assert rows[3].problem is not None


def test_all_faults_of_a_broken_profile_are_told():
    broken = BrokenProfile(
        Path("/x/bad.yaml"),
        message("Two faults."),
        message("Correct them."),
        (FieldError("name", message("missing")), FieldError("network.port", message("too big"))),
    )
    text = str(profile_rows(ProfileListing((), (broken,)), "demo", {})[0].problem_text())
    assert text == "Two faults.\nname: missing\nnetwork.port: too big"


def test_names_of_copies_count_up():
    assert copy_name("Qwen", {"Qwen"}) == "Qwen (2)"
    assert copy_name("Qwen (2)", {"Qwen", "Qwen (2)"}) == "Qwen (3)"


# ------------------------------------------------------------------------------------- changes


def entry(entry_id="e1", **changes) -> JournalEntry:
    values = {
        "id": entry_id,
        "at_s": NOW_S,
        "target": "demo",
        "fix_id": "sysctl-ptrace-0",
        "title": message("Let workers share memory"),
        "finding": Finding("pidfd-getfd-denied"),
        "steps": (
            AppliedStep("file", "--- a\n+++ b", {}, done=True),
            AppliedStep("command", "sysctl -w x=0", {"revert_argv": None}),
        ),
        "outcome": Outcome.APPLIED,
        "proven": True,
    }
    return JournalEntry(**{**values, **changes})


@pytest.mark.parametrize(
    ("changes", "word", "undo"),
    [
        ({}, "In place", True),
        ({"proven": False}, "In place, not proven", True),
        ({"undone_at_s": NOW_S}, "Taken back", False),
        ({"outcome": Outcome.OPEN}, "Not finished", True),
        ({"outcome": Outcome.ROLLED_BACK}, "Failed, nothing is left of it", False),
    ],
)
def test_how_a_change_stands(changes, word, undo):
    row = ChangeRow(entry(**changes))
    assert str(row.word) == word
    assert row.can_undo is undo


def test_the_preview_of_undo_shows_every_step_and_doubts_what_was_not_confirmed():
    text = undo_text(entry(), Translator("en"))
    assert "1. Changed a file\n   --- a\n   +++ b" in text
    assert "2. Ran a command  (perhaps not carried out)\n   sysctl -w x=0" in text
    assert "last one first" in text
    assert "last one first" not in undo_text(entry(undone_at_s=NOW_S), Translator("en"))


async def test_changes_come_newest_first_and_damage_is_told(tmp_path):
    path = tmp_path / "journal.jsonl"
    journal = Journal(path)
    assert await read_changes(journal) == ((), None)
    journal.append(entry("e1"))
    journal.append(entry("e2", at_s=NOW_S + 1))
    with path.open("ab") as handle:
        handle.write(b"\x00garbage\n")
    rows, problem = await read_changes(journal)
    assert [r.entry.id for r in rows] == ["e2", "e1"]
    assert "Damaged lines" in str(problem)

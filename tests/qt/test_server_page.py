"""The Server page: start and stop, phases, failure, log position, changes."""

from __future__ import annotations

import asyncio

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QApplication,
    QCheckBox,
    QPlainTextEdit,
    QProgressBar,
    QTreeView,
)

from qt.pages_rig import (
    NOW_S,
    PageWorkbench,
    ScriptedDialogs,
    make_profile,
    named,
    page_context,
    state_record,
    unnamed,
    visible_texts,
)
from twinrig.domain.checks import Finding
from twinrig.domain.errors import ConflictError, HostError
from twinrig.domain.server import Phase, ServerState
from twinrig.domain.supervision import Candidate, Failure, PhaseTime
from twinrig.messages import message
from twinrig.qt.pages.server import ServerPage
from twinrig.qt.viewmodels.fixing import Stage
from twinrig.qt.widgets.fix_dialog import FixDialog
from twinrig.qt.widgets.parts import Button
from twinrig.services.journal import JournalEntry, Outcome

S = ServerState
LOADING = (
    PhaseTime(Phase.LAUNCH, NOW_S - 40, 3.0),
    PhaseTime(Phase.WEIGHTS, NOW_S - 30, 60.0, 0.25),
)


@pytest.fixture
def workbench(tmp_path) -> PageWorkbench:
    return PageWorkbench(tmp_path)


@pytest.fixture
def navigated() -> list[str]:
    return []


@pytest.fixture
def context(qapp, bridge, workbench, navigated):
    return page_context(qapp, bridge, workbench, navigated)


@pytest.fixture
def dialogs() -> ScriptedDialogs:
    return ScriptedDialogs()


@pytest.fixture
def page(qtbot, context, dialogs) -> ServerPage:
    page = ServerPage(context, dialogs=dialogs)
    qtbot.addWidget(page)
    page.resize(1100, 700)
    page.show()
    return page


def shown(qtbot, page) -> None:
    page.on_shown()
    qtbot.waitUntil(lambda: page.panel.loaded, timeout=5000)


def with_profile(qtbot, page, workbench, name="Alpha") -> str:
    profile_id = make_profile(workbench, name)
    shown(qtbot, page)
    qtbot.waitUntil(lambda: page.pane.profile_id == profile_id, timeout=5000)
    return profile_id


def wait_text(qtbot, page, text) -> None:
    qtbot.waitUntil(lambda: text in visible_texts(page), timeout=5000)


# -------------------------------------------------------------------------------------- server


def test_all_tabs_can_be_seen_in_the_smallest_page(qtbot, page, workbench):
    with_profile(qtbot, page, workbench)
    page.resize(page.minimumSizeHint())
    bar = page.pane._tabs.tabBar()
    assert bar.count() == 3
    qtbot.waitUntil(
        lambda: bar.isVisible() and bar.rect().right() >= bar.tabRect(2).right() - 1, timeout=5000
    )


def test_the_list_of_profiles_gets_its_share(qtbot, page, workbench):
    with_profile(qtbot, page, workbench)
    qtbot.waitUntil(lambda: page.panel.width() > 0.24 * page.width(), timeout=5000)
    page.resize(page.minimumSizeHint())
    least = page.panel.fontMetrics().averageCharWidth() * 24
    qtbot.waitUntil(lambda: page.panel.width() >= least, timeout=5000)


def test_start_asks_the_controller_once_and_stop_stays_possible(qtbot, page, workbench):
    profile_id = with_profile(qtbot, page, workbench)
    controller = workbench.controller
    start = named(page, Button, "Start")
    qtbot.waitUntil(start.isEnabled)
    release = []

    async def slow(wanted, requested_by):
        controller.asked.append(("start", wanted, requested_by))
        while not release:
            await asyncio.sleep(0.01)

    controller.start = slow
    start.click()
    start.click()
    assert not start.isEnabled()
    assert "Asking the supervisor" in visible_texts(page)
    controller.set(state_record(profile_id, S.LOADING, phases=LOADING))
    qtbot.waitUntil(named(page, Button, "Stop").isEnabled, timeout=5000)
    release.append(True)
    wait_text(qtbot, page, "Loading weights")
    named(page, Button, "Stop").click()
    qtbot.waitUntil(lambda: len(controller.asked) == 2, timeout=5000)
    assert controller.asked == [("start", profile_id, "panel"), ("stop", profile_id, "panel")]


def test_a_refused_start_is_told_with_the_next_step(qtbot, page, workbench):
    with_profile(qtbot, page, workbench)
    workbench.controller.error = ConflictError(message("Somebody else."), message("Stop it."))
    qtbot.waitUntil(named(page, Button, "Start").isEnabled)
    named(page, Button, "Start").click()
    wait_text(qtbot, page, "Somebody else.\nStop it.")
    qtbot.waitUntil(named(page, Button, "Start").isEnabled, timeout=5000)


def test_phases_show_elapsed_expected_and_progress(qtbot, page, workbench):
    profile_id = with_profile(qtbot, page, workbench)
    workbench.controller.set(state_record(profile_id, S.LOADING, phases=LOADING))
    wait_text(qtbot, page, "30 s of about 1 min 0 s")
    texts = visible_texts(page)
    assert "Launching the process" in texts
    assert "Loading weights · 30 s   about 30 s left" in texts
    assert named(page, QProgressBar, "Progress of this step").value() == 250
    assert named(page, QProgressBar, "Loading weights: running").value() == 250


def test_an_unknown_duration_promises_nothing(qtbot, page, workbench):
    profile_id = with_profile(qtbot, page, workbench)
    phases = (PhaseTime(Phase.COMPILE, NOW_S - 5),)
    workbench.controller.set(state_record(profile_id, S.LOADING, phases=phases))
    wait_text(qtbot, page, "Compiling · 5 s")
    assert "about" not in visible_texts(page)
    bar = named(page, QProgressBar, "Progress of this step")
    assert (bar.minimum(), bar.maximum()) == (0, 0)


def test_ready_shows_uptime_address_and_copies_it(qtbot, page, workbench):
    profile_id = with_profile(qtbot, page, workbench)
    workbench.controller.set(state_record(profile_id))
    wait_text(qtbot, page, "for 1 h 1 min")
    named(page, Button, "Copy address").click()
    assert QApplication.clipboard().text() == "http://127.0.0.1:8000/v1"
    assert not named(page, Button, "Start").isEnabled()


def test_a_failure_shows_cause_next_step_certainty_and_jumps_to_the_line(qtbot, page, workbench):
    profile_id = with_profile(qtbot, page, workbench)
    lines = [f"line {i} of the log" for i in range(1, 401)]
    lines[199] = "ValueError: the root of it"
    workbench.write_log(profile_id, "\n".join(lines) + "\n")
    failure = Failure(
        message("The cache does not fit."),
        message("Lower the context length."),
        "kv-cache-too-small",
        "high",
        "ValueError: the root of it",
        200,
    )
    workbench.controller.set(
        state_record(profile_id, S.FAILED, phases=LOADING, failure=failure), alive=False
    )
    wait_text(qtbot, page, "The cache does not fit.")
    texts = visible_texts(page)
    assert "Lower the context length." in texts
    assert "How sure: Very likely" in texts
    assert "ValueError: the root of it" in texts
    log = named(page, QPlainTextEdit, "Log of the server")
    qtbot.waitUntil(lambda: "line 400" in log.toPlainText(), timeout=5000)
    named(page, Button, "Show in the log").click()
    assert log.textCursor().block().text() == "ValueError: the root of it"
    assert not named(page, QCheckBox, "Follow the end").isChecked()


def test_a_jump_to_a_line_that_is_far_back_reads_it_from_the_file(qtbot, page, workbench):
    profile_id = with_profile(qtbot, page, workbench)
    workbench.write_log(profile_id, "".join(f"line {i} of the log\n" for i in range(1, 40_001)))
    failure = Failure(message("x"), message("y"), "", "low", "line 77 of the log", 77)
    workbench.controller.set(state_record(profile_id, S.FAILED, failure=failure), alive=False)
    log = page.pane.log.text
    qtbot.waitUntil(lambda: "line 40000" in log.toPlainText(), timeout=5000)
    wait_text(qtbot, page, "A guess")
    named(page, Button, "Show in the log").click()
    qtbot.waitUntil(lambda: log.textCursor().block().text() == "line 77 of the log", timeout=5000)


def test_the_fixes_of_a_failure_are_looked_at_from_the_server_page(qtbot, page, workbench):
    profile_id = with_profile(qtbot, page, workbench)
    failure = Failure(
        message("Workers cannot share memory."),
        message("Allow it."),
        "pidfd-getfd-denied",
        "high",
        fixes=("sysctl-ptrace-0",),
    )
    workbench.controller.set(state_record(profile_id, S.FAILED, failure=failure), alive=False)
    wait_text(qtbot, page, "Workers cannot share memory.")
    named(page, Button, "What can be done…").click()
    qtbot.waitUntil(lambda: page.findChild(FixDialog) is not None, timeout=5000)
    dialog = page.findChild(FixDialog)
    qtbot.waitUntil(lambda: dialog.flow.can_apply, timeout=5000)
    dialog.apply()
    qtbot.waitUntil(lambda: page.changes.model.rowCount() == 1, timeout=8000)
    qtbot.waitUntil(lambda: dialog.flow.stage is Stage.PROVEN, timeout=5000)
    dialog.reject()


def test_an_unknown_cause_claims_no_certainty(qtbot, page, workbench):
    profile_id = with_profile(qtbot, page, workbench)
    failure = Failure(message("It ended."), message("Look at the log."))
    workbench.controller.set(state_record(profile_id, S.FAILED, failure=failure), alive=False)
    wait_text(qtbot, page, "It ended.")
    assert "How sure" not in visible_texts(page)
    assert not [
        b for b in page.findChildren(Button) if b.text() == "Show in the log" and b.isVisible()
    ]


def test_another_profile_on_the_cards_is_named_and_marked(qtbot, page, workbench):
    make_profile(workbench, "Beta")
    alpha = with_profile(qtbot, page, workbench)
    workbench.controller.set(state_record("beta"))
    wait_text(qtbot, page, "The profile Beta uses the cards now")
    assert page.pane.profile_id == alpha
    assert not named(page, Button, "Start").isEnabled()
    index = page.panel.model.position("beta")
    assert "Running" in index.data()


def test_showing_again_attaches_with_state_uptime_and_log_position(
    qtbot, page, workbench, context, bridge
):
    profile_id = with_profile(qtbot, page, workbench)
    workbench.write_log(profile_id, "first\n")
    workbench.controller.set(state_record(profile_id))
    log = page.pane.log.text
    qtbot.waitUntil(lambda: log.toPlainText() == "first\n", timeout=5000)
    page.on_hidden()
    workbench.write_log(profile_id, "while hidden\n")
    workbench.clock.now_s += 3600
    page.on_shown()
    qtbot.waitUntil(lambda: log.toPlainText() == "first\nwhile hidden\n", timeout=5000)
    wait_text(qtbot, page, "for 2 h 1 min")


def test_a_new_page_attaches_to_a_server_that_runs_already(qtbot, workbench, context, dialogs):
    profile_id = make_profile(workbench, "Alpha")
    workbench.write_log(profile_id, "".join(f"{i}\n" for i in range(1, 20_001)))
    workbench.controller.set(state_record(profile_id))
    page = ServerPage(context, dialogs=dialogs)
    qtbot.addWidget(page)
    page.show()
    shown(qtbot, page)
    wait_text(qtbot, page, "for 1 h 1 min")
    qtbot.waitUntil(lambda: page.pane.log.has_line(20_000, "20000"), timeout=5000)


def test_hidden_pages_ask_nothing(qtbot, page, workbench, monkeypatch):
    with_profile(qtbot, page, workbench)
    qtbot.waitUntil(named(page, Button, "Start").isEnabled)
    streams = (page.pane._status_task, page.pane._log_task, page.pane._cause_task)
    page.on_hidden()
    # A question that was on its way is no new one: the loop ends it when its turn comes.
    qtbot.waitUntil(lambda: all(stream.finished for stream in streams), timeout=5000)
    asked = []

    def counted(name):
        original = getattr(workbench.controller, name)

        def call(*args):
            asked.append(name)
            return original(*args)

        monkeypatch.setattr(workbench.controller, name, call)

    for name in ("status", "read_log"):
        counted(name)
    qtbot.wait(150)
    assert asked == []
    page.on_shown()
    qtbot.waitUntil(lambda: {"status", "read_log"} <= set(asked), timeout=5000)


@pytest.mark.parametrize("first_visit", [True, False])
def test_a_part_is_revealed_on_the_first_visit_too(qtbot, page, workbench, first_visit):
    make_profile(workbench, "Alpha")
    if not first_visit:
        shown(qtbot, page)
    page.on_shown()
    page.reveal("log")
    qtbot.waitUntil(page.pane.log.isVisible, timeout=5000)


def test_a_state_that_cannot_be_read_is_told(qtbot, page, workbench):
    workbench.controller.status_error = HostError(message("The disk is gone."))
    make_profile(workbench, "Alpha")
    shown(qtbot, page)
    wait_text(qtbot, page, "The disk is gone.")


# ----------------------------------------------------------------------------------- autostart


def test_autostart_is_unticked_and_follows_the_real_state(qtbot, page, workbench):
    profile_id = make_profile(workbench, "Alpha")
    workbench.controller.autostart[profile_id] = False
    shown(qtbot, page)
    box = named(page, QCheckBox, "Start at logon")
    qtbot.waitUntil(box.isEnabled, timeout=5000)
    assert not box.isChecked()
    box.click()
    qtbot.waitUntil(lambda: workbench.controller.autostart[profile_id] is True, timeout=5000)
    qtbot.waitUntil(box.isChecked, timeout=5000)


def test_autostart_is_not_offered_where_nothing_can_do_it(qtbot, page, workbench):
    workbench.service_kind = "detached"
    with_profile(qtbot, page, workbench)
    box = named(page, QCheckBox, "Start at logon")
    qtbot.waitUntil(named(page, Button, "Start").isEnabled)
    assert not box.isEnabled()
    assert "no service manager" in box.toolTip()


# ------------------------------------------------------------------------------------- changes


def journal_entry(**changes) -> JournalEntry:
    values = {
        "id": "e1",
        "at_s": NOW_S,
        "target": "demo",
        "fix_id": "x",
        "title": message("Made it so"),
        "finding": Finding("f"),
        "outcome": Outcome.APPLIED,
        "proven": True,
    }
    return JournalEntry(**{**values, **changes})


def test_changes_are_listed_and_undone(qtbot, page, workbench):
    workbench.journal.append(journal_entry())
    with_profile(qtbot, page, workbench)
    page.reveal("changes")
    qtbot.waitUntil(lambda: page.changes.model.rowCount() == 1, timeout=5000)
    view = named(page, QTreeView, "Changes")
    assert view.model().index(0, 1).data() == "Made it so"
    assert view.model().index(0, 2).data() == "In place"
    named(page, Button, "Undo").click()
    qtbot.waitUntil(lambda: view.model().index(0, 2).data() == "Taken back", timeout=5000)
    assert workbench.journal.entries()[0].undone_at_s is not None
    assert not named(page, Button, "Undo").isEnabled()


def test_an_undo_that_is_refused_is_told(qtbot, page, workbench, monkeypatch):
    workbench.journal.append(journal_entry())

    async def refuse(_entry_id):
        raise ConflictError(message("It was changed since."), message("Look at the file."))

    monkeypatch.setattr(workbench.fixer, "undo", refuse)
    with_profile(qtbot, page, workbench)
    page.reveal("changes")
    qtbot.waitUntil(lambda: page.changes._undo.isEnabled(), timeout=5000)
    named(page, Button, "Undo").click()
    wait_text(qtbot, page, "It was changed since.")


def test_a_damaged_journal_is_told_and_hides_nothing(qtbot, page, workbench):
    workbench.journal.append(journal_entry())
    path = workbench.layout.root / "journal.jsonl"
    path.write_bytes(path.read_bytes() + b"\x00 rubbish\n")
    with_profile(qtbot, page, workbench)
    page.reveal("changes")
    wait_text(qtbot, page, "Damaged lines")
    assert page.changes.model.rowCount() == 1


# --------------------------------------------------------------------------------- looks, keys


def test_every_control_has_a_name_and_the_texts_follow_the_language(
    qtbot, page, workbench, context
):
    profile_id = with_profile(qtbot, page, workbench)
    workbench.controller.set(state_record(profile_id, S.LOADING, phases=LOADING))
    wait_text(qtbot, page, "Loading weights")
    for part in ("steps", "log", "changes"):
        page.reveal(part)
        assert unnamed(page) == []
    context.texts.set_language("ja")
    context.theme.apply("dark")
    context.texts.set_language("en")
    context.theme.apply("light")
    assert [page.pane._tabs.tabText(i) for i in range(3)] == ["Steps", "Log", "Changes"]


def test_long_japanese_texts_wrap_instead_of_widening_the_page(qtbot, page, workbench):
    profile_id = with_profile(qtbot, page, workbench, "長い名前" * 20)
    failure = Failure(
        message("キャッシュが収まりません。" * 20), message("文脈長を短くしてください。" * 20)
    )
    workbench.controller.set(state_record(profile_id, S.FAILED, failure=failure), alive=False)
    wait_text(qtbot, page, "キャッシュ")
    assert page.minimumSizeHint().width() <= 1000
    assert page.width() == 1100
    box = page.pane._failure
    qtbot.waitUntil(lambda: box.height() >= box.layout().heightForWidth(box.width()))


def test_keys_reach_the_log_search(qtbot, page, workbench):
    with_profile(qtbot, page, workbench)
    page.reveal("log")
    page.pane.log.text.setFocus()
    qtbot.keyClick(page.pane.log.text, Qt.Key.Key_F, Qt.KeyboardModifier.ControlModifier)
    assert page.pane.log._search.hasFocus()


def test_not_this_shows_the_next_cause_and_its_line_is_marked(qtbot, page, workbench):
    profile_id = with_profile(qtbot, page, workbench)
    workbench.write_log(profile_id, "\n".join(f"line {i} of the log" for i in range(1, 51)) + "\n")
    other = Candidate(
        "gpu-lost-tdr",
        message("The card was reset."),
        message("Restart."),
        "low",
        "line 20 of the log",
        20,
    )
    failure = Failure(
        message("The weights do not fit."),
        message("Choose smaller."),
        "vram-oom-load",
        "high",
        "line 10 of the log",
        10,
        why=message("Line 10 says so."),
        others=(other,),
    )
    workbench.controller.set(state_record(profile_id, S.FAILED, failure=failure), alive=False)
    wait_text(qtbot, page, "The weights do not fit.")
    texts = visible_texts(page)
    assert "Line 10 says so." in texts and "Cause 1 of 2" in texts
    log = page.pane.log
    qtbot.waitUntil(lambda: "line 50" in log.text.toPlainText(), timeout=5000)
    marked = {s.cursor.block().text() for s in log.text.extraSelections()}
    assert marked == {"line 10 of the log", "line 20 of the log"}
    named(page, Button, "Not this?").click()
    wait_text(qtbot, page, "The card was reset.")
    assert "Cause 2 of 2" in visible_texts(page)
    named(page, Button, "Show in the log").click()
    assert log.text.textCursor().block().text() == "line 20 of the log"


def test_a_running_server_whose_clients_are_refused_says_so(qtbot, page, workbench):
    profile_id = with_profile(qtbot, page, workbench)
    refused = 'INFO:     127.0.0.1:1 - "GET /v1/models HTTP/1.1" 401 Unauthorized'
    workbench.write_log(
        profile_id, "\n".join(["INFO:     Application startup complete.", refused, refused, ""])
    )
    workbench.controller.set(state_record(profile_id))
    wait_text(qtbot, page, "A client sends no key, or not the right one.")
    assert "Line 3 of the log says so." in visible_texts(page)

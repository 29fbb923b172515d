"""The Preflight page and the fix dialog over the real services and the simulated machine."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from PySide6.QtCore import QModelIndex, Qt
from PySide6.QtWidgets import QApplication, QPlainTextEdit, QToolButton, QTreeView

from demo_process import free_port
from qt.pages_rig import PageWorkbench, make_profile, named, page_context, unnamed, visible_texts
from twinrig.checks.registry import CHECKS, SECTIONS
from twinrig.domain.checks import CheckResult, Cost, Evidence, Finding, Status
from twinrig.domain.errors import HostError
from twinrig.domain.windows import is_windows_probe
from twinrig.messages import message
from twinrig.qt.pages.preflight import PreflightPage
from twinrig.qt.viewmodels.preflight import RowState
from twinrig.qt.widgets.check_list import CheckTable
from twinrig.qt.widgets.fix_dialog import FixDialog
from twinrig.qt.widgets.parts import Button


@pytest.fixture
def workbench(tmp_path) -> PageWorkbench:
    return PageWorkbench(tmp_path)


@pytest.fixture
def context(qapp, bridge, workbench):
    return page_context(qapp, bridge, workbench, [])


@pytest.fixture
def page(qtbot, context) -> PreflightPage:
    page = PreflightPage(context)
    qtbot.addWidget(page)
    page.resize(1000, 700)
    page.show()
    return page


def run_all(qtbot, page) -> None:
    page.on_shown()
    settle(qtbot, page)


def settle(qtbot, page) -> None:
    qtbot.waitUntil(lambda: page._run.finished and not page.model.running, timeout=8000)


def faulty(context, workbench) -> str:
    """A profile that meets the demo rig's one problem."""
    profile_id = make_profile(workbench, "Demo 24B", "/home/demo/models/Demo-24B-AWQ")
    saved = workbench.profiles.load(profile_id)
    # The rig's port may be in use here: that would be a second problem.
    network = replace(saved.network, port=free_port())
    workbench.profiles.save(replace(saved, network=network), replaces=saved)
    context.settings.current_profile = profile_id
    return profile_id


def problem_row(page):
    return next(r for r in page.model.rows if r.result and r.result.status is Status.FAIL)


def fix_buttons(page) -> list[Button]:
    return [
        b
        for b in page.findChildren(Button)
        if b.isVisibleTo(page) and b.text().startswith(("Fix:", "How to:"))
    ]


def open_fix(qtbot, page, number=0) -> FixDialog:
    qtbot.waitUntil(lambda: len(fix_buttons(page)) > number, timeout=5000)
    fix_buttons(page)[number].click()
    qtbot.waitUntil(lambda: page.findChild(FixDialog) is not None)
    return page.findChild(FixDialog)


def test_it_checks_once_by_itself_and_again_on_f5_only(qtbot, page):
    run_all(qtbot, page)
    view = named(page, QTreeView, "Checks")
    assert view.model().rowCount() == len(page.model.rows)
    assert page.model.counts()[Status.PASS] > 0
    first = list(page.model.rows)
    page.on_shown()
    assert page.model.rows == first
    page.refresh()
    assert page.model.running
    settle(qtbot, page)


def test_every_row_shows_icon_word_and_summary(qtbot, page):
    run_all(qtbot, page)
    model = named(page, QTreeView, "Checks").model()
    for number, row in enumerate(page.model.rows):
        cells = [model.index(number, c) for c in range(3)]
        assert cells[0].data() == page.tr(row.word)
        if row.result is None:  # slow, or about another engine
            slow = next(c for c in CHECKS if c.id == row.check_id).cost is Cost.SLOW
            assert row.state is (RowState.NEW if slow else RowState.UNNEEDED)
            continue
        assert not cells[0].data(Qt.ItemDataRole.DecorationRole).isNull()
        assert cells[1].data() == page.tr(row.title)
        assert cells[2].data() == page.tr(row.result.summary)
        spoken = cells[0].data(Qt.ItemDataRole.AccessibleTextRole)
        assert cells[0].data() in spoken and cells[2].data() in spoken


def test_each_section_bears_its_title_once_whatever_is_hidden(qtbot, page):
    run_all(qtbot, page)
    view = named(page, QTreeView, "Checks")
    model = view.model()
    assert view.header().visualIndex(CheckTable.AREA) == 0

    def titles() -> list[tuple[str, str]]:
        """Of the rows that are shown: what stands there, and what their section is."""
        return [
            (model.index(n, CheckTable.AREA).data(), page.tr(row.area))
            for n, row in enumerate(page.model.rows)
            if not view.isRowHidden(n, QModelIndex())
        ]

    def told_once(shown: list[tuple[str, str]]) -> None:
        before = ""
        for told, area in shown:
            assert told == ("" if area == before else area)
            before = area

    whole = titles()
    told_once(whole)
    assert [told for told, _ in whole if told] == [page.tr(title) for title, _ in SECTIONS]
    page._show.setCurrentIndex(2)
    some = titles()
    assert 0 < len(some) < len(whole)
    told_once(some)
    page.context.texts.set_language("ja")
    told_once(titles())


def test_one_answer_announces_one_row(qtbot, page):
    run_all(qtbot, page)
    model = named(page, QTreeView, "Checks").model()
    touched = []
    model.dataChanged.connect(lambda a, b, *_: touched.append((a.row(), b.row())))
    model.modelReset.connect(lambda: touched.append("reset"))
    page._arrived(CheckResult(page.model.rows[3].check_id, Status.WARN, message("x")))
    assert touched == [(3, 3)]


def test_the_problem_is_selected_and_its_fixes_are_offered_best_first(
    qtbot, page, context, workbench
):
    faulty(context, workbench)
    run_all(qtbot, page)
    row = problem_row(page)
    assert page.tr(row.title) in visible_texts(page)
    qtbot.waitUntil(lambda: bool(fix_buttons(page)), timeout=5000)
    expected = asyncio.run(workbench.fixer.options(row.finding, page._profile))
    titles = [f"Fix: {page.tr(o.title)}…" for o in expected]
    assert [b.text() for b in fix_buttons(page)] == titles
    assert "needs your attention" in visible_texts(page)


def test_the_chosen_check_stays_in_sight_when_the_list_gets_smaller(qtbot, page):
    run_all(qtbot, page)
    view = named(page, QTreeView, "Checks")
    middle = page._table.index(len(page.model.rows) // 2, 0)
    view.setCurrentIndex(middle)
    view.scrollTo(middle, QTreeView.ScrollHint.PositionAtBottom)
    view.resize(view.width(), view.height() // 2)
    ground = view.viewport().rect()
    assert ground.contains(view.visualRect(middle).center())


def test_evidence_opens_and_closes(qtbot, page, context, workbench):
    faulty(context, workbench)
    run_all(qtbot, page)
    toggle = named(page, QToolButton, "Evidence")
    boxes = [w for w in page.findChildren(QPlainTextEdit) if w.accessibleName()]
    assert not boxes[0].isVisibleTo(page)
    toggle.click()
    assert boxes[0].isVisibleTo(page)
    for piece in problem_row(page).result.evidence:
        assert piece.text.strip() in boxes[0].toPlainText()


def test_apply_proves_and_undo_takes_back(qtbot, page, context, workbench):
    faulty(context, workbench)
    run_all(qtbot, page)
    dialog = open_fix(qtbot, page)
    apply = named(dialog, Button, "Apply")
    qtbot.waitUntil(apply.isEnabled, timeout=5000)
    preview = named(dialog, QPlainTextEdit, "Exactly what will be changed").toPlainText()
    assert "sysctl -w kernel.yama.ptrace_scope=0" in preview
    assert "+kernel.yama.ptrace_scope = 0" in preview
    assert "Nothing has been changed yet" in visible_texts(dialog)
    assert "root" in visible_texts(dialog)
    assert workbench.journal.entries() == ()

    apply.click()
    qtbot.waitUntil(lambda: "Proven" in visible_texts(dialog), timeout=8000)
    assert len(workbench.journal.entries()) == 1
    assert "Fine · " in visible_texts(dialog)

    named(dialog, Button, "Undo").click()
    qtbot.waitUntil(lambda: "Taken back" in visible_texts(dialog), timeout=8000)
    assert workbench.journal.entries()[0].undone_at_s is not None
    named(dialog, Button, "Close").click()
    settle(qtbot, page)
    assert problem_row(page)


def test_after_a_fix_the_page_checks_again(qtbot, page, context, workbench):
    faulty(context, workbench)
    run_all(qtbot, page)
    dialog = open_fix(qtbot, page)
    qtbot.waitUntil(named(dialog, Button, "Apply").isEnabled, timeout=5000)
    dialog.apply()
    qtbot.waitUntil(lambda: "Proven" in visible_texts(dialog), timeout=8000)
    dialog.reject()
    settle(qtbot, page)
    assert page.model.counts()[Status.FAIL] == 0


def test_a_fix_that_does_not_help_is_called_not_proven(
    qtbot, page, context, workbench, monkeypatch
):
    faulty(context, workbench)
    run_all(qtbot, page)
    dialog = open_fix(qtbot, page)
    qtbot.waitUntil(named(dialog, Button, "Apply").isEnabled, timeout=5000)
    row = problem_row(page)

    async def still_broken(profile=None, ids=None):
        yield row.result

    monkeypatch.setattr(workbench.preflight, "run", still_broken)
    dialog.apply()
    qtbot.waitUntil(lambda: "Not proven" in visible_texts(dialog), timeout=8000)
    assert "Problem · " in visible_texts(dialog)
    assert named(dialog, Button, "Undo").isEnabled()


def test_a_failing_apply_shows_cause_and_next_step(qtbot, page, context, workbench, monkeypatch):
    faulty(context, workbench)
    run_all(qtbot, page)
    dialog = open_fix(qtbot, page)
    qtbot.waitUntil(named(dialog, Button, "Apply").isEnabled, timeout=5000)

    async def refuse(*_args, **_kwargs):
        raise HostError(message("sudo wants a password."), message("Run it by hand."))

    monkeypatch.setattr(workbench.host, "run", refuse)
    monkeypatch.setattr(workbench.host, "write_file", refuse)
    dialog.apply()
    qtbot.waitUntil(lambda: "sudo wants a password." in visible_texts(dialog), timeout=8000)
    assert "Run it by hand." in visible_texts(dialog)
    assert not [b for b in dialog.findChildren(Button) if b.text() == "Apply" and b.isVisible()]
    dialog.reject()
    settle(qtbot, page)
    fine = [r.check_id for r in page.model.rows if r.result and r.result.status is Status.PASS]
    asked = {check.id: check.probes for check in workbench.preflight.checks}
    assert not [name for name in fine if not all(map(is_windows_probe, asked[name]))], (
        "only what asks the Linux side nothing can be fine"
    )


def test_the_dialog_cannot_be_closed_half_way(qtbot, page, context, workbench, monkeypatch):
    faulty(context, workbench)
    run_all(qtbot, page)
    dialog = open_fix(qtbot, page)
    qtbot.waitUntil(named(dialog, Button, "Apply").isEnabled, timeout=5000)
    release = []

    async def slow(*_args):
        while not release:
            await asyncio.sleep(0.01)
        raise HostError(message("Ended."))

    monkeypatch.setattr(workbench.fixer, "apply", slow)
    dialog.apply()
    dialog.reject()
    assert dialog.isVisible()
    assert not named(dialog, Button, "Close").isEnabled()
    release.append(True)
    qtbot.waitUntil(lambda: "Ended." in visible_texts(dialog), timeout=5000)
    dialog.reject()
    assert not dialog.isVisible()


def test_another_fix_can_be_looked_at_in_the_dialog(qtbot, page, context, workbench):
    faulty(context, workbench)
    run_all(qtbot, page)
    dialog = open_fix(qtbot, page, number=1)
    qtbot.waitUntil(named(dialog, Button, "Apply").isEnabled, timeout=5000)
    assert dialog.flow.chosen == 1
    assert "PYTORCH_CUDA_ALLOC_CONF" in dialog._text.toPlainText()


def test_cancel_leaves_what_was_known(qtbot, page, workbench, monkeypatch):
    run_all(qtbot, page)
    before = list(page.model.rows)

    async def endless(profile=None, ids=None):
        yield before[0].result
        await asyncio.Event().wait()

    monkeypatch.setattr(workbench.preflight, "run", endless)
    page.refresh()
    named(page, Button, "Cancel").click()
    assert not page.model.running
    assert page.model.rows == before
    named(page, Button, "Check again")


def test_a_run_that_breaks_is_told_and_rows_are_not_left_running(
    qtbot, page, workbench, monkeypatch
):
    async def broken(profile=None, ids=None):
        raise HostError(message("WSL does not answer."), message("Start WSL."))
        yield

    monkeypatch.setattr(workbench.preflight, "run", broken)
    page.on_shown()
    qtbot.waitUntil(lambda: "WSL does not answer." in visible_texts(page), timeout=5000)
    assert not page.model.running
    assert "fine" not in visible_texts(page).lower()


def test_a_damaged_profile_is_told_and_the_machine_checked_all_the_same(
    qtbot, page, context, workbench
):
    profile_id = make_profile(workbench, "Demo 24B")
    workbench.profiles.path(profile_id).write_bytes(b"\x00\x01: [")
    context.settings.current_profile = profile_id
    run_all(qtbot, page)
    assert profile_id in visible_texts(page)
    assert "Checked for the machine alone" in visible_texts(page)
    assert page.model.counts()[Status.PASS] > 0


def test_an_unknown_answer_never_gets_a_fix_button(qtbot, page):
    run_all(qtbot, page)
    finding = Finding("pidfd-getfd-denied", fixes=("sysctl-ptrace-0",))
    check_id = page.model.rows[0].check_id
    page._view.setCurrentIndex(page._table.index(0, 0))
    evidence = (Evidence("probe", "timeout"),)
    page._arrived(CheckResult(check_id, Status.ERROR, message("No answer."), finding, evidence))
    assert "no fix is offered" in visible_texts(page)
    assert fix_buttons(page) == []


def test_the_report_is_copied_without_names(qtbot, page):
    run_all(qtbot, page)
    named(page, Button, "Copy report").click()
    text = QApplication.clipboard().text()
    assert "Twinrig preflight report" in text
    assert "Demo rig" in text
    assert "/home/demo" not in text
    assert text.count("[") >= len(page.model.rows)


def test_another_profile_is_checked_when_it_is_chosen(qtbot, page, context, workbench):
    run_all(qtbot, page)
    faulty(context, workbench)
    qtbot.waitUntil(lambda: "Checked for the profile Demo 24B" in visible_texts(page), timeout=8000)
    settle(qtbot, page)


def test_language_and_theme_switch_live(qtbot, page, context):
    run_all(qtbot, page)
    context.texts.set_language("ja")
    context.theme.apply("dark")
    context.texts.set_language("en")
    context.theme.apply("light")
    assert page._table.index(0, 0).data() == "Fine"


def test_every_control_has_a_name_and_can_be_reached_by_keyboard(qtbot, page, context, workbench):
    faulty(context, workbench)
    run_all(qtbot, page)
    qtbot.waitUntil(lambda: bool(fix_buttons(page)), timeout=5000)
    assert unnamed(page) == []
    for button in page.findChildren(Button):
        assert button.focusPolicy() & Qt.FocusPolicy.TabFocus
    dialog = open_fix(qtbot, page)
    qtbot.waitUntil(named(dialog, Button, "Apply").isEnabled, timeout=5000)
    assert unnamed(dialog) == []


def test_without_a_choice_it_judges_the_profile_that_start_would_mean(qtbot, page, workbench):
    make_profile(workbench, "Demo 24B", "/home/demo/models/Demo-24B-AWQ")
    assert page.context.settings.current_profile == ""
    run_all(qtbot, page)
    assert "Checked for the profile Demo 24B." in visible_texts(page)
    skipped = [r for r in page.model.rows if r.result and r.result.status is Status.SKIP]
    assert skipped == []

"""The masked report on the Server page: in view before it goes anywhere."""

from __future__ import annotations

import pytest
from PySide6.QtWidgets import QApplication

from qt.pages_rig import (
    PageWorkbench,
    ScriptedDialogs,
    make_profile,
    named,
    page_context,
    visible_texts,
)
from twinrig.qt.pages.server import ServerPage
from twinrig.qt.widgets.parts import Button
from twinrig.qt.widgets.report_dialog import ReportDialog


@pytest.fixture
def workbench(tmp_path) -> PageWorkbench:
    return PageWorkbench(tmp_path)


@pytest.fixture
def dialogs() -> ScriptedDialogs:
    return ScriptedDialogs()


@pytest.fixture
def page(qtbot, qapp, bridge, workbench, dialogs) -> ServerPage:
    page = ServerPage(page_context(qapp, bridge, workbench, []), dialogs=dialogs)
    qtbot.addWidget(page)
    page.resize(1100, 700)
    page.show()
    return page


def with_profile(qtbot, page, workbench) -> str:
    profile_id = make_profile(workbench, "Alpha")
    page.on_shown()
    qtbot.waitUntil(lambda: page.pane.profile_id == profile_id, timeout=5000)
    return profile_id


def open_report(qtbot, page) -> ReportDialog:
    named(page, Button, "Report…").click()
    (dialog,) = page.findChildren(ReportDialog)
    qtbot.waitUntil(dialog.save_button.isEnabled, timeout=10_000)
    return dialog


def test_the_report_is_looked_at_before_it_is_copied(qtbot, page, workbench):
    profile_id = with_profile(qtbot, page, workbench)
    workbench.write_log(profile_id, "x\nOSError: [Errno 98] Address already in use\n/home/taro/x\n")
    before = "nothing copied yet"
    QApplication.clipboard().setText(before)
    dialog = open_report(qtbot, page)
    text = dialog.text.toPlainText()
    for words in ("## Findings", "port-in-use (high, line 2)", "## Checks", "ptrace", "## Log"):
        assert words in text
    assert "taro" not in text
    assert QApplication.clipboard().text() == before
    dialog.copy_button.click()
    assert QApplication.clipboard().text() == text
    dialog.reject()


def test_the_report_is_saved_where_the_user_says(qtbot, page, workbench, dialogs, tmp_path):
    with_profile(qtbot, page, workbench)
    dialog = open_report(qtbot, page)  # no log yet: checks and settings are told all the same
    text = dialog.text.toPlainText()
    assert "## Settings" in text and "## Findings" not in text
    target = tmp_path / "report.txt"
    dialogs.answers += [None, target]
    dialog.save_button.click()
    assert not target.exists()
    dialog.save_button.click()
    qtbot.waitUntil(target.exists, timeout=5000)
    assert target.read_text("utf-8") == text
    dialog.reject()


def test_a_report_that_cannot_be_made_says_why(qtbot, page, workbench):
    profile_id = with_profile(qtbot, page, workbench)
    workbench.layout.log(profile_id).mkdir(parents=True)
    named(page, Button, "Report…").click()
    (dialog,) = page.findChildren(ReportDialog)
    qtbot.waitUntil(lambda: "cannot be read" in visible_texts(dialog), timeout=10_000)
    assert not dialog.copy_button.isEnabled()
    dialog.reject()

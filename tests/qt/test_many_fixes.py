"""Fix all that is safe, a fix that was cut off, and Undo all, in the panel."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from PySide6.QtCore import QModelIndex
from PySide6.QtWidgets import QComboBox

from demo_process import free_port
from qt.pages_rig import PageWorkbench, make_profile, named, page_context, unnamed, visible_texts
from twinrig.domain.checks import Finding, Status
from twinrig.domain.fixes import FixPlan
from twinrig.domain.profile import EnvEntry
from twinrig.qt.pages.preflight import PreflightPage
from twinrig.qt.widgets.changes_view import ChangesView
from twinrig.qt.widgets.interrupted_bar import InterruptedBar
from twinrig.qt.widgets.parts import Button
from twinrig.qt.widgets.safe_fix_dialog import SafeFixDialog

LEFT = Finding("diagnostic-settings-left", fixes=("env-diagnosis-off",))


@pytest.fixture
def workbench(tmp_path) -> PageWorkbench:
    return PageWorkbench(tmp_path)


@pytest.fixture
def context(qapp, bridge, workbench):
    context = page_context(qapp, bridge, workbench, [])
    profile_id = make_profile(workbench, "Demo 24B", "/home/demo/models/Demo-24B-AWQ")
    saved = workbench.profiles.load(profile_id)
    env = {"NCCL_DEBUG": EnvEntry("INFO")}
    network = replace(saved.network, port=free_port())
    workbench.profiles.save(replace(saved, network=network, env=env), replaces=saved)
    context.settings.current_profile = profile_id
    return context


@pytest.fixture
def page(qtbot, context) -> PreflightPage:
    page = PreflightPage(context)
    qtbot.addWidget(page)
    page.resize(1000, 700)
    page.show()
    page.on_shown()
    qtbot.waitUntil(lambda: page._run.finished and not page.model.running, timeout=15000)
    return page


def env(workbench) -> set[str]:
    return set(workbench.profiles.load("demo-24b").env)


def shows(widget, text: str) -> bool:
    return any(b.text() == text and b.isVisibleTo(widget) for b in widget.findChildren(Button))


async def applied(workbench) -> str:
    profile = workbench.profiles.load("demo-24b")
    (plan,) = await workbench.fixer.options(LEFT, profile)
    assert isinstance(plan, FixPlan)
    return (await workbench.fixer.apply(LEFT, plan, profile)).entry_id


def run(bridge, qtbot, work) -> list:
    got: list = []
    bridge.submit(work, bridge, got.append)
    qtbot.waitUntil(lambda: bool(got), timeout=8000)
    return got


def cut_off(workbench) -> None:
    """The journal as a crash leaves it: begun and recorded, never said to be done."""
    path = workbench.layout.root / "journal.jsonl"
    events = [json.loads(line) for line in path.read_text().splitlines()]
    kept = [event for event in events if event["event"] in ("begin", "step")]
    path.write_text("".join(json.dumps(event) + "\n" for event in kept))


def test_all_that_is_safe_is_shown_applied_and_proven(qtbot, page, workbench) -> None:
    named(page, Button, "Fix all that is safe…").click()
    qtbot.waitUntil(lambda: page.findChild(SafeFixDialog) is not None)
    dialog = page.findChild(SafeFixDialog)
    qtbot.waitUntil(lambda: dialog._apply.isEnabled(), timeout=8000)
    assert "NCCL_DEBUG" in dialog._text.toPlainText() and not unnamed(dialog)
    assert "NCCL_DEBUG" in env(workbench), "looking changes nothing"

    with qtbot.waitSignal(dialog.changed, timeout=15000):
        named(dialog, Button, "Apply all").click()
    assert [item.kept for item in dialog.done] == [True]
    assert "proven" in visible_texts(dialog) and "NCCL_DEBUG" not in env(workbench)
    assert not shows(dialog, "Apply all")


def test_fix_that_was_cut_off_is_offered_and_finished(qtbot, bridge, context, workbench) -> None:
    run(bridge, qtbot, applied(workbench))
    cut_off(workbench)
    page = PreflightPage(context)
    qtbot.addWidget(page)
    page.show()
    page.on_shown()
    bar = page.findChild(InterruptedBar)
    qtbot.waitUntil(lambda: bar.isVisible(), timeout=8000)
    assert "was cut off" in visible_texts(bar) and not unnamed(bar)

    with qtbot.waitSignal(bar.changed, timeout=15000):
        named(bar, Button, "Finish it").click()
    assert not bar.isVisible() and "NCCL_DEBUG" not in env(workbench)
    qtbot.waitUntil(lambda: page._run.finished, timeout=15000)


def test_fix_that_was_cut_off_is_taken_back_from_the_changes(
    qtbot, bridge, context, workbench
) -> None:
    run(bridge, qtbot, applied(workbench))
    cut_off(workbench)
    view = ChangesView(context)
    qtbot.addWidget(view)
    view.show()
    view.reload()
    bar = view.findChild(InterruptedBar)
    qtbot.waitUntil(lambda: bar.isVisible(), timeout=8000)
    with qtbot.waitSignal(view.changed, timeout=8000):
        named(bar, Button, "Take it back").click()
    assert "NCCL_DEBUG" in env(workbench) and not bar.isVisible()


def test_undo_all_asks_and_takes_everything_back(qtbot, bridge, context, workbench) -> None:
    run(bridge, qtbot, applied(workbench))
    view = ChangesView(context)
    qtbot.addWidget(view)
    view.show()
    view.reload()
    qtbot.waitUntil(lambda: view._undo_all.isEnabled(), timeout=8000)
    named(view, Button, "Undo all").click()
    assert "NCCL_DEBUG" not in env(workbench) and "all 1 changes" in visible_texts(view)
    with qtbot.waitSignal(view.changed, timeout=8000):
        named(view, Button, "Take all back").click()
    assert "NCCL_DEBUG" in env(workbench)
    qtbot.waitUntil(lambda: not view._undo_all.isEnabled(), timeout=8000)


def test_thorough_check_asks_the_slow_ones_too(qtbot, page) -> None:
    named(page, Button, "Check thoroughly").click()
    slow = next(row for row in page.model.rows if row.check_id == "collective")
    assert slow.state.value == "running"
    qtbot.waitUntil(lambda: page._run.finished and not page.model.running, timeout=15000)
    assert next(r for r in page.model.rows if r.check_id == "collective").result is not None


def test_filter_leaves_what_needs_attention(qtbot, page) -> None:
    combo = named(page, QComboBox, "Which checks are shown")
    combo.setCurrentIndex(1)
    shown = [
        r for n, r in enumerate(page.model.rows) if not page._view.isRowHidden(n, QModelIndex())
    ]
    bad = (Status.FAIL, Status.WARN, Status.ERROR)
    assert shown and all(row.result and row.result.status in bad for row in shown)
    combo.setCurrentIndex(2)
    assert not page._view.isRowHidden(
        next(n for n, r in enumerate(page.model.rows) if r.check_id == "collective"), QModelIndex()
    )
    combo.setCurrentIndex(0)
    assert not any(page._view.isRowHidden(n, QModelIndex()) for n in range(len(page.model.rows)))

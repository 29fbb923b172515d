"""Set up an engine from the panel: what would be done, progress, cancel, failure, result."""

from __future__ import annotations

import asyncio

import pytest

from qt.pages_rig import (
    PageWorkbench,
    ScriptedDialogs,
    make_profile,
    named,
    page_context,
    unnamed,
    visible_texts,
)
from twinrig.domain.errors import HostError, UsageError
from twinrig.messages import message
from twinrig.qt.pages.plan import PlanPage
from twinrig.qt.viewmodels.setting_up import engine_to_set_up
from twinrig.qt.widgets.parts import Button
from twinrig.qt.widgets.setup_dialog import SetupDialog
from twinrig.services.setup_words import SetupProgress, SetupStep

WAIT_MS = 20_000


@pytest.fixture
def workbench(tmp_path) -> PageWorkbench:
    workbench = PageWorkbench(tmp_path)
    workbench.setup.engines = ("vllm", "tabbyapi", "demo")
    return workbench


@pytest.fixture
def context(qapp, bridge, workbench):
    return page_context(qapp, bridge, workbench, [])


def opened(qtbot, context, profile=None) -> SetupDialog:
    dialog = SetupDialog(context, "vllm", profile)
    qtbot.addWidget(dialog)
    dialog.show()
    qtbot.waitUntil(lambda: "Looking at" not in visible_texts(dialog), timeout=WAIT_MS)
    return dialog


def test_what_would_be_done_is_told_before_anything_is(qtbot, context, workbench):
    workbench.setup.replaces = "env-0"
    dialog = opened(qtbot, context)
    text = visible_texts(dialog)
    assert "vLLM 0.33.0 with wheels for CUDA 12" in text
    assert "about 18.0 GiB; 311.0 GiB are free" in text
    assert "stays until the new one is proven" in text
    assert workbench.setup.asked == []
    assert unnamed(dialog) == []


def test_it_can_be_refused_with_the_reason(qtbot, context, workbench):
    workbench.setup.plan_error = UsageError(message("Too old a driver."), message("Update it."))
    dialog = opened(qtbot, context)
    assert "Too old a driver.\nUpdate it." in visible_texts(dialog)
    assert not named(dialog, Button, "Set it up").isEnabled()


def test_progress_then_the_result(qtbot, context, workbench):
    workbench.setup.gate = asyncio.Event()
    workbench.setup.steps = [
        SetupProgress(SetupStep.FETCH, "Downloading torch-2.14.0 (900 MB)"),
        SetupProgress(SetupStep.FETCH, "", 0.4),
    ]
    dialog = opened(qtbot, context)
    with qtbot.waitSignal(dialog.changed, timeout=WAIT_MS):
        named(dialog, Button, "Set it up").click()
        qtbot.waitUntil(lambda: "torch-2.14.0" in visible_texts(dialog), timeout=WAIT_MS)
        assert "Downloading packages" in visible_texts(dialog)
        qtbot.waitUntil(lambda: dialog._bar.value() == 400, timeout=WAIT_MS)
        context.bridge.in_loop(workbench.setup.gate.set)
    assert "vLLM is set up." in visible_texts(dialog)
    assert workbench.setup.asked == [("vllm", "")]
    assert not dialog.running


def test_a_failure_is_told_and_can_be_tried_again(qtbot, context, workbench):
    workbench.setup.error = HostError(message("The disk is full."), message("Free some."))
    dialog = opened(qtbot, context)
    named(dialog, Button, "Set it up").click()
    qtbot.waitUntil(
        lambda: "The disk is full.\nFree some." in visible_texts(dialog), timeout=WAIT_MS
    )
    workbench.setup.error = None
    with qtbot.waitSignal(dialog.changed, timeout=WAIT_MS):
        named(dialog, Button, "Try again").click()


def test_closing_cancels_what_goes_on(qtbot, context, workbench):
    workbench.setup.gate = asyncio.Event()
    dialog = opened(qtbot, context)
    named(dialog, Button, "Set it up").click()
    qtbot.waitUntil(lambda: bool(workbench.setup.asked), timeout=WAIT_MS)
    named(dialog, Button, "Cancel").click()
    qtbot.waitUntil(lambda: workbench.setup.cancelled, timeout=WAIT_MS)
    assert not dialog.isVisible()


def test_a_profile_proves_it_unless_the_user_says_no(qtbot, context, workbench):
    profile = workbench.profiles.load(make_profile(workbench, "Mine"))
    dialog = opened(qtbot, context, profile)
    with qtbot.waitSignal(dialog.changed, timeout=WAIT_MS):
        named(dialog, Button, "Set it up").click()
    assert workbench.setup.asked == [("vllm", profile.id)]
    other = opened(qtbot, context, profile)
    other._use.setChecked(False)
    with qtbot.waitSignal(other.changed, timeout=WAIT_MS):
        named(other, Button, "Set it up").click()
    assert workbench.setup.asked[-1] == ("vllm", "")


def test_the_plan_page_offers_it(qtbot, context, workbench):
    page = PlanPage(context, dialogs=ScriptedDialogs())
    qtbot.addWidget(page)
    page.show()
    page.on_shown()
    qtbot.waitUntil(lambda: page.model is not None, timeout=WAIT_MS)
    button = named(page, Button, "Set up or update Demo engine…")
    workbench.setup.engines = ()
    page.head.show_install(None, "Demo engine")
    assert not button.isVisibleTo(page)


@pytest.mark.parametrize(
    ("finding", "engine", "offered"),
    [
        ("engine-not-installed", "vllm", "vllm"),
        ("cudart13-missing", "", "demo"),
        ("oom", "vllm", ""),
        ("engine-not-installed", "unknown", ""),
    ],
)
def test_for_which_findings_a_set_up_is_offered(workbench, finding, engine, offered):
    profile = workbench.profiles.load(make_profile(workbench, "Mine"))
    assert engine_to_set_up(workbench, finding, engine, profile) == offered

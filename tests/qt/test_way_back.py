"""After a failure: back to the settings that worked. While another runs: switch."""

from __future__ import annotations

from dataclasses import replace

import pytest

from qt.pages_rig import (
    PageWorkbench,
    ScriptedDialogs,
    make_profile,
    named,
    page_context,
    state_record,
    visible_texts,
)
from twinrig.domain.server import ServerState
from twinrig.domain.supervision import Failure
from twinrig.messages import message
from twinrig.qt.pages.server import ServerPage
from twinrig.qt.widgets.parts import Button
from twinrig.qt.widgets.setup_dialog import SetupDialog
from twinrig.services.switching import Restarted

WAIT_MS = 20_000
S = ServerState
FULL = Failure(message("The card is full."), message("Use less."), "oom")
BACK = "Go back to the settings that worked"


@pytest.fixture
def workbench(tmp_path) -> PageWorkbench:
    return PageWorkbench(tmp_path)


@pytest.fixture
def page(qtbot, qapp, bridge, workbench) -> ServerPage:
    page = ServerPage(page_context(qapp, bridge, workbench, []), dialogs=ScriptedDialogs())
    qtbot.addWidget(page)
    page.resize(1100, 700)
    page.show()
    return page


def with_profile(qtbot, page, workbench, name="Alpha") -> str:
    profile_id = make_profile(workbench, name)
    page.on_shown()
    qtbot.waitUntil(lambda: page.pane.profile_id == profile_id, timeout=WAIT_MS)
    return profile_id


def change(workbench, profile_id: str, context: int) -> None:
    before = workbench.profiles.load(profile_id)
    settings = {**before.settings, "context_length": context}
    workbench.profiles.save(replace(before, settings=settings), replaces=before)


def failed(qtbot, page, workbench, profile_id: str, failure: Failure = FULL) -> None:
    workbench.controller.set(state_record(profile_id, S.FAILED, failure=failure), alive=False)
    text = str(failure.text)
    qtbot.waitUntil(lambda: text in visible_texts(page), timeout=WAIT_MS)


def buttons(page, name: str) -> list[Button]:
    return [
        b for b in page.findChildren(Button) if b.accessibleName() == name and b.isVisibleTo(page)
    ]


def test_one_click_brings_back_what_worked_and_starts(qtbot, page, workbench):
    profile_id = with_profile(qtbot, page, workbench)
    worked = workbench.profiles.load(profile_id)
    workbench.last_good().remember(worked)
    change(workbench, profile_id, 123_456)
    failed(qtbot, page, workbench, profile_id)
    qtbot.waitUntil(lambda: bool(buttons(page, BACK)), timeout=WAIT_MS)
    before = worked.settings["context_length"]
    assert f"settings.context_length: {before} → 123456" in visible_texts(page)
    named(page, Button, BACK).click()
    wanted = ("start", profile_id, "panel")
    qtbot.waitUntil(lambda: wanted in workbench.controller.asked, timeout=WAIT_MS)
    assert workbench.profiles.load(profile_id) == worked
    assert not buttons(page, BACK)


@pytest.mark.parametrize("remembered", [True, False])
def test_nothing_is_offered_where_nothing_was_changed_or_known(qtbot, page, workbench, remembered):
    profile_id = with_profile(qtbot, page, workbench)
    if remembered:
        workbench.last_good().remember(workbench.profiles.load(profile_id))
    failed(qtbot, page, workbench, profile_id)
    qtbot.wait(300)
    assert not buttons(page, BACK)


def test_a_restart_that_went_back_says_so(qtbot, page, workbench, monkeypatch):
    profile_id = with_profile(qtbot, page, workbench)

    class Switching:
        async def restart(self, wanted, requested_by):
            assert (wanted, requested_by) == (profile_id, "panel")
            return Restarted(True, (), FULL)

    monkeypatch.setattr(workbench, "switching", Switching)
    workbench.controller.set(state_record(profile_id, S.READY))
    qtbot.waitUntil(named(page, Button, "Restart").isEnabled, timeout=WAIT_MS)
    named(page, Button, "Restart").click()
    told = "did not start: The card is full. Those that worked are back"
    qtbot.waitUntil(lambda: told in visible_texts(page), timeout=WAIT_MS)


def test_another_server_can_be_stopped_for_this_one(qtbot, page, workbench):
    other = make_profile(workbench, "Beta")
    workbench.controller.set(state_record(other, S.READY))
    profile_id = make_profile(workbench, "Alpha")
    page.on_shown()
    qtbot.waitUntil(lambda: page.panel.loaded, timeout=WAIT_MS)
    page.panel.select(profile_id)
    name = "Stop it and start this one"
    qtbot.waitUntil(lambda: bool(buttons(page, name)), timeout=WAIT_MS)
    asked = workbench.controller.asked

    async def stopped(wanted, _states, _timeout_s, _on_record=None):
        workbench.controller.set(state_record(wanted, S.STOPPED), alive=False)

    workbench.controller.wait_for = stopped
    named(page, Button, name).click()
    qtbot.waitUntil(lambda: len(asked) == 2, timeout=WAIT_MS)
    assert asked == [("stop", other, "panel"), ("start", profile_id, "panel")]


def test_a_missing_engine_can_be_set_up_from_the_failure(qtbot, page, workbench):
    workbench.setup.engines = ("vllm",)
    profile_id = with_profile(qtbot, page, workbench)
    missing = Failure(
        message("There is no vLLM."),
        message("Install it."),
        "engine-not-installed",
        params=(("engine", "vllm"),),
    )
    failed(qtbot, page, workbench, profile_id, missing)
    qtbot.waitUntil(lambda: bool(buttons(page, "Set up vLLM…")), timeout=WAIT_MS)
    named(page, Button, "Set up vLLM…").click()
    qtbot.waitUntil(lambda: bool(page.findChildren(SetupDialog)), timeout=WAIT_MS)
    (dialog,) = page.findChildren(SetupDialog)
    qtbot.waitUntil(lambda: "prove it with a first reply" in dialog._use.text(), timeout=WAIT_MS)
    dialog.reject()

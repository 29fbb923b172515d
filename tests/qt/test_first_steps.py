"""The first steps as a page: what is pressed, what is remembered, when they come by themselves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from PySide6.QtWidgets import QApplication, QCheckBox, QPushButton

from fixtures.reply_server import ReplyServer, events, fault, reply_server
from qt.full_rig import FullWorkbench
from qt.pages_rig import (
    PageWorkbench,
    make_profile,
    named,
    page_context,
    state_record,
    unnamed,
    visible_texts,
)
from qt.panel_rig import RigFolders, snapshot
from twinrig.domain.errors import GpuUnavailableError
from twinrig.domain.server import ServerState
from twinrig.hosts.clock import SystemClock
from twinrig.hosts.demo.gpus import DemoGpuProbe
from twinrig.hosts.http import HttpxClient
from twinrig.messages import message
from twinrig.qt.application import Starter
from twinrig.qt.bridge import Bridge
from twinrig.qt.pages.first_steps import FirstStepsPage
from twinrig.qt.viewmodels.first_look import Remembered
from twinrig.qt.viewmodels.first_steps import StepId, StepState
from twinrig.qt.widgets.fix_dialog import FixDialog
from twinrig.qt.widgets.setup_dialog import SetupDialog

MODEL = "/home/demo/models/Demo-8B-AWQ"
PATIENCE_MS = 15_000


class Rig:
    """The page over the simulated machine; ``targets`` are panels that it asked for."""

    def __init__(self, qtbot, qapp: QApplication, bridge: Bridge, root: Path) -> None:
        self.bot = qtbot
        self.workbench = PageWorkbench(root)
        self.workbench.open_gpu_probe = lambda: DemoGpuProbe(root)
        self.workbench.http = HttpxClient()
        self.workbench.clock = SystemClock()
        self.workbench.secrets = SimpleNamespace(get=self._no_secret)
        bridge.at_shutdown(self.workbench.http.close)
        self.navigated: list[str] = []
        self.targets: list[str] = []
        context = page_context(qapp, bridge, self.workbench, self.navigated)
        self.context = replace(context, open_target=self.targets.append)

    def open(self) -> FirstStepsPage:
        self.page = FirstStepsPage(self.context)
        self.page.resize(900, 1400)
        self.bot.addWidget(self.page)
        self.page.show()
        self.page.on_shown()
        self.settle()
        return self.page

    def settle(self) -> None:
        page = self.page
        self.bot.waitUntil(
            lambda: page.seen.found.looked and not page.seen.checking and not page.seen.asking,
            timeout=PATIENCE_MS,
        )
        self.bot.waitUntil(lambda: not self.context.bridge._handles, timeout=PATIENCE_MS)

    def state(self, step: StepId) -> StepState:
        return self.page.boxes[step].step.state

    def press(self, step: StepId, text: str) -> None:
        QApplication.processEvents()  # what was just added is shown by an event
        found = [
            b
            for b in self.page.boxes[step].findChildren(QPushButton)
            if b.text() == text and b.isVisibleTo(self.page)
        ]
        assert len(found) == 1, f"{len(found)} buttons {text!r}: {visible_texts(self.page)}"
        found[0].click()

    async def _no_secret(self, _name: str) -> None:
        return None


@pytest.fixture
def rig(qtbot, qapp: QApplication, bridge: Bridge, tmp_path: Path) -> Rig:
    return Rig(qtbot, qapp, bridge, tmp_path)


@pytest.fixture
def server() -> Iterator[ReplyServer]:
    with reply_server() as running:
        yield running


def test_a_fresh_rig_is_looked_at_and_checked(rig: Rig) -> None:
    page = rig.open()
    assert rig.state(StepId.MACHINE) is StepState.DONE
    assert rig.state(StepId.CHECK) is StepState.DONE
    assert rig.state(StepId.FIX) is StepState.DONE
    assert rig.state(StepId.ENGINE) is StepState.DONE
    assert rig.state(StepId.MODEL) is StepState.NEXT
    assert rig.state(StepId.START) is StepState.LATER
    assert "RTX 5070" in visible_texts(page)
    assert unnamed(page) == []
    assert rig.workbench.controller.asked == [], "nothing is done without being asked"


def test_fix_opens_the_fix_dialog(rig: Rig) -> None:
    make_profile(rig.workbench, "Demo", MODEL)
    page = rig.open()
    assert rig.state(StepId.FIX) is StepState.NEXT, "one fault is part of the demo rig"
    rig.press(StepId.FIX, "Look at the fix…")
    dialog = page.findChild(FixDialog)
    assert dialog is not None and dialog.isVisible()
    rig.settle()
    dialog.reject()


def test_the_chosen_model_becomes_a_profile_with_a_verdict(rig: Rig) -> None:
    page = rig.open()
    use = named(page, QPushButton, "Use this model")
    assert not use.isEnabled()
    page.picker.set_path(MODEL)
    page.picker.picked.emit(MODEL)
    use.click()
    rig.bot.waitUntil(lambda: page.seen.found.profile is not None, timeout=PATIENCE_MS)
    rig.settle()
    profile = page.seen.found.profile
    assert profile.model.path == MODEL
    assert rig.context.settings.current_profile == profile.id
    assert rig.state(StepId.MODEL) is StepState.DONE
    assert rig.state(StepId.PLAN) is StepState.DONE
    assert rig.state(StepId.FIX) is StepState.NEXT, "the checks look at the profile too"
    rig.press(StepId.FIX, "Skip")
    assert rig.state(StepId.START) is StepState.NEXT
    rig.press(StepId.PLAN, "Open the plan")
    assert rig.navigated == ["plan/context_length"]


def test_start_asks_the_controller_and_a_refusal_is_told(rig: Rig) -> None:
    profile_id = make_profile(rig.workbench, "Demo", MODEL)
    page = rig.open()
    rig.press(StepId.FIX, "Skip")
    rig.press(StepId.START, "Start server")
    rig.settle()
    assert rig.workbench.controller.asked == [("start", profile_id, "panel")]
    rig.workbench.controller.error = GpuUnavailableError(message("Refused."), message("Wait."))
    rig.press(StepId.START, "Start server")
    rig.settle()
    assert "Refused." in visible_texts(page)


def test_phases_show_while_it_loads_and_go_when_it_is_ready(rig: Rig) -> None:
    profile_id = make_profile(rig.workbench, "Demo", MODEL)
    page = rig.open()
    rig.press(StepId.FIX, "Skip")
    for state in (ServerState.LOADING, ServerState.READY):
        record = state_record(profile_id, state)
        rig.workbench.controller.set(record)
        rig.context.live.take(snapshot(record))
        rig.settle()
        expected = StepState.BUSY if state is ServerState.LOADING else StepState.DONE
        assert rig.state(StepId.START) is expected
    assert not page._phases.isVisible()
    assert rig.state(StepId.CHAT) is StepState.NEXT


def test_live_data_have_the_last_word_on_the_server(rig: Rig) -> None:
    make_profile(rig.workbench, "Demo", MODEL)
    page = rig.open()
    looks: list[int] = []
    look = page.look
    page.look = lambda: (looks.append(1), look())
    for _ in range(3):
        rig.context.live.take(snapshot(state_record("demo")))
        rig.settle()
    assert rig.state(StepId.START) is StepState.DONE
    assert len(looks) == 1, "what stays the same is not looked at again"


def serving(rig: Rig, server: ReplyServer) -> FirstStepsPage:
    profile_id = make_profile(rig.workbench, "Demo", MODEL)
    rig.workbench.controller.set(state_record(profile_id, base_url=server.url))
    page = rig.open()
    rig.press(StepId.FIX, "Skip")
    return page


def test_a_reply_is_shown_and_proves_it_for_good(rig: Rig, server: ReplyServer) -> None:
    page = serving(rig, server)
    server.script = events(["Hello ", "from two cards."])
    rig.press(StepId.CHAT, "Ask it to say hello")
    rig.settle()
    assert "Hello from two cards." in visible_texts(page)
    assert rig.state(StepId.CHAT) is StepState.DONE
    assert server.asked[0]["max_tokens"] <= 400
    assert server.asked[0]["messages"][-1]["role"] == "user"
    assert Remembered(rig.context.settings, "demo").proven
    assert not Remembered(rig.context.settings, "local").proven, "another machine proves nothing"


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (fault(401, b'{"detail": "no"}'), "refuses the key"),
        (fault(500, b'{"error": "boom"}'), "boom"),
        (events([]), "without a word"),
    ],
)
def test_a_reply_that_fails_proves_nothing(rig: Rig, server: ReplyServer, script, words) -> None:
    page = serving(rig, server)
    server.script = script
    rig.press(StepId.CHAT, "Ask it to say hello")
    rig.settle()
    assert words in visible_texts(page)
    assert rig.state(StepId.CHAT) is StepState.CANNOT
    assert not rig.page.remembered.proven
    server.script = events(["Now."])
    rig.press(StepId.CHAT, "Ask it to say hello")
    rig.settle()
    assert rig.state(StepId.CHAT) is StepState.DONE


def test_logon_is_not_ticked_and_only_a_click_asks_for_it(rig: Rig, server) -> None:
    page = serving(rig, server)
    profile_id = page.seen.found.profile.id
    rig.workbench.controller.autostart[profile_id] = False
    page.remembered.proven = True
    page.seen = replace(page.seen, proven=True)
    page.look()
    rig.settle()
    box = named(page, QCheckBox, "Start the server when I log on")
    assert not box.isChecked()
    assert not any(verb == "autostart" for verb, *_ in rig.workbench.controller.asked)
    assert named(page, QPushButton, "Finish")
    box.click()
    rig.settle()
    assert ("autostart", profile_id, "True") in rig.workbench.controller.asked
    assert box.isChecked() and rig.state(StepId.LOGON) is StepState.DONE


def test_where_no_start_at_logon_is_there_is_no_box(rig: Rig) -> None:
    make_profile(rig.workbench, "Demo", MODEL)
    page = rig.open()
    assert not page._logon.isVisible()


def test_what_is_skipped_is_remembered_and_can_be_taken_up_again(rig: Rig) -> None:
    make_profile(rig.workbench, "Demo", MODEL)
    rig.open()
    rig.press(StepId.FIX, "Skip")
    assert rig.state(StepId.FIX) is StepState.SKIPPED
    again = FirstStepsPage(rig.context)
    rig.bot.addWidget(again)
    assert StepId.FIX in again.seen.skipped
    rig.press(StepId.FIX, "Take it up again")
    assert rig.state(StepId.FIX) is StepState.NEXT


def test_a_machine_without_a_card_offers_the_demo_rig(rig: Rig) -> None:
    def none() -> None:
        raise GpuUnavailableError(message("There is no driver."), message("Install it."))

    rig.workbench.demo = False
    rig.workbench.open_gpu_probe = none
    page = rig.open()
    assert "There is no driver." in visible_texts(page)
    assert "Install it." in visible_texts(page)
    rig.press(StepId.MACHINE, "Use the demo rig")
    assert rig.targets == ["demo"]


def test_a_list_without_models_says_where_it_looked_and_what_to_do(rig: Rig) -> None:
    async def none() -> tuple[()]:
        return ()

    rig.workbench.models.scan = none
    rig.workbench.demo = False
    page = rig.open()
    rig.press(StepId.ENGINE, "Skip")
    assert rig.state(StepId.MODEL) is StepState.NEXT
    rig.bot.waitUntil(lambda: "No model was found. Looked into" in visible_texts(page))
    told = visible_texts(page)
    assert "~/models" in told and "~/.cache/huggingface/hub" in told
    assert "download one with “Find a model…”" in told
    assert page.picker.combo.count() == 1, "the list opens, and says so too"
    assert page.picker.combo.itemText(0) == "No model was found"
    page.picker.combo.activated.emit(0)
    assert page.picker.path == "" and not page._use.isEnabled()


def test_a_missing_engine_leads_to_its_set_up(rig: Rig) -> None:
    rig.workbench.demo = False
    rig.workbench.setup.engines = ("vllm", "tabbyapi")
    page = rig.open()
    assert rig.state(StepId.ENGINE) is StepState.NEXT
    rig.press(StepId.ENGINE, "Set up vLLM…")
    dialog = page.findChild(SetupDialog)
    assert dialog is not None and dialog.isVisible()
    rig.settle()
    dialog.reject()


def test_from_the_demo_rig_a_button_leads_back(rig: Rig) -> None:
    page = rig.open()
    named(page, QPushButton, "Back to this machine").click()
    assert rig.targets == ["auto"]


def test_the_language_changes_at_once(rig: Rig) -> None:
    page = rig.open()
    before = visible_texts(page)
    rig.context.texts.set_language("ja")
    assert visible_texts(page) != before
    assert "First steps" not in visible_texts(page)


# -- when they come by themselves ----------------------------------------------------------------


@pytest.fixture
def start(qtbot, qapp: QApplication, tmp_path: Path):
    starters: list[Starter] = []
    folders = RigFolders.below(tmp_path / "home")

    def begin(*names: str) -> Starter:
        workbench = FullWorkbench(tmp_path / "rig")
        workbench.open_gpu_probe = lambda: DemoGpuProbe(tmp_path)
        workbench.picture = lambda number: snapshot(None, taken_at_s=1_800_000_000.0 + number)
        for name in names:
            make_profile(workbench, name, MODEL)
        starter = Starter(qapp, lambda _target: workbench, "demo", "en", folders)
        starters.append(starter)
        starter.window.show()
        starter._open()
        qtbot.waitUntil(lambda: starter.panel is not None and starter.panel.live.latest is not None)
        handles = starter.panel.context.bridge._handles
        qtbot.waitUntil(lambda: not any(h.owner is starter.panel.first_run for h in handles))
        return starter

    yield begin
    for starter in starters:
        starter.end()
        starter.window.deleteLater()


def listed(starter: Starter) -> bool:
    navigation = starter.window.navigation
    rows = starter.window.page_ids
    return not navigation.isRowHidden(rows.index("first-steps"))


def test_a_fresh_start_opens_them(qtbot, start) -> None:
    starter = start()
    qtbot.waitUntil(lambda: starter.window.current_id == "first-steps")
    assert listed(starter)
    starter.window.navigate("server")
    assert listed(starter), "the way back stays"
    starter.window.navigate("first-steps")
    starter.window.current_page.finish()
    assert starter.window.current_id == "overview" and not listed(starter)
    starter.end()
    again = start()
    assert again.window.current_id == "overview" and not listed(again)


def test_who_has_a_profile_is_not_bothered(start) -> None:
    starter = start("Mine")
    assert starter.window.current_id == "overview" and not listed(starter)
    rows = starter.window.page_ids
    for _ in range(len(rows) - 1):
        starter.window._step(1)
    assert starter.window.current_id == "overview", "Ctrl+Tab leaves it out"
    starter.window.navigate("first-steps")
    assert listed(starter)
    starter.window.navigate("overview")
    assert not listed(starter)


def test_what_was_begun_goes_on_at_the_next_start(qtbot, start) -> None:
    starter = start()
    qtbot.waitUntil(lambda: starter.window.current_id == "first-steps")
    starter.end()
    again = start("Made meanwhile")
    qtbot.waitUntil(lambda: again.window.current_id == "first-steps")


def test_another_target_ends_this_panel_and_is_told_to_who_started_it(qtbot, start) -> None:
    starter = start("Mine")
    starter.panel.context.open_target("demo")
    assert starter.next_target == "demo"
    assert not starter.window.isVisible()

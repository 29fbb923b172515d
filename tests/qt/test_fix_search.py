"""The NCCL experiment in the fix dialog: watch it, cancel it, look at the result, apply, prove."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from qt.pages_rig import PageWorkbench, make_profile, named, page_context, unnamed, visible_texts
from twinrig import assets
from twinrig.domain.checks import Finding
from twinrig.domain.collective import CollectiveReport, RankFacts, StepOutcome, StepPlan
from twinrig.messages import message
from twinrig.qt.viewmodels.fixing import Stage
from twinrig.qt.widgets import fix_dialog
from twinrig.qt.widgets.fix_dialog import FixDialog
from twinrig.qt.widgets.parts import Button
from twinrig.services.collective import CollectiveRequest
from twinrig.services.nccl_candidates import load_candidates
from twinrig.services.server_proof import ServerProof

FINDING = Finding("nccl-cumem-wsl", fixes=("nccl-experiment", "env-nccl-cumem-0"))
TABLES = load_candidates(assets.read_text("nccl/candidates.yaml"))


class Cards:
    """Talk only with ``required``; wait for ``gate`` before the trial with that number."""

    def __init__(self, required: Mapping[str, str] | None, hold_at: int = 0) -> None:
        self.required = required
        self.hold_at = hold_at
        self.count = 0
        self.cancelled = False

    async def run(self, request: CollectiveRequest) -> CollectiveReport:
        self.count += 1
        if self.count == self.hold_at:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.cancelled = True
                raise
        required = self.required
        held = required is not None and required.items() <= dict(request.env).items()
        plan = StepPlan("all_reduce", "float16", 64 << 20)
        step = StepOutcome(plan, "ok" if held else "error", seconds=0.01)
        ranks = tuple(RankFacts(r, torch="2.9.0", nccl="2.27.5", exit_code=0) for r in (0, 1))
        ended = "complete" if held else "failed"
        return CollectiveReport(2, "nccl", ended, ranks, (step,))


@pytest.fixture
def workbench(tmp_path) -> PageWorkbench:
    return PageWorkbench(tmp_path)


@pytest.fixture
def context(qapp, bridge, workbench):
    return page_context(qapp, bridge, workbench, [])


@pytest.fixture
def dialog(qtbot, context, workbench):
    def make(cards: Cards) -> FixDialog:
        made: Any = workbench
        made.collective = cards
        made.candidates = {"demo": TABLES["vllm"]}
        made_profile = workbench.profiles.load(make_profile(workbench, "Demo 24B"))
        profile = replace(made_profile, env={})
        workbench.profiles.save(profile, replaces=made_profile)
        dialog = FixDialog(context, FINDING, profile, {}, first="nccl-experiment")
        qtbot.addWidget(dialog)
        dialog.show()
        qtbot.waitUntil(lambda: dialog.flow.stage is Stage.GUIDANCE, timeout=8000)
        return dialog

    return make


def shows(dialog: FixDialog, text: str) -> bool:
    buttons = dialog.findChildren(Button)
    return any(b.text() == text and b.isVisibleTo(dialog) for b in buttons)


def button(dialog: FixDialog, text: str) -> Button:
    return named(dialog, Button, text)


def test_search_shows_the_result_in_words_and_is_applied(qtbot, dialog, workbench) -> None:
    shown = dialog(Cards({"NCCL_P2P_DISABLE": "1", "NCCL_CUMEM_ENABLE": "0"}))
    assert button(shown, "Search now").isVisible() and not unnamed(shown)
    button(shown, "Search now").click()
    qtbot.waitUntil(lambda: shown.flow.stage is Stage.PREVIEW, timeout=8000)

    told = visible_texts(shown)
    assert "V2" in told and "NCCL_CUMEM_ENABLE" in told
    assert "virtual memory cannot be shared" in told and "through main memory" in told
    assert "+" in shown.flow.preview.steps[0].text
    assert workbench.profiles.load("demo-24b").env == {}, "looking changes nothing"

    button(shown, "Apply").click()
    done = (Stage.PROVEN, Stage.NOT_PROVEN)
    qtbot.waitUntil(lambda: shown.flow.stage in done, timeout=8000)
    env = workbench.profiles.load("demo-24b").env
    assert env["NCCL_CUMEM_ENABLE"].value == "0" and "decisive" in env["NCCL_CUMEM_ENABLE"].reason


def test_current_candidate_is_told_and_cancel_ends_it(qtbot, dialog, workbench) -> None:
    cards = Cards({"NCCL_CUMEM_ENABLE": "0"}, hold_at=3)
    shown = dialog(cards)
    button(shown, "Search now").click()
    qtbot.waitUntil(lambda: "Trying V2 (3 of 5)" in visible_texts(shown), timeout=8000)
    assert "NCCL_P2P_DISABLE=1" in visible_texts(shown)
    assert "V1: does not work" in shown._text.toPlainText()
    assert button(shown, "Cancel").isVisible() and not shows(shown, "Apply")

    button(shown, "Cancel").click()
    assert shown.flow.stage is Stage.GUIDANCE and button(shown, "Search now").isVisible()
    qtbot.waitUntil(lambda: cards.cancelled, timeout=8000)
    assert workbench.profiles.load("demo-24b").env == {}


def test_closing_the_dialog_ends_the_search(qtbot, dialog) -> None:
    cards = Cards(None, hold_at=2)
    shown = dialog(cards)
    button(shown, "Search now").click()
    qtbot.waitUntil(lambda: cards.count == 2, timeout=8000)
    shown.reject()
    qtbot.waitUntil(lambda: cards.cancelled, timeout=8000)


def test_nothing_needed_and_nothing_found_are_told_apart(qtbot, dialog) -> None:
    shown = dialog(Cards({}))
    button(shown, "Search now").click()
    qtbot.waitUntil(lambda: shown.flow.stage is Stage.SEARCHED, timeout=8000)
    assert "without any special setting" in visible_texts(shown)
    assert not shows(shown, "Apply")


def test_case_that_nothing_cures_can_be_tried_again(qtbot, dialog) -> None:
    shown = dialog(Cards(None))
    button(shown, "Search now").click()
    qtbot.waitUntil(lambda: shown.flow.stage is Stage.SEARCHED, timeout=8000)
    assert "none of the known settings" in visible_texts(shown)
    assert button(shown, "Search now").isVisible()


@pytest.mark.parametrize(
    ("proven", "stage"), [(True, Stage.PROVEN), (False, Stage.NOT_PROVEN), (None, None)]
)
def test_server_is_the_last_proof(qtbot, dialog, monkeypatch, proven, stage) -> None:
    asked = []

    async def prove(controller: object, profile_id: str) -> ServerProof:
        asked.append(profile_id)
        return ServerProof(proven, message("It was asked."))

    monkeypatch.setattr(fix_dialog, "prove_by_server", prove)
    shown = dialog(Cards({"NCCL_CUMEM_ENABLE": "0"}))
    button(shown, "Search now").click()
    qtbot.waitUntil(lambda: shown.flow.stage is Stage.PREVIEW, timeout=8000)
    button(shown, "Apply").click()
    done = (Stage.PROVEN, Stage.NOT_PROVEN)
    qtbot.waitUntil(lambda: shown.flow.stage in done, timeout=8000)
    before = shown.flow.stage
    button(shown, "Prove with the server").click()
    qtbot.waitUntil(lambda: shown.flow.answer is not None, timeout=8000)

    assert asked == ["demo-24b"] and shown.flow.stage is (stage or before)
    assert "It was asked." in visible_texts(shown)
    assert not shows(shown, "Prove with the server")
    assert button(shown, "Undo").isVisible()


def test_search_needs_a_profile(qtbot, context) -> None:
    shown = FixDialog(context, FINDING, None, {}, first="nccl-experiment")
    qtbot.addWidget(shown)
    shown.show()
    qtbot.waitUntil(lambda: shown.flow.stage is Stage.GUIDANCE, timeout=8000)
    assert not button(shown, "Search now").isEnabled()

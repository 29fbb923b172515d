"""The proof on the Server page: progress, cancel, and a verdict in words."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from PySide6.QtWidgets import QProgressBar

from qt.pages_rig import (
    PageWorkbench,
    ScriptedDialogs,
    make_profile,
    named,
    page_context,
    state_record,
    visible_texts,
)
from twinrig.domain.quantities import duration
from twinrig.domain.server import ServerState
from twinrig.messages import message
from twinrig.qt.pages.server import ServerPage
from twinrig.qt.viewmodels.proving import proof_stream, verdict_view, waiting_view
from twinrig.qt.widgets.parts import Button
from twinrig.qt.widgets.proof_dialog import ProofDialog
from twinrig.services.persistence import PersistenceProof, Proof

GOOD = Proof(
    True,
    message("It stays: nothing had to keep a window or a terminal open for it."),
    None,
    (message("The same process answers as before (number {pid}).", pid=7),),
    (message("Not tried: logging out, and a restart of the computer."),),
)
BAD = Proof(False, message("WSL does not answer."), message("Look at the log for the reason."))


def test_what_is_shown_while_it_waits():
    view = waiting_view(90.0, 120.0)
    assert view.fraction == pytest.approx(0.25)
    assert str(view.headline) == f"Leaving the server alone for {duration(90.0)} more…"
    assert "Do not open WSL" not in str(view.lines[0])
    assert "Do not open WSL" in str(waiting_view(90.0, wsl=True).lines[0])
    assert waiting_view(0.0, 0.0).fraction == 1.0
    assert waiting_view(500.0, 120.0).fraction == 0.0


def test_the_verdict_in_words():
    good, bad = verdict_view(GOOD), verdict_view(BAD)
    assert (good.tone, good.fraction, len(good.lines)) == ("ok", None, 2)
    assert (bad.tone, str(bad.lines[-1])) == ("fail", "Look at the log for the reason.")
    assert verdict_view(replace(GOOD, kept=None)).tone == "warn"


class Stub:
    """A proof that goes as far as the test lets it."""

    target = "wsl"

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.cancelled = False

    def persistence(self):
        return self

    async def run(self, _profile_id, on_progress, wait_s):
        on_progress(wait_s)
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        on_progress(1.0)
        return GOOD


async def test_the_stream_ends_with_the_verdict():
    stub = Stub()
    stub.go_on.set()
    views = [view async for view in proof_stream(stub, "one", 10.0)]
    assert views[-1].headline == GOOD.text
    assert [v.fraction for v in views[:-1]] == pytest.approx([0.0, 0.9][: len(views) - 1])


async def test_leaving_the_stream_ends_the_proof():
    stub = Stub()
    stream = proof_stream(stub, "one", 10.0)
    await anext(stream)
    await stream.aclose()
    assert stub.cancelled


@pytest.fixture
def workbench(tmp_path) -> PageWorkbench:
    made = PageWorkbench(tmp_path)
    told = made.controller.status

    async def answering(profile_id):
        return replace(await told(profile_id), answering=True)

    made.controller.status = answering
    made.persistence = lambda: PersistenceProof(made.controller, made.clock, "windows-task")
    return made


@pytest.fixture
def page(qtbot, qapp, bridge, workbench) -> ServerPage:
    page = ServerPage(page_context(qapp, bridge, workbench, []), dialogs=ScriptedDialogs())
    qtbot.addWidget(page)
    page.resize(1100, 700)
    page.show()
    return page


def ready(qtbot, page, workbench) -> str:
    profile_id = make_profile(workbench, "Alpha")
    workbench.controller.set(state_record(profile_id, ServerState.READY))
    page.on_shown()
    qtbot.waitUntil(lambda: page.pane.profile_id == profile_id, timeout=5000)
    button = named(page, Button, "Prove that it stays…")
    qtbot.waitUntil(button.isEnabled, timeout=5000)
    return profile_id


def test_only_a_ready_server_can_be_proven(qtbot, page, workbench):
    make_profile(workbench, "Alpha")
    page.on_shown()
    qtbot.waitUntil(lambda: bool(page.pane.profile_id), timeout=5000)
    assert not named(page, Button, "Prove that it stays…").isEnabled()


def test_cancel_closes_it_and_leaves_the_server_alone(qtbot, page, workbench):
    ready(qtbot, page, workbench)
    named(page, Button, "Prove that it stays…").click()
    (dialog,) = page.findChildren(ProofDialog)
    assert dialog.view.fraction is not None
    assert "Leaving the server alone" in visible_texts(dialog)
    assert dialog.close_button.text() == "Cancel"
    dialog.close_button.click()
    qtbot.waitUntil(lambda: not page.findChildren(ProofDialog), timeout=5000)
    assert workbench.controller.asked == []


def test_the_verdict_is_shown_and_read_out(qtbot, qapp, bridge, workbench, tmp_path):
    profile_id = make_profile(workbench, "Alpha")
    workbench.controller.set(state_record(profile_id, ServerState.READY))
    dialog = ProofDialog(page_context(qapp, bridge, workbench, []), profile_id, wait_s=0.2)
    qtbot.addWidget(dialog)
    dialog.show()
    qtbot.waitUntil(lambda: dialog.view.fraction is None, timeout=10_000)
    texts = visible_texts(dialog)
    assert "It stays" in texts
    assert "task of Windows" in texts
    assert "Not tried: signing out" in texts
    assert dialog.close_button.text() == "Close"
    assert not dialog.findChild(QProgressBar).isVisible()


def test_a_server_that_is_not_ready_is_said(qtbot, qapp, bridge, workbench):
    profile_id = make_profile(workbench, "Alpha")
    dialog = ProofDialog(page_context(qapp, bridge, workbench, []), profile_id, wait_s=0.2)
    qtbot.addWidget(dialog)
    dialog.show()
    qtbot.waitUntil(lambda: "Only a server that is ready" in visible_texts(dialog), timeout=10_000)

"""The whole first run on the demo rig: from an empty home to a streamed reply, through the page
and real processes."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtWidgets import QApplication, QPushButton, QWidget

from fixtures.demo_rig import Rig
from fixtures.newcomer import PATIENCE_MS, Newcomer
from twinrig.composition.targets import open_workbench
from twinrig.hosts.paths import find_paths
from twinrig.qt.application import Starter
from twinrig.qt.viewmodels.first_steps import StepId, StepState

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
    pytest.mark.slow,
    pytest.mark.timeout(300),
]


@pytest.fixture(params=["en", "ja"])
def starter(rig: Rig, qapp: QApplication, monkeypatch, request) -> Iterator[Starter]:
    for name, value in rig.environ.items():
        monkeypatch.setenv(name, value)
    paths = find_paths(rig.environ)
    starter = Starter(
        qapp,
        lambda target: open_workbench(target, paths, rig.environ),
        "demo",
        request.param,
        paths,
    )
    starter.window.show()
    starter._open()
    yield starter
    starter.end()
    starter.window.deleteLater()


def no_english(page: QWidget) -> bool:
    """Titles and states of the steps, and every button, hold a character of Japanese."""
    words = [w for b in page.boxes.values() for w in (b._title.text(), b._state.text())]
    words += [b.text() for b in page.findChildren(QPushButton) if b.isVisibleTo(page) and b.text()]
    return all(any(ord(c) > 0x3000 for c in word) for word in words)


def test_from_nothing_to_a_reply(qtbot, rig: Rig, starter: Starter) -> None:
    person = Newcomer(qtbot, starter)
    page = person.page
    for step in (StepId.MACHINE, StepId.CHECK, StepId.FIX, StepId.ENGINE):
        person.reach(step, StepState.DONE)
    person.reach(StepId.MODEL, StepState.NEXT)
    qtbot.waitUntil(lambda: page.picker.models != (), timeout=PATIENCE_MS)
    smallest = min(page.picker.models, key=lambda m: m.size_bytes or 0)
    page.picker.set_path(smallest.path)
    page.use_model()
    person.reach(StepId.PLAN, StepState.DONE)
    qtbot.waitUntil(lambda: page.seen.found.profile is not None, timeout=PATIENCE_MS)

    store = starter.panel.context.workbench.profiles
    made = store.load(page.seen.found.profile.id)
    assert starter.settings.current_profile == made.id
    quick = replace(
        made,
        network=replace(made.network, port=rig.port),
        settings={**made.settings, "load_scale": 0.05},
    )
    store.save(quick, replaces=made)

    person.reach(StepId.FIX, StepState.NEXT)
    person.press(StepId.FIX, "Skip")
    person.reach(StepId.START, StepState.NEXT)
    assert rig.processes() == {}, "nothing starts by itself"
    person.press(StepId.START, "Start server")
    person.reach(StepId.START, StepState.DONE)
    assert rig.health() == 200

    person.reach(StepId.CHAT, StepState.NEXT)
    person.press(StepId.CHAT, "Ask it to say hello")
    person.reach(StepId.CHAT, StepState.DONE)
    assert len(page._answer.text()) > 10, "the reply is shown"
    assert no_english(page) or starter.texts.language == "en"
    assert not page._logon.isChecked()
    page.finish()
    assert starter.window.current_id == "overview"
    starter.end()
    assert rig.health() == 200, "the server outlives the panel"
    state = json.loads(rig.run("status", made.id, "--json"))["status"]["record"]["state"]
    assert state == "ready"
    rig.run("stop", made.id)
    rig.until(lambda: rig.processes() == {}, 20)

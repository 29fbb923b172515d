"""The whole first run with a real vLLM on the CPU: from an empty home to a streamed reply, through
the page and its real services. This machine has no card: those steps are skipped, as a user would.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtWidgets import QApplication

from fixtures.newcomer import PATIENCE_MS, Newcomer
from real.rig import CPU_ENV, Rig, free_port, still_alive, wait_until
from real.tiny_model import write_model
from twinrig.composition.targets import open_workbench
from twinrig.domain.profile import EnvEntry
from twinrig.hosts.paths import find_paths
from twinrig.qt.application import Starter
from twinrig.qt.viewmodels.first_steps import StepId, StepState

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
    pytest.mark.real,
    pytest.mark.slow,
    pytest.mark.timeout(900),
]
LOAD_MS = 420_000
S = StepState


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user who has vLLM and one model, each where it usually is, and nothing of Twinrig."""
    engine = os.environ.get("TWINRIG_REAL_VLLM")
    if not engine:
        pytest.skip("no real vLLM: TWINRIG_REAL_VLLM does not name an environment")
    (tmp_path / "venvs").mkdir()
    (tmp_path / "venvs" / "vllm").symlink_to(engine)
    write_model(tmp_path / "models" / "tiny-llama")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TWINRIG_HOME", str(tmp_path / "twinrig"))
    for name in ("TWINRIG_RUN_ID", "VIRTUAL_ENV", "CONDA_PREFIX", "HF_HOME", "HF_HUB_CACHE"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def rig(home: Path) -> Iterator[Rig]:
    engine = home / "venvs" / "vllm"
    made = Rig(home / "twinrig", engine, home / "models" / "tiny-llama", dict(os.environ))
    yield made
    for state in made.home.glob("state/local/servers/*"):
        made.twinrig("stop", state.name)


class Panels:
    """One panel after the other over the same home, as over days."""

    def __init__(self, application: QApplication, qtbot) -> None:
        self._application = application
        self._bot = qtbot
        self.starters: list[Starter] = []

    def open(self) -> Newcomer:
        paths = find_paths(os.environ)
        starter = Starter(
            self._application, lambda target: open_workbench(target, paths), "local", "en", paths
        )
        self.starters.append(starter)
        starter.window.show()
        starter._open()
        person = Newcomer(self._bot, starter)
        self._bot.waitUntil(lambda: person.page.seen.found.looked, timeout=PATIENCE_MS)
        return person

    def quit(self) -> None:
        for starter in self.starters:
            starter.end()
            starter.window.deleteLater()
        self.starters.clear()


@pytest.fixture
def panels(qapp: QApplication, qtbot, home: Path) -> Iterator[Panels]:
    made = Panels(qapp, qtbot)
    yield made
    made.quit()


def runs_on_the_cpu(panels: Panels, person: Newcomer) -> str:
    """What somebody without a card sets by hand on the page Server: variables, a free port."""
    store = panels.starters[-1].panel.context.workbench.profiles
    made = store.load(person.page.seen.found.profile.id)
    assert made.engine.id == "vllm"
    quick = replace(
        made,
        network=replace(made.network, port=free_port()),
        env={name: EnvEntry(value, "runs on the CPU") for name, value in CPU_ENV.items()},
        settings={**made.settings, "context_length": 1024, "enforce_eager": True},
    )
    store.save(quick, replaces=made)
    return str(made.id)


def to_the_check(person: Newcomer) -> None:
    """Machine, check, fix: no card is a dead end that says so, and all of it can be skipped."""
    assert person.reach(StepId.MACHINE, S.CANNOT, S.DONE) is S.CANNOT
    step = person.page.boxes[StepId.MACHINE].step
    assert step.demo and step.next_step is not None
    person.skip_and_take_up(StepId.MACHINE)
    person.reach(StepId.CHECK, S.NEXT)
    person.press(StepId.CHECK, "Check now")
    person.reach(StepId.CHECK, S.DONE)
    person.reach(StepId.FIX, S.NEXT)
    person.skip_and_take_up(StepId.FIX)


def to_the_profile(qtbot, person: Newcomer) -> None:
    person.reach(StepId.ENGINE, S.DONE)
    assert "vLLM 0." in str(person.page.boxes[StepId.ENGINE].step.text)
    person.reach(StepId.MODEL, S.NEXT)
    picker = person.page.picker
    qtbot.waitUntil(lambda: picker.models != (), timeout=PATIENCE_MS)
    (model,) = picker.models
    picker.set_path(model.path)
    person.page.use_model()
    person.reach(StepId.MODEL, S.DONE)


def test_from_an_empty_home_to_a_reply_of_the_real_server(
    qtbot, rig: Rig, panels: Panels, home: Path
) -> None:
    began = time.monotonic()
    person = panels.open()
    to_the_check(person)
    to_the_profile(qtbot, person)
    profile_id = runs_on_the_cpu(panels, person)
    panels.quit()

    person = panels.open()
    assert person.page.seen.found.profile.id == profile_id, "the next day it goes on from here"
    for step in (StepId.MACHINE, StepId.FIX):
        person.reach(step, S.SKIPPED)
    if person.reach(StepId.CHECK, S.NEXT, S.DONE) is S.NEXT:
        person.press(StepId.CHECK, "Skip")
    person.reach(StepId.PLAN, S.DONE)
    told = str(person.page.boxes[StepId.PLAN].step.text)
    assert "cards are not known" in told, "nothing is claimed of cards that are not there"
    person.reach(StepId.START, S.NEXT)
    assert rig.record(profile_id) == {}, "nothing starts by itself"
    person.press(StepId.START, "Start server")
    person.reach(StepId.START, S.BUSY)
    panels.quit()

    person = panels.open()
    person.reach(StepId.START, S.DONE, patience_ms=LOAD_MS)
    person.reach(StepId.CHAT, S.NEXT)
    person.press(StepId.CHAT, "Ask it to say hello")
    person.reach(StepId.CHAT, S.DONE)
    assert person.page._answer.text(), "the reply is shown"
    print(f"\nfrom an empty home to a reply: {time.monotonic() - began:.0f} s")

    logon = person.page._logon
    assert not logon.isChecked()
    assert person.page.seen.found.autostart is not True
    if person.state(StepId.LOGON) is not S.DONE:
        person.skip_and_take_up(StepId.LOGON)
    person.page.finish()
    assert panels.starters[-1].window.current_id == "overview"
    panels.quit()
    processes = rig.processes_of(profile_id)
    assert rig.record(profile_id)["state"] == "ready", "the server outlives the panel"
    assert rig.twinrig("stop", profile_id).returncode == 0
    wait_until(lambda: not still_alive(processes), 60, "everything ends")

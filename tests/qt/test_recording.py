"""A recording in the panel: labelled everywhere, beside nothing of this machine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication

from qt.panel_rig import NOW_S, RigFolders, RigWorkbench, record, snapshot
from twinrig.domain.errors import DamagedFileError
from twinrig.messages import Translator
from twinrig.qt.bridge import Bridge
from twinrig.qt.dialogs import QuitAnswer
from twinrig.qt.icons import Icons
from twinrig.qt.main_window import MainWindow
from twinrig.qt.pages.overview import OverviewPage
from twinrig.qt.pages.settings import SettingsPage
from twinrig.qt.panel import Panel
from twinrig.qt.settings import PanelSettings
from twinrig.qt.single_instance import Role, SingleInstance
from twinrig.qt.text import Texts
from twinrig.qt.theme import Theme
from twinrig.qt.tray_model import menu, tooltip
from twinrig.qt.widgets.recording_bar import RecordingBar
from twinrig.services.recording import Recorder

THEN_S = NOW_S - 86_400.0
LENGTH = 30


class EagerClock:
    """Waits for nothing, so that a recording is over at once."""

    def now(self) -> float:
        return NOW_S

    async def sleep(self, _seconds: float) -> None:
        return


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """Cards that are at 91 %, of a server that nobody has here, made without a demo rig."""
    path = tmp_path / "rig.jsonl"
    recorder = Recorder(path)
    for number in range(LENGTH):
        at_s = THEN_S + number
        server = record(model_id="Elsewhere-30B", run_id="run-then", updated_at_s=at_s)
        recorder.add(replace(snapshot(server, (91, 92), 77.0, taken_at_s=at_s), demo=False))
    recorder.close()
    return path


@pytest.fixture
def panel(
    qtbot, qapp: QApplication, rig: RigWorkbench, bridge: Bridge, folders: RigFolders
) -> Iterator[Panel]:
    rig.clock = EagerClock()
    texts, theme, icons = Texts(), Theme(qapp, "light"), Icons()
    settings = PanelSettings(folders.config / "panel.ini")
    window = MainWindow(texts, settings)
    qtbot.addWidget(window)
    window.show()
    panel = Panel(
        rig, bridge, window, texts, theme, icons, settings, folders, texts.set_language,
        ask=lambda *_: QuitAnswer.CANCEL, pages=(OverviewPage, SettingsPage),
    )  # fmt: skip
    panel.start()
    panel.meter.show()
    qtbot.waitUntil(lambda: len(panel.live.history.points()) > 3)
    yield panel
    panel.stop()


def shown_loads(panel: Panel) -> list[str]:
    page = panel._window.pages["overview"]
    return [card._load_text.text() for card in page._cards]


def test_it_is_labelled_wherever_it_is_shown(qtbot, panel: Panel, recording: Path) -> None:
    panel.open_recording(recording)
    qtbot.waitUntil(lambda: panel.live.at_end)
    assert panel.live.latest is not None and panel.live.latest.recorded
    bar = panel._window.pages["overview"].findChild(RecordingBar)
    assert not bar.isHidden() and "rig.jsonl" in bar.badge.text()
    assert "Recording" in panel.meter._demo.text() and not panel.meter._demo.isHidden()
    assert "(Recording)" in tooltip(panel.live.latest, Translator("en").text)
    strip = panel._strip
    assert "rig.jsonl" in strip._recording.text() and not strip._recording.isHidden()
    assert strip.demo_badge.isHidden(), "the recording was made on real cards"
    assert strip._target.isHidden()
    panel.live.close_recording()
    qtbot.waitUntil(lambda: panel.live.latest is not None)
    assert bar.isHidden() and strip._recording.isHidden()
    qtbot.waitUntil(lambda: not strip.demo_badge.isHidden())
    assert "Recording" not in panel.meter._demo.text()


def test_it_mixes_with_nothing_of_this_machine(qtbot, panel: Panel, rig, recording: Path) -> None:
    live = panel.live
    before = len(live.machine_history.points())
    panel.open_recording(recording)
    qtbot.waitUntil(lambda: live.at_end)
    assert [p.at_s for p in live.history.points()] == [THEN_S + n for n in range(LENGTH)]
    assert {p.generation_tps for p in live.history.points()} == {77.0}
    assert live.machine is not None and live.machine.taken_at_s >= NOW_S
    assert len(live.machine_history.points()) >= before
    live.close_recording()
    qtbot.waitUntil(lambda: live.latest is not None)
    assert all(p.at_s >= NOW_S for p in live.history.points())
    panel._keeper.finish()
    assert rig.store.kept and all(m.start_s >= NOW_S - 60 for m in rig.store.kept)
    assert all(e.at_s >= NOW_S for e in rig.store.marked)


def test_nothing_of_this_machine_can_be_pressed_meanwhile(
    qtbot, panel: Panel, rig: RigWorkbench, recording: Path
) -> None:
    panel.open_recording(recording)
    qtbot.waitUntil(lambda: panel.live.at_end)
    page = panel._window.pages["overview"]
    assert page._button.isHidden() and page._endpoint.isHidden()
    actions = {entry.action for entry in menu(panel.live.latest, (), "", True, recording=True)}
    assert "close-recording" in actions and not actions & {"start", "stop", "profile", "copy-url"}
    record_now = panel._active_record()
    assert record_now is not None and record_now.model_id == "Qwen3.6-27B", "quit asks about ours"
    panel.live.set_interval(5.0)
    panel.live.set_visible(False)
    assert panel.live.at_end and rig.controller.asked == []


def test_again_from_the_beginning_and_faster(qtbot, panel: Panel, recording: Path) -> None:
    panel.open_recording(recording)
    qtbot.waitUntil(lambda: panel.live.at_end)
    bar = panel._window.pages["overview"].findChild(RecordingBar)
    bar.speed.setCurrentIndex(2)
    assert panel.live._replay.speed == 16.0
    bar.again.click()
    assert not panel.live.at_end and panel.live._replay.speed == 16.0
    qtbot.waitUntil(lambda: panel.live.at_end)
    assert len(panel.live.history.points()) == LENGTH


def test_a_file_that_is_none_leads_back_to_the_machine(
    qtbot, panel: Panel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[BaseException] = []
    panel.live.recording_failed.disconnect()
    panel.live.recording_failed.connect(told.append)
    (tmp_path / "letter.txt").write_text("Dear reader")
    panel.open_recording(tmp_path / "letter.txt")
    qtbot.waitUntil(lambda: told != [])
    assert isinstance(told[0], DamagedFileError)
    qtbot.waitUntil(lambda: panel.live.latest is not None and not panel.live.latest.recorded)


def test_no_notification_for_what_happened_elsewhere(
    qtbot, panel: Panel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr(panel.tray, "notify", lambda title, _t, problem=False: told.append(title))
    recorder = Recorder(tmp_path / "fall.jsonl")
    from twinrig.domain.server import ServerState

    for number, state in enumerate((ServerState.READY, ServerState.FAILED)):
        recorder.add(snapshot(record(state), taken_at_s=THEN_S + number))
    recorder.close()
    panel.open_recording(tmp_path / "fall.jsonl")
    qtbot.waitUntil(lambda: panel.live.at_end)
    assert told == []


def test_a_second_start_hands_its_recording_to_the_first(
    qtbot, folders: RigFolders, tmp_path: Path
) -> None:
    first = SingleInstance(folders.config)
    assert first.elect() is Role.FIRST
    try:
        path = tmp_path / "with space é.jsonl"
        with qtbot.waitSignal(first.replay_requested) as told:
            second = SingleInstance(folders.config)
            line = f"{'twinrig-panel/1'} {_word(path)} show\n".encode()
            assert second.name == first.name
            first._answer(_Socket(), line)
        assert told.args == [str(path)]
    finally:
        first.close()


class _Socket:
    """As much of a socket as an answer needs."""

    def write(self, _data: bytes) -> None: ...

    def flush(self) -> None: ...

    def disconnectFromServer(self) -> None: ...


def _word(path: Path) -> str:
    from twinrig.qt.single_instance import _one_word

    return _one_word(str(path))

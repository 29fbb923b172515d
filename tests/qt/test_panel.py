"""Tray, meter, close and quit: what the panel does around its pages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication

from qt.panel_rig import NOW_S, RigFolders, RigWorkbench, loading_record, record, snapshot
from twinrig.domain.errors import ConflictError
from twinrig.domain.server import ServerState
from twinrig.messages import Message, message
from twinrig.qt.bridge import Bridge
from twinrig.qt.dialogs import QuitAnswer, error_box
from twinrig.qt.icons import Icons
from twinrig.qt.main_window import MainWindow
from twinrig.qt.pages.overview import OverviewPage
from twinrig.qt.pages.settings import SettingsPage
from twinrig.qt.panel import Panel
from twinrig.qt.settings import PanelSettings
from twinrig.qt.text import Texts
from twinrig.qt.theme import Theme
from twinrig.qt.tray import Tray


class Answers:
    """Stands for the quit dialog."""

    def __init__(self) -> None:
        self.answer = QuitAnswer.CANCEL
        self.asked: list[str] = []

    def __call__(self, _texts, model: str, _parent) -> QuitAnswer:
        self.asked.append(model)
        return self.answer


@pytest.fixture
def answers() -> Answers:
    return Answers()


@pytest.fixture
def panel(
    qtbot,
    qapp: QApplication,
    rig: RigWorkbench,
    bridge: Bridge,
    folders: RigFolders,
    answers: Answers,
) -> Iterator[Panel]:
    texts, theme, icons = Texts(), Theme(qapp, "light"), Icons()
    settings = PanelSettings(folders.config / "panel.ini")
    window = MainWindow(texts, settings)
    qtbot.addWidget(window)
    window.show()
    panel = Panel(
        rig, bridge, window, texts, theme, icons, settings, folders, texts.set_language,
        answers, (OverviewPage, SettingsPage),
    )  # fmt: skip
    panel.start()
    qtbot.waitUntil(lambda: panel.live.latest is not None and panel.actions.profiles != ())
    yield panel
    panel.stop()


@pytest.fixture
def with_tray(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Pretends that there is a tray; collects its notifications."""
    told: list[str] = []
    monkeypatch.setattr(Tray, "available", property(lambda _self: True))
    monkeypatch.setattr(Tray, "notify", lambda _s, title, _t, problem=False: told.append(title))
    return told


def test_close_hides_and_tells_once(qtbot, panel: Panel, with_tray: list[str]) -> None:
    window = panel._window
    window.close()
    assert not window.isVisible() and with_tray == ["Twinrig is still here"]
    panel._do("open", "")
    assert window.isVisible()
    window.close()
    assert not window.isVisible() and len(with_tray) == 1


def test_close_without_a_tray_asks(qtbot, panel: Panel, answers: Answers) -> None:
    panel._window.close()
    assert answers.asked == ["Qwen3.6-27B"]
    assert panel._window.isVisible(), "cancelled"
    answers.answer = QuitAnswer.LEAVE
    with qtbot.waitSignal(panel.finished):
        panel._window.close()


def test_quit_leaves_the_server_running(qtbot, panel: Panel, rig, answers: Answers) -> None:
    answers.answer = QuitAnswer.LEAVE
    with qtbot.waitSignal(panel.finished):
        panel.request_quit()
    assert rig.controller.asked == []


def test_quit_and_stop_waits_for_the_request(qtbot, panel: Panel, rig, answers: Answers) -> None:
    answers.answer = QuitAnswer.STOP
    with qtbot.waitSignal(panel.finished):
        panel.request_quit()
    assert rig.controller.asked == [("stop", "qwen")]


def test_quit_that_cannot_stop_says_so_and_stays(
    qtbot, panel: Panel, rig, answers: Answers
) -> None:
    rig.controller.error = ConflictError(message("The supervisor does not listen."))
    answers.answer = QuitAnswer.STOP
    done: list[bool] = []
    panel.finished.connect(lambda: done.append(True))
    panel.request_quit()
    qtbot.waitUntil(lambda: panel._error_box is not None)
    assert "does not listen" in panel._error_box.text()
    assert done == []
    panel._error_box.close()
    qtbot.waitUntil(lambda: panel._error_box is None)


def test_quit_can_be_cancelled(qtbot, panel: Panel, answers: Answers) -> None:
    done: list[bool] = []
    panel.finished.connect(lambda: done.append(True))
    panel.request_quit()
    assert answers.asked == ["Qwen3.6-27B"] and done == []


def test_quit_asks_nothing_when_nothing_runs(qtbot, panel: Panel, rig, answers: Answers) -> None:
    rig.picture = lambda number: snapshot(record(ServerState.STOPPED), taken_at_s=NOW_S + number)
    qtbot.waitUntil(lambda: panel.live.latest.server.state is ServerState.STOPPED)
    with qtbot.waitSignal(panel.finished):
        panel.request_quit()
    assert answers.asked == []


def test_tray_actions(qtbot, panel: Panel, rig: RigWorkbench) -> None:
    panel._do("start", "qwen")
    qtbot.waitUntil(lambda: rig.controller.asked == [("start", "qwen")])
    panel._do("stop", "")
    qtbot.waitUntil(lambda: rig.controller.asked[-1] == ("stop", "qwen"))
    panel._do("copy-url", "")
    assert QGuiApplication.clipboard().text() == "http://127.0.0.1:8000/v1"
    panel._do("profile", "gemma")
    assert panel.context.settings.current_profile == "gemma"
    panel._do("no such action", "")


def test_hidden_means_half_rate_and_one_monitor(
    qtbot, panel: Panel, rig: RigWorkbench, with_tray: list[str]
) -> None:
    assert rig.intervals_s[-1] == 1.0
    panel._window.close()
    qtbot.waitUntil(lambda: rig.intervals_s[-1] == 2.0)
    qtbot.waitUntil(lambda: rig.open_monitors == 1)
    panel._window.bring_up()
    qtbot.waitUntil(lambda: rig.intervals_s[-1] == 1.0)
    qtbot.waitUntil(lambda: rig.open_monitors == 1)


def test_the_meter_keeps_the_full_rate(
    qtbot, panel: Panel, rig: RigWorkbench, with_tray: list[str]
) -> None:
    panel._do("meter", "")
    assert panel.meter.isVisible()
    panel._window.close()
    assert rig.intervals_s[-1] == 1.0
    panel.meter.close()
    assert not panel.meter.isVisible()


def test_the_meter_shows_dashes_for_unknown(qtbot, panel: Panel, rig: RigWorkbench) -> None:
    rig.picture = lambda n: snapshot(record(), (None, 61), None, None, taken_at_s=NOW_S + n)
    qtbot.waitUntil(lambda: panel.live.latest.throughput.generation_tps is None)
    panel._do("meter", "")
    assert panel.meter._speed.text() == "— T/s"
    first, second = panel.meter._rows
    assert (first[1].share, first[2].text()) == (None, "—")
    assert (second[1].share, second[2].text()) == (0.61, "61 %")


def test_ready_is_notified_once(qtbot, panel: Panel, rig, with_tray: list[str]) -> None:
    rig.picture = lambda number: snapshot(loading_record(), taken_at_s=NOW_S + number)
    qtbot.waitUntil(lambda: panel.live.latest.server.state is ServerState.LOADING)
    rig.picture = lambda number: snapshot(record(), taken_at_s=NOW_S + number)
    qtbot.waitUntil(lambda: with_tray != [])
    assert with_tray == ["The server is ready"]


def test_a_broken_stream_starts_again(qtbot, panel: Panel, rig, monkeypatch) -> None:
    monkeypatch.setattr("twinrig.qt.live.RETRY_MS", 10)
    good = rig.picture

    def broken(_number: int):
        raise OSError("the driver fell over")

    with qtbot.waitSignal(panel.live.interrupted):
        rig.picture = broken
    rig.picture = good
    with qtbot.waitSignal(panel.live.snapshot):
        pass


def test_one_error_box_at_a_time(qtbot, panel: Panel) -> None:
    panel.report(ConflictError(message("First."), message("Do this.")))
    first = panel._error_box
    panel.report(ValueError("second"))
    assert panel._error_box is first
    assert (first.text(), first.informativeText()) == ("First.", "Do this.")
    first.close()
    qtbot.waitUntil(lambda: panel._error_box is None)


def test_a_measurement_that_was_cut_off_is_put_back_at_the_start_and_told(
    qtbot, panel: Panel, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert panel._error_box is None, "nothing was cut off"
    looked: list[object] = []

    async def put_back(workbench: object) -> Message:
        looked.append(workbench)
        return message("A measurement was cut off. The servers are as they were before it.")

    monkeypatch.setattr("twinrig.qt.panel.put_back_after_cut", put_back)
    panel.start()
    qtbot.waitUntil(lambda: panel._error_box is not None)
    assert looked == [panel.context.workbench]
    assert "A measurement was cut off." in panel._error_box.text()
    panel._error_box.close()
    qtbot.waitUntil(lambda: panel._error_box is None)


def test_an_unexpected_error_shows_its_trace(qtbot) -> None:
    try:
        raise RuntimeError("boom")
    except RuntimeError as error:
        box = error_box(Texts(), error, None)
    qtbot.addWidget(box)
    assert "RuntimeError: boom" in box.text()
    assert "test_panel.py" in box.detailedText()


def test_the_tooltip_changes_once_a_second_at_most(qtbot, panel: Panel, rig) -> None:
    before = panel.tray.tooltip_updates
    rig.picture = lambda number: snapshot(record(), tps=float(number), taken_at_s=NOW_S + number)
    qtbot.wait(400)  # the claim is about real time
    assert panel.tray.tooltip_updates - before <= 1


def test_menu_is_rebuilt_when_it_opens_only(qtbot, panel: Panel) -> None:
    menu = panel.tray.menu
    panel.tray._fill()
    shown = [action.text() for action in menu.actions()]
    assert "Server: Ready" in shown and "Stop server" in shown and "Quit" in shown
    kept = list(menu.actions())
    qtbot.waitSignal(panel.live.snapshot).wait()
    assert list(menu.actions()) == kept


@pytest.mark.parametrize("agreed", [True, False])
def test_switch_in_the_tray_asks_first(qtbot, panel: Panel, rig, agreed: bool) -> None:
    asked = []
    switched = []

    async def switch(wanted: str, requested_by: str) -> str:
        switched.append((wanted, requested_by))
        return ""

    rig.switching = lambda: type("Switching", (), {"switch": staticmethod(switch)})
    panel._ask_switch = lambda _t, running, wanted, _p: asked.append((running, wanted)) or agreed
    panel.tray.triggered.emit("switch", "other")
    assert asked == [("Qwen 27B", "other")]
    if agreed:
        qtbot.waitUntil(lambda: switched == [("other", "panel")])
    qtbot.waitUntil(lambda: not panel.actions.busy)
    assert bool(switched) is agreed

"""The log view: following, standing still, searching, and 10,000 lines a second."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication, QLineEdit, QToolButton

from qt.pages_rig import PageWorkbench, make_profile, named, page_context, state_record, unnamed
from twinrig.qt.pages.server import ServerPage
from twinrig.qt.viewmodels.log import MAX_LINES, LogTail, LogUpdate
from twinrig.qt.widgets.log_view import LogView
from twinrig.qt.widgets.parts import Button
from twinrig.services.log_reader import LogChunk

STALL_LIMIT_S = 0.05
WRITER = """
import sys, time
number = 0
for _ in range(25):
    with open(sys.argv[1], "a") as log:
        for _ in range(1000):
            log.write(
                f"INFO 11-29 17:00:00 [loggers.py:123] Engine 000: {number} tokens/s and more\\n"
            )
            number += 1
    time.sleep(0.1)
"""
"""Another process, as the supervisor is one: 10,000 lines a second."""


@pytest.fixture
def workbench(tmp_path) -> PageWorkbench:
    return PageWorkbench(tmp_path)


@pytest.fixture
def context(qapp, bridge, workbench):
    return page_context(qapp, bridge, workbench, [])


@pytest.fixture
def view(qtbot, context) -> LogView:
    view = LogView(context)
    qtbot.addWidget(view)
    view.resize(900, 400)
    view.show()
    return view


class Feeder:
    """Feeds lines as the reader would."""

    def __init__(self, view: LogView) -> None:
        self.view, self.tail, self.count, self.size = view, LogTail(), 0, 0

    def lines(self, number: int, text: str = "line {no}") -> None:
        first = self.count + 1
        body = "".join(text.format(no=first + i) + "\n" for i in range(number))
        self.count += number
        self.size += len(body)
        update = self.tail.feed(LogChunk(body, "f", self.size, first))
        self.view.apply(update)


def texts(view: LogView) -> list[str]:
    return view.text.toPlainText().split("\n")


@pytest.mark.parametrize("batch", [1, 7, 149, 151, 1000, 6000])
def test_any_batch_size_shows_the_same_lines_with_right_numbers(view, batch):
    feeder = Feeder(view)
    while feeder.count < 6000:
        feeder.lines(min(batch, 6000 - feeder.count)) if batch > 1 else feeder.lines(500)
    assert texts(view)[-1] == ""
    assert texts(view)[:-1] == [f"line {i}" for i in range(6000 - MAX_LINES + 2, 6001)]
    assert view.has_line(6000, "line 6000")
    assert view.has_line(view.first_no, f"line {view.first_no}")
    assert not view.has_line(view.first_no - 1)
    assert not view.has_line(6000, "something else")


def test_an_open_line_is_completed_in_place(view):
    view.apply(LogUpdate(("load 10%",), 1, fresh=True))
    view.apply(LogUpdate(("load 100%", "done", ""), 3))
    assert texts(view) == ["load 100%", "done", ""]


def test_it_follows_the_end_until_told_to_stand_still(view):
    feeder = Feeder(view)
    feeder.lines(500)
    bar = view.text.verticalScrollBar()
    assert bar.value() == bar.maximum()
    view.follow.setChecked(False)
    shown = view.text.toPlainText()
    feeder.lines(300)
    assert view.text.toPlainText() == shown, "the text stands still while it is read"
    assert "New lines below: 300" in view._note.text()
    view.follow.setChecked(True)
    assert view.has_line(800, "line 800")
    assert bar.value() == bar.maximum()
    assert not view._note.isVisible()


def test_scrolling_up_stops_following(view, qtbot):
    feeder = Feeder(view)
    feeder.lines(500)
    view.text.verticalScrollBar().setValue(10)
    assert not view.follow.isChecked()
    feeder.lines(10)
    assert view.text.verticalScrollBar().value() == 10


def test_find_goes_round_and_says_when_there_is_nothing(view, qtbot):
    feeder = Feeder(view)
    feeder.lines(300)
    search = named(view, QLineEdit, "Find in the log")
    search.setText("line 7")
    named(view, QToolButton, "Next match").click()
    first = view.text.textCursor().block().text()
    assert "line 7" in first
    assert not view.follow.isChecked()
    named(view, QToolButton, "Previous match").click()
    assert "line 7" in view.text.textCursor().block().text()
    for _ in range(20):
        named(view, QToolButton, "Next match").click()
        assert "line 7" in view.text.textCursor().block().text()
    search.setText("absent")
    assert not view.find(backwards=False)
    assert "Not found" in view._note.text()
    search.setText("日本")
    assert not view.find(backwards=True)


def test_copy_takes_the_selection_else_everything(view):
    Feeder(view).lines(3)
    named(view, Button, "Copy").click()
    assert QApplication.clipboard().text() == "line 1\nline 2\nline 3\n"
    view._search.setText("line 2")
    view.find(backwards=False)
    named(view, Button, "Copy").click()
    assert QApplication.clipboard().text() == "line 2"


def test_another_server_starts_with_an_empty_view(view):
    feeder = Feeder(view)
    feeder.lines(20)
    view.clear()
    assert view.text.toPlainText() == ""
    assert not view.has_line(1)
    Feeder(view).lines(2)
    assert texts(view) == ["line 1", "line 2", ""]


def test_every_control_has_a_name(view):
    assert unnamed(view) == []


class Heartbeat:
    """Longest stretch of work between two beats of a timer, in the GUI thread's own CPU time.

    CPU time, so that other programs on a busy machine do not count as stalls of ours;
    ``pause_s`` is the same by the clock, where they do.
    """

    def __init__(self) -> None:
        self.beats, self.longest_s, self.pause_s = 0, 0.0, 0.0
        self._last_s, self._last_at_s = 0.0, 0.0
        self._timer = QTimer()
        self._timer.setInterval(2)
        self._timer.timeout.connect(self._beat)

    def start(self) -> None:
        self._last_s, self._last_at_s = time.thread_time(), time.perf_counter()
        self._timer.start()

    def _beat(self) -> None:
        now, at_s = time.thread_time(), time.perf_counter()
        self.longest_s = max(self.longest_s, now - self._last_s)
        self.pause_s = max(self.pause_s, at_s - self._last_at_s)
        self._last_s, self._last_at_s, self.beats = now, at_s, self.beats + 1

    def stop(self) -> None:
        self._timer.stop()


def test_ten_thousand_lines_a_second_do_not_stall_the_window(qtbot, context, workbench):
    profile_id = make_profile(workbench, "Alpha")
    workbench.write_log(profile_id, "")
    workbench.controller.set(state_record(profile_id))
    workbench.clock.sleep = _real_sleep
    page = ServerPage(context)
    qtbot.addWidget(page)
    page.resize(1100, 700)
    page.show()
    page.on_shown()
    page.reveal("log")
    qtbot.waitUntil(lambda: page.pane.profile_id == profile_id, timeout=5000)
    beat = Heartbeat()
    beat.start()
    with subprocess.Popen([sys.executable, "-c", WRITER, str(workbench.layout.log(profile_id))]):
        qtbot.waitUntil(lambda: page.pane.log.has_line(25_000, "24999 tokens"), timeout=30_000)
    beat.stop()
    print(
        f"longest stretch {1000 * beat.longest_s:.1f} ms of CPU time over {beat.beats} beats;"
        f" longest pause {1000 * beat.pause_s:.0f} ms by the clock"
    )
    assert beat.beats > 50
    assert beat.longest_s < STALL_LIMIT_S


async def _real_sleep(seconds: float) -> None:
    import asyncio

    await asyncio.sleep(seconds)

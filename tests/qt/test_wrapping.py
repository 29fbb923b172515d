"""Rows that go on in the next line, and pages that never scroll sideways."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication, QLabel, QPushButton, QSizePolicy, QVBoxLayout, QWidget

from qt.full_rig import full_workbench
from qt.panel_rig import RigFolders
from twinrig.qt.application import Starter
from twinrig.qt.pages.registry import PAGES
from twinrig.qt.widgets.wrapping import WrapRow, wrap_row


def buttons(count: int) -> list[QPushButton]:
    found = []
    for number in range(count):
        button = QPushButton(str(number))
        button.setFixedSize(100, 20)
        found.append(button)
    return found


def box(qtbot, row: WrapRow, width: int) -> QWidget:
    widget = QWidget()
    qtbot.addWidget(widget)
    widget.setLayout(row)
    widget.resize(width, 200)
    widget.show()
    return widget


def places(widgets: list[QPushButton]) -> list[tuple[int, int]]:
    tops = sorted({w.y() for w in widgets})
    return [(tops.index(w.y()), w.x()) for w in widgets]


def test_as_many_as_fit_stand_in_a_line(qtbot) -> None:
    three = buttons(3)
    widget = box(qtbot, wrap_row(*three, spacing=10), 320)
    assert places(three) == [(0, 0), (0, 110), (0, 220)]
    widget.resize(319, 200)
    assert places(three) == [(0, 0), (0, 110), (1, 0)]
    widget.resize(100, 200)
    assert places(three) == [(0, 0), (1, 0), (2, 0)]
    assert widget.minimumSizeHint().width() == 100
    assert widget.layout().heightForWidth(100) == 3 * 20 + 2 * 10
    assert widget.layout().heightForWidth(320) == 20


def test_what_is_left_goes_to_those_that_stretch(qtbot) -> None:
    first, last = buttons(2)
    held = box(qtbot, wrap_row(first, None, last, spacing=10), 400)
    assert held.isVisible() and (first.x(), last.x()) == (0, 300)
    wide = QLabel("wide")
    wide.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
    wide.setMinimumWidth(50)
    (one,) = buttons(1)
    widget = box(qtbot, wrap_row(wide, one, stretch=wide, spacing=10), 400)
    assert (wide.width(), one.x()) == (290, 300)
    widget.resize(159, 200)
    assert wide.width() == 159 and one.x() == 0 and one.y() > wide.y()


def test_hidden_ones_take_no_room(qtbot) -> None:
    three = buttons(3)
    held = box(qtbot, wrap_row(*three, spacing=10), 215)
    three[1].hide()
    QApplication.processEvents()
    assert held.isVisible() and [three[0].x(), three[2].x()] == [0, 110]
    assert three[0].y() == three[2].y()


def test_the_column_around_it_gives_the_height_it_needs(qtbot) -> None:
    three = buttons(3)
    widget = QWidget()
    qtbot.addWidget(widget)
    column = QVBoxLayout(widget)
    column.setContentsMargins(0, 0, 0, 0)
    column.addLayout(wrap_row(*three, spacing=10))
    below = QLabel("below")
    column.addWidget(below, 1)
    widget.resize(120, 400)
    widget.show()
    assert below.y() >= three[2].geometry().bottom()
    column.itemAt(0).layout().takeAt(1)
    assert column.itemAt(0).layout().count() == 2
    assert column.itemAt(0).layout().itemAt(2) is None


@pytest.fixture
def starter(qtbot, qapp: QApplication, folders: RigFolders, tmp_path: Path) -> Iterator[Starter]:
    workbench = full_workbench(tmp_path / "rig")
    starter = Starter(qapp, lambda _target: workbench, "demo", "en", folders)
    starter.first_run = False
    starter.begin(hidden=False)
    qtbot.waitUntil(lambda: starter.panel is not None and starter.panel.live.latest is not None)
    yield starter
    starter.end()
    starter.window.deleteLater()


@pytest.mark.parametrize("language", ["en", "ja"])
@pytest.mark.parametrize("page_id", [page.page_id for page in PAGES])
def test_no_page_scrolls_sideways(qtbot, starter: Starter, page_id: str, language: str) -> None:
    window = starter.window
    starter.apply_language(language)
    window.navigate(page_id)
    window.resize(window.minimumSize())
    area = window._areas[page_id]
    page = window.pages[page_id]
    qtbot.waitUntil(lambda: page.width() <= area.viewport().width() > 0)
    # Also when a second page of height makes the other scroll bar take its part.
    bar = area.verticalScrollBar().sizeHint().width()
    hidden = area.verticalScrollBar().maximum() == 0
    room = area.viewport().width() - (bar if hidden else 0)
    assert page.minimumSizeHint().width() <= room
    assert area.horizontalScrollBar().maximum() == 0

"""The window as people meet it: all pages, keys, names, languages, themes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QAbstractSlider,
    QAbstractSpinBox,
    QApplication,
    QComboBox,
    QHeaderView,
    QLabel,
    QLineEdit,
    QPlainTextEdit,
    QScrollBar,
    QTextEdit,
    QWidget,
)

from qt.full_rig import FullWorkbench, full_workbench
from qt.panel_rig import RigFolders
from qt.test_text import Backwards
from twinrig.qt import text as text_module
from twinrig.qt.application import Starter
from twinrig.qt.main_window import MainWindow
from twinrig.qt.pages.registry import PAGES
from twinrig.qt.widgets.line_graph import LineGraph

NEEDS_NAME = (
    QAbstractButton,
    QAbstractItemView,
    QAbstractSlider,
    QAbstractSpinBox,
    QComboBox,
    QLineEdit,
    QPlainTextEdit,
    QTextEdit,
    LineGraph,
)
PAGE_IDS = [page.page_id for page in PAGES]


@pytest.fixture
def workbench(tmp_path: Path) -> FullWorkbench:
    return full_workbench(tmp_path / "rig")


@pytest.fixture
def starter(
    qtbot, qapp: QApplication, workbench: FullWorkbench, folders: RigFolders
) -> Iterator[Starter]:
    """The panel as it is started, on the rig, with the window shown."""
    starter = Starter(qapp, lambda _target: workbench, "demo", "en", folders)
    starter.theme.apply("light")
    starter.window.show()
    starter._open()
    qtbot.waitUntil(lambda: starter.panel is not None and starter.panel.live.latest is not None)
    yield starter
    starter.end()
    starter.window.deleteLater()


@pytest.fixture
def window(starter: Starter) -> MainWindow:
    return starter.window


def unnamed(root: QWidget) -> list[str]:
    """Visible things a user can act on or read from, without an accessible name."""
    found = []
    for widget in root.findChildren(QWidget):
        if not isinstance(widget, NEEDS_NAME) or isinstance(widget, QScrollBar | QHeaderView):
            continue
        if widget.objectName().startswith("qt_") or not widget.isVisibleTo(root):
            continue
        # Parts of a compound field (the line of a combo box) speak through their owner.
        if isinstance(widget.parent(), QComboBox | QAbstractSpinBox):
            continue
        if not (widget.accessibleName() or getattr(widget, "text", str)()):
            path = f"{type(widget.parent()).__name__}/{type(widget).__name__}"
            found.append(f"{path} {widget.objectName()}")
    return found


def test_the_walk_finds_what_has_no_name(qtbot) -> None:
    root = QWidget()
    qtbot.addWidget(root)
    bad, good = QLineEdit(root), QLineEdit(root)
    good.setAccessibleName("Port")
    assert len(unnamed(root)) == 1
    bad.setAccessibleName("Host")
    assert unnamed(root) == []


@pytest.mark.parametrize("page_id", PAGE_IDS)
def test_everything_on_the_page_has_a_name(qtbot, window: MainWindow, page_id: str) -> None:
    window.navigate(page_id)
    assert window.current_id == page_id
    assert unnamed(window) == []


@pytest.mark.parametrize("page_id", PAGE_IDS)
def test_the_page_speaks_another_language_at_once(
    qtbot, starter: Starter, monkeypatch: pytest.MonkeyPatch, page_id: str
) -> None:
    window = starter.window
    window.navigate(page_id)
    page = window.current_page
    before = texts_of(page)
    assert before, "a page without a word?"
    monkeypatch.setattr(text_module, "Translator", Backwards)
    starter.texts.set_language("ja")
    after = texts_of(page)
    assert {text[::-1] for text in before} & after, "nothing was translated"
    kept = {text for text in before & after if needs_translation(text)}
    assert kept == set()


def texts_of(page: QWidget) -> set[str]:
    """Words on labels and buttons that are shown now."""
    found = set()
    for widget in page.findChildren(QLabel) + page.findChildren(QAbstractButton):
        if widget.isVisibleTo(page) and widget.text().strip():
            found.add(widget.text())
    return found


DATA = ("RTX", "Qwen", "qwen", "Gemma", "gemma", "vLLM", "Demo", "—", "/", "--")


def needs_translation(text: str) -> bool:
    """Whether this is a sentence of ours, not a name, a number or a palindrome."""
    if text == text[::-1] or any(mark in text for mark in DATA):
        return False
    return sum(letter.isalpha() for letter in text) > 3 and "_" not in text


@pytest.mark.parametrize("page_id", PAGE_IDS)
def test_the_page_follows_the_theme(qtbot, starter: Starter, page_id: str) -> None:
    starter.window.navigate(page_id)
    light = starter.window.grab().toImage()
    starter.theme.apply("dark")
    QApplication.processEvents()  # the new palette travels as an event
    dark = starter.window.grab().toImage()
    assert mean_lightness(light) > 180
    assert mean_lightness(dark) < 80


def mean_lightness(image) -> float:
    small = image.scaled(40, 30)
    values = [small.pixelColor(x, y).lightness() for x in range(40) for y in range(30)]
    return sum(values) / len(values)


@pytest.mark.parametrize("page_id", PAGE_IDS)
def test_the_page_fits_the_smallest_window(qtbot, window: MainWindow, page_id: str) -> None:
    window.navigate(page_id)
    window.resize(900, 600)
    QApplication.processEvents()
    assert window.width() <= 900 and window.height() <= 600
    area = window._areas[page_id]
    assert area.horizontalScrollBar().maximum() == 0, "the page must not scroll sideways"


def test_number_keys_choose_pages(qtbot, window: MainWindow) -> None:
    window.activateWindow()
    hidden = PAGE_IDS.index("first-steps") + 1
    QTest.keyClick(window, Qt.Key.Key_0 + hidden, Qt.KeyboardModifier.ControlModifier)
    assert window.current_id == PAGE_IDS[0], "a page that is not listed has no key"
    window.set_listed("first-steps", True)
    for place, page_id in reversed(list(enumerate(PAGE_IDS, 1))):
        QTest.keyClick(window, Qt.Key.Key_0 + place, Qt.KeyboardModifier.ControlModifier)
        assert window.current_id == page_id
    window.navigation.setFocus()
    for place, page_id in enumerate(PAGE_IDS, 1):
        QTest.keyClick(window, Qt.Key.Key_0 + place)
        assert window.current_id == page_id


def test_digits_go_into_a_field_that_has_the_focus(qtbot, window: MainWindow) -> None:
    window.navigate("overview")
    field = QLineEdit(window)
    field.show()
    field.setFocus()
    QTest.keyClick(field, Qt.Key.Key_3)
    assert field.text() == "3"
    assert window.current_id == "overview"


def test_ctrl_comma_l_and_tab(qtbot, window: MainWindow) -> None:
    control = Qt.KeyboardModifier.ControlModifier
    QTest.keyClick(window, Qt.Key.Key_Comma, control)
    assert window.current_id == "settings"
    QTest.keyClick(window, Qt.Key.Key_L, control)
    assert window.current_id == "server"
    QTest.keyClick(window, Qt.Key.Key_Tab, control)
    assert window.current_id == PAGE_IDS[(PAGE_IDS.index("server") + 1) % len(PAGE_IDS)]


def test_f5_asks_the_page_to_look_again(qtbot, window: MainWindow, monkeypatch) -> None:
    window.navigate("preflight")
    asked: list[bool] = []
    monkeypatch.setattr(window.current_page, "refresh", lambda: asked.append(True))
    QTest.keyClick(window, Qt.Key.Key_F5)
    assert asked == [True]


@pytest.mark.parametrize("page_id", PAGE_IDS)
def test_tab_reaches_every_button_and_field(qtbot, window: MainWindow, page_id: str) -> None:
    window.navigate(page_id)
    window.activateWindow()
    qtbot.waitUntil(lambda: QApplication.focusWindow() is not None)
    window.navigation.setFocus()
    reached = set()
    for _ in range(300):
        QTest.keyClick(QApplication.focusWidget() or window, Qt.Key.Key_Tab)
        focused = QApplication.focusWidget()
        if focused in reached:
            break
        reached.add(focused)
    page = window.current_page
    wanted = [
        widget
        for kind in (QAbstractButton, QComboBox, QLineEdit)
        for widget in page.findChildren(kind)
        if widget.isVisibleTo(page)
        and widget.isEnabled()
        and widget.focusPolicy() & Qt.FocusPolicy.TabFocus
        and not isinstance(widget.parent(), QComboBox | QAbstractSpinBox)
    ]
    missed = [f"{type(w).__name__} {w.accessibleName()}" for w in wanted if w not in reached]
    groups = [w for w in wanted if isinstance(w, QAbstractButton) and w.group() is not None]
    missed = [
        m for m in missed if m not in {f"{type(g).__name__} {g.accessibleName()}" for g in groups}
    ]
    assert missed == []


def test_the_demo_badge_is_on_every_page(window: MainWindow) -> None:
    for page_id in PAGE_IDS:
        window.navigate(page_id)
        assert window.strip.demo_badge.isVisibleTo(window)
        assert window.strip.demo_badge.text() == "Demo rig"


def test_pages_are_built_when_first_shown(window: MainWindow) -> None:
    assert set(window.pages) == {"overview"}
    window.navigate("settings")
    assert set(window.pages) == {"overview", "settings"}


@pytest.fixture
def in_the_tray(
    qtbot, qapp: QApplication, workbench: FullWorkbench, folders: RigFolders
) -> Iterator[Starter]:
    """The panel as it starts at logon: no window."""
    starter = Starter(qapp, lambda _target: workbench, "demo", "en", folders)
    starter.first_run = False
    starter.begin(hidden=True)
    qtbot.waitUntil(lambda: starter.panel is not None and starter.panel.live.latest is not None)
    yield starter
    starter.end()
    starter.window.deleteLater()


def test_the_tray_alone_builds_no_page(qtbot, in_the_tray: Starter) -> None:
    window = in_the_tray.window
    assert window.pages == {} and window.current_id == "overview"
    assert any(type(finder).__name__ == "_Forget" for finder in sys.meta_path)
    window.bring_up()
    assert set(window.pages) == {"overview"}
    page = window.pages["overview"]
    assert "GPU 0: now " in page.graphs.load_graph.summary(), "what came before is there"
    assert len(page._cards) == 2 and page.isVisible()


def test_a_part_is_shown_once_the_window_is(
    qtbot, in_the_tray: Starter, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    window = in_the_tray.window
    server = window._types["server"]
    monkeypatch.setattr(server, "reveal", lambda _page, part: asked.append(part))
    window.navigate("server/log")
    assert window.pages == {} and asked == []
    window.bring_up()
    assert set(window.pages) == {"server"} and asked == ["log"]
    window.hide()
    window.show()
    assert asked == ["log"]


def test_geometry_is_remembered(starter: Starter) -> None:
    starter.window.resize(771, 677)
    starter.window.remember_geometry()
    again = MainWindow(starter.texts, starter.settings)
    assert (again.width(), again.height()) == (771, 677)
    again.deleteLater()

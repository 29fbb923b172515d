"""The graph: what is painted, when it is painted, and what it says in words."""

from __future__ import annotations

import pytest
from PySide6.QtGui import QColor, QImage
from PySide6.QtWidgets import QApplication

from qt.panel_rig import NOW_S
from twinrig.qt.text import Texts
from twinrig.qt.theme import Theme
from twinrig.qt.widgets.line_graph import GraphStyle, LineGraph


@pytest.fixture
def texts() -> Texts:
    return Texts()


@pytest.fixture
def theme(qapp: QApplication) -> Theme:
    return Theme(qapp, "light")


def make(qtbot, texts, theme, labels=("A", "B"), maximum: float | None = 100.0) -> LineGraph:
    graph = LineGraph(texts, theme, GraphStyle("Load", "%", maximum), labels)
    qtbot.addWidget(graph)
    graph.resize(500, 240)
    return graph


def shown(qtbot, graph: LineGraph) -> LineGraph:
    with qtbot.waitExposed(graph):
        graph.show()
    return graph


def feed(graph: LineGraph, values, start: int = 0) -> None:
    for number, row in enumerate(values, start):
        graph.append(NOW_S + number, row)


def lines(graph: LineGraph) -> QImage:
    """The cached lines alone, brought up to date."""
    graph.grab()
    assert graph._lines is not None
    return graph._lines.toImage()


def worst_difference(one: QImage, other: QImage) -> int:
    assert one.size() == other.size() and one.format() == other.format()
    pairs = zip(bytes(one.constBits()), bytes(other.constBits()), strict=True)
    return max(abs(a - b) for a, b in pairs)


def column_has(image: QImage, x: int, colour: QColor) -> bool:
    def near(a: int, b: int) -> bool:
        return abs(a - b) < 40

    for y in range(image.height()):
        pixel = image.pixelColor(x, y)
        if (
            pixel.alpha() > 120
            and near(pixel.red(), colour.red())
            and near(pixel.green(), colour.green())
            and near(pixel.blue(), colour.blue())
        ):
            return True
    return False


def test_nothing_is_painted_while_hidden(qtbot, texts, theme) -> None:
    graph = make(qtbot, texts, theme)
    feed(graph, [(50, 40)] * 50)
    QApplication.processEvents()
    assert graph.paints == 0 and graph.full_redraws == 0


def test_scrolling_draws_the_same_picture_as_a_full_redraw(qtbot, texts, theme) -> None:
    graph = shown(qtbot, make(qtbot, texts, theme))
    values = [(20 + (n * 37) % 60, 90 - (n * 17) % 70) for n in range(120)]
    for number, row in enumerate(values):
        graph.append(NOW_S + number, row)
        graph.grab()
    scrolled = lines(graph)
    assert graph.full_redraws == 1, "one at first, then only scrolling"
    graph._invalidate()
    redrawn = lines(graph)
    assert worst_difference(scrolled, redrawn) <= 16, "beyond rounding of clipped lines"


def test_gaps_are_gaps_not_zero(qtbot, texts, theme) -> None:
    graph = shown(qtbot, make(qtbot, texts, theme, ("A",)))
    feed(graph, [(50,)] * 40 + [(None,)] * 20 + [(50,)] * 40)
    image, colour = lines(graph), theme.tokens.series[0]
    right = image.width() - 2
    assert column_has(image, right - 2 * 10, colour)
    assert column_has(image, right - 2 * 80, colour)
    for slot in range(42, 58):
        assert not column_has(image, right - 2 * slot, colour), f"something drawn in slot {slot}"


def test_values_beyond_the_scale_stay_inside(qtbot, texts, theme) -> None:
    graph = shown(qtbot, make(qtbot, texts, theme, ("A",)))
    feed(graph, [(500,), (-20,)] * 20)
    image = lines(graph)
    assert column_has(image, image.width() - 6, theme.tokens.series[0])


def test_resize_theme_and_labels_redraw_fully(qtbot, texts, theme) -> None:
    graph = shown(qtbot, make(qtbot, texts, theme))
    feed(graph, [(50, 40)] * 5)
    graph.grab()
    before = graph.full_redraws
    graph.resize(600, 260)
    graph.grab()
    assert graph.full_redraws == before + 1
    theme.apply("dark")
    graph.grab()
    assert graph.full_redraws == before + 2
    assert column_has(lines(graph), graph._lines.width() - 6, theme.tokens.series[0])


def test_an_automatic_scale_grows_at_once_and_shrinks_later(qtbot, texts, theme) -> None:
    graph = make(qtbot, texts, theme, ("A",), None)
    feed(graph, [(5.0,)])
    assert graph._top == 10
    feed(graph, [(42.0,)], 1)
    assert graph._top == 50
    feed(graph, [(8.0,)] * 1300, 2)
    assert graph._top == 10


def test_another_interval_starts_afresh(qtbot, texts, theme) -> None:
    graph = make(qtbot, texts, theme)
    feed(graph, [(50, 40)] * 5)
    graph.set_interval(2.0)
    assert graph.summary() == "A: no readings. B: no readings."


def test_summary_tells_now_lowest_highest(qtbot, texts, theme) -> None:
    graph = make(qtbot, texts, theme)
    feed(graph, [(10, None), (90, None), (50.5, None)])
    assert graph.summary() == "A: now 50.5, lowest 10, highest 90 %. B: no readings."
    feed(graph, [(None, 3)], 3)
    assert "A: now unknown, lowest 10" in graph.summary()


def test_the_description_is_set_when_shown(qtbot, texts, theme) -> None:
    graph = make(qtbot, texts, theme)
    feed(graph, [(10, 20)] * 3)
    shown(qtbot, graph)
    assert graph.accessibleName() == "Load"
    assert "A: now 10" in graph.accessibleDescription()

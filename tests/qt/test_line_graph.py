"""The graph: what is painted, when it is painted, and what it says in words."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QEvent, QPoint, QRect, Qt
from PySide6.QtGui import QColor, QImage, QPainter
from PySide6.QtWidgets import QApplication

from qt.panel_rig import NOW_S
from twinrig.qt.text import Texts
from twinrig.qt.theme import Theme
from twinrig.qt.widgets.graph_paint import Mark, draw_marks
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
        return abs(a - b) < 130  # an antialiased line on the card's ground, not the ground itself

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


# -- cost while nothing changes ----------------------------------------------------------------


def test_readings_that_stand_still_are_painted_together(qtbot, texts, theme) -> None:
    graph = shown(qtbot, make(qtbot, texts, theme))
    feed(graph, [(0, 1)])
    graph.repaint()
    begun = graph.paints
    for number in range(1, 41):
        graph.append(NOW_S + number, (number % 3, 1))
        QApplication.processEvents()
    assert 7 <= graph.paints - begun <= 9, "every fifth reading, with flicker below 3 %"
    scrolled = lines(graph)
    graph._invalidate()
    assert worst_difference(scrolled, lines(graph)) <= 16


@pytest.mark.parametrize("row", [(8, 1), (None, 1), (1, 100)])
def test_a_reading_that_moves_is_painted_at_once(qtbot, texts, theme, row) -> None:
    graph = shown(qtbot, make(qtbot, texts, theme))
    feed(graph, [(1, 1)])
    graph.repaint()
    begun = graph.paints
    graph.append(NOW_S + 1, row)
    QApplication.processEvents()
    assert graph.paints == begun + 1


def test_the_first_token_after_idle_is_painted_at_once(qtbot, texts, theme) -> None:
    graph = shown(qtbot, make(qtbot, texts, theme, ("T/s",), None))
    feed(graph, [(0.0,)] * 3)
    graph.repaint()
    begun = graph.paints
    graph.append(NOW_S + 3, (12.0,))
    QApplication.processEvents()
    assert graph.paints == begun + 1


# -- crosshair ---------------------------------------------------------------------------------


def test_the_pointer_shows_the_reading_below_it(qtbot, texts, theme) -> None:
    graph = shown(qtbot, make(qtbot, texts, theme))
    feed(graph, [(n, 100 - n) for n in range(60)])
    told: list[float] = []
    graph.inspected.connect(told.append)
    right = graph._plot().right()
    qtbot.mouseMove(graph, QPoint(right - 2 * 10, 100))
    assert told[-1] == NOW_S + 49
    assert graph.value_text() == "A  49 %  B  51 %"
    assert graph.accessibleDescription() == graph.value_text()
    QApplication.sendEvent(graph, QEvent(QEvent.Type.Leave))
    assert told[-1] == -1.0 and graph.value_text() == "A  59 %  B  41 %"


def test_the_crosshair_is_drawn_where_the_reading_is(qtbot, texts, theme) -> None:
    graph = shown(qtbot, make(qtbot, texts, theme, ("A",)))
    feed(graph, [(50,)] * 80)
    plain = graph.grab().toImage()
    graph.inspect(NOW_S + 59)
    marked = graph.grab().toImage()
    plot = graph._plot()
    x = plot.right() - 2 * 20
    assert plain.pixelColor(x, plot.top() + 20) != marked.pixelColor(x, plot.top() + 20)
    assert plain.pixelColor(x - 9, plot.top() + 20) == marked.pixelColor(x - 9, plot.top() + 20)
    assert marked.pixelColor(x, plot.bottom() - round(0.5 * plot.height())) == QColor(
        theme.tokens.series[0]
    )


def test_a_gap_below_the_crosshair_is_a_dash_not_zero(qtbot, texts, theme) -> None:
    graph = shown(qtbot, make(qtbot, texts, theme, ("A",)))
    feed(graph, [(50,), (None,), (50,)])
    graph.inspect(NOW_S + 1)
    assert graph.value_text() == "A  —"
    graph.inspect(NOW_S - 500)
    assert graph.value_text() == "A  —", "out of sight"


def test_arrow_keys_move_the_crosshair_and_escape_ends_it(qtbot, texts, theme) -> None:
    graph = shown(qtbot, make(qtbot, texts, theme, ("A",)))
    feed(graph, [(n,) for n in range(5)])
    told: list[float] = []
    graph.inspected.connect(told.append)
    for _ in range(2):
        qtbot.keyClick(graph, Qt.Key.Key_Left)
    assert told == [NOW_S + 3, NOW_S + 2] and graph.value_text() == "A  2 %"
    for _ in range(9):
        qtbot.keyClick(graph, Qt.Key.Key_Left)
    assert told[-1] == NOW_S, "no further than the first reading"
    qtbot.keyClick(graph, Qt.Key.Key_Right)
    assert told[-1] == NOW_S + 1
    qtbot.keyClick(graph, Qt.Key.Key_Escape)
    assert told[-1] == -1.0


def test_an_empty_graph_has_no_crosshair(qtbot, texts, theme) -> None:
    graph = shown(qtbot, make(qtbot, texts, theme))
    qtbot.mouseMove(graph, QPoint(200, 100))
    qtbot.keyClick(graph, Qt.Key.Key_Left)
    assert graph.value_text() == "A  —  B  —"


# -- marks and other ranges --------------------------------------------------------------------


def test_marks_stand_at_their_time_with_their_word(qtbot, texts, theme) -> None:
    graph = shown(qtbot, make(qtbot, texts, theme, ("A",)))
    feed(graph, [(50,)] * 100)
    plain = graph.grab().toImage()
    graph.set_marks([Mark(NOW_S + 50, "Crash", "fail"), Mark(NOW_S - 9000, "Start")])
    marked = graph.grab().toImage()
    plot = graph._plot()
    x = plot.right() - 2 * 49
    assert marked.pixelColor(x, plot.bottom() - 2) == theme.tokens.fail
    changed = [
        column
        for column in range(plot.left(), plot.right())
        if any(
            plain.pixelColor(column, y) != marked.pixelColor(column, y)
            for y in range(plot.top(), plot.top() + 12)
        )
    ]
    assert changed and min(changed) >= x and max(changed) < x + 80, "only the one in sight"


def test_words_of_marks_do_not_overlap(qtbot, texts, theme) -> None:
    image = QImage(300, 100, QImage.Format.Format_RGB32)
    painter = QPainter(image)
    plot = QRect(0, 0, 300, 90)
    seen = [(20, "Start", theme.tokens.ok), (24, "Ready", theme.tokens.ok)]
    assert draw_marks(painter, plot, seen) == ["Start"]
    assert draw_marks(painter, plot, [*seen, (200, "Stop", theme.tokens.ok)]) == ["Start", "Stop"]
    assert draw_marks(painter, plot, [(295, "Crash", theme.tokens.fail)]) == ["Crash"]
    painter.end()


def test_loading_a_range_replaces_everything(qtbot, texts, theme) -> None:
    graph = shown(qtbot, make(qtbot, texts, theme, ("A",), None))
    feed(graph, [(3.0,)] * 10)
    graph.load([(80.0,), (None,), (40.0,)], NOW_S + 600, 60.0)
    graph.grab()
    assert graph.value_text() == "A  40 %"
    graph.inspect(NOW_S + 480)
    assert graph.value_text().startswith("A  80")
    graph.load([], NOW_S, 1.0)
    assert graph.summary() == "A: no readings."

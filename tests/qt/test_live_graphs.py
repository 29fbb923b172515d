"""Ranges, pause, one crosshair for both graphs, events and export."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from fixtures.pictures import NOW_S, picture, server
from qt.panel_rig import RigWorkbench
from twinrig.domain.errors import HostError
from twinrig.domain.server import ServerState
from twinrig.messages import message
from twinrig.qt.pages.base import PageContext
from twinrig.qt.viewmodels.graph_data import (
    RANGES_S,
    load_samples,
    range_words,
    rows,
    slot_s,
    speed_samples,
)
from twinrig.qt.widgets.live_graphs import LiveGraphs
from twinrig.services.history import CardPoint, Event, Minute, Point

DAY = RANGES_S.index(86400.0)
QUARTER = RANGES_S.index(900.0)


@pytest.fixture
def graphs(qtbot, context: PageContext) -> LiveGraphs:
    widget = LiveGraphs(context)
    context.live.snapshot.connect(widget.take)
    qtbot.addWidget(widget)
    widget.resize(900, 320)
    with qtbot.waitExposed(widget):
        widget.show()
    return widget


def tell(context: PageContext, first: int, last: int, **changes) -> None:
    for n in range(first, last):
        context.live.take(picture((n % 100, 70), at_s=NOW_S + n, **changes))


def test_live_follows_each_reading(graphs, context) -> None:
    tell(context, 0, 5)
    assert graphs.load_graph.value_text() == "GPU 0  4 %  GPU 1  70 %"
    assert graphs.speed_graph.value_text() == "Generation  24 T/s  Prompt  0 T/s"


def test_pause_holds_still_and_resume_shows_what_was_missed(graphs, context) -> None:
    tell(context, 0, 10)
    graphs.pause.click()
    tell(context, 10, 30)
    assert graphs.paused and "GPU 0  9 %" in graphs.load_graph.value_text()
    graphs.pause.click()
    assert "GPU 0  29 %" in graphs.load_graph.value_text()
    graphs.load_graph.inspect(NOW_S + 15)
    assert "GPU 0  15 %" in graphs.load_graph.value_text(), "nothing is missing in between"


def test_a_quarter_of_an_hour_is_a_mean_of_slots(graphs, context) -> None:
    tell(context, 0, 900, tps=30.0)
    graphs.ranges.setCurrentIndex(QUARTER)
    width_s = graphs.load_graph._ring.interval_s
    assert width_s == slot_s(900.0, graphs.load_graph.slots, 1.0) >= 2.0
    assert graphs.load_graph.slots * width_s >= 900
    assert "Generation  30 T/s" in graphs.speed_graph.value_text()
    graphs.load_graph.inspect((NOW_S + 450) // width_s * width_s)
    shown = float(graphs.load_graph.value_text().split()[2])
    assert abs(shown - (450 + width_s / 2 - 0.5) % 100) <= width_s


def test_a_range_moves_on_with_its_slots_only(graphs, context) -> None:
    tell(context, 0, 60)
    graphs.ranges.setCurrentIndex(QUARTER)
    before = graphs.load_graph.full_redraws
    graphs.load_graph.grab()
    tell(context, 60, 100)
    graphs.load_graph.grab()
    assert graphs.load_graph.full_redraws <= before + 2
    assert graphs.load_graph._ring.newest_s >= NOW_S + 90


def test_a_day_comes_from_the_file_and_ends_with_the_present(qtbot, graphs, context, rig) -> None:
    old = Minute(NOW_S - 7200, 60.0, (CardPoint("GPU-0", 33.0), CardPoint("GPU-1", 44.0)), 600.0)
    rig.store.write([old], [Event(NOW_S - 7200, "crash", "qwen")])
    tell(context, 0, 3)
    graphs.ranges.setCurrentIndex(DAY)
    qtbot.waitUntil(lambda: len(context.live.history.events()) == 1)
    width_s = graphs.load_graph._ring.interval_s
    graphs.load_graph.inspect((NOW_S - 7200) // width_s * width_s)
    assert graphs.load_graph.value_text() == "GPU 0  33 %  GPU 1  44 %"
    graphs.speed_graph.inspect((NOW_S - 7200) // width_s * width_s)
    assert graphs.speed_graph.value_text().startswith("Generation  10 T/s")
    graphs.load_graph.inspect(None)
    assert "GPU 1  70 %" in graphs.load_graph.value_text()
    assert not context.live.history.has_pending, "what was read is not written again"


def test_a_day_left_open_has_no_hole(qtbot, graphs, context, rig, monkeypatch) -> None:
    def minutes(first: int, last: int) -> list[Minute]:
        cards = (CardPoint("GPU-0", 33.0), CardPoint("GPU-1", 44.0))
        return [Minute(NOW_S + n * 60, 60.0, cards, 600.0) for n in range(first, last)]

    tell(context, 0, 3)
    graphs.ranges.setCurrentIndex(DAY)
    qtbot.waitUntil(lambda: graphs._read_at_s > 0)
    rig.store.write(minutes(0, 40), [])  # the keeper goes on meanwhile
    monkeypatch.setattr(type(rig.clock), "now", lambda _self: NOW_S + 2400)
    tell(context, 2400, 2403)
    qtbot.waitUntil(lambda: len(graphs._minutes) == 40)
    width_s = graphs.load_graph._ring.interval_s
    graphs.load_graph.inspect((NOW_S + 1200) // width_s * width_s)
    assert graphs.load_graph.value_text() == "GPU 0  33 %  GPU 1  44 %"


def test_a_file_that_cannot_be_read_is_told(qtbot, graphs, context, rig, reported) -> None:
    rig.store.error = HostError(message("The history cannot be used."))
    tell(context, 0, 3)
    graphs.ranges.setCurrentIndex(DAY)
    qtbot.waitUntil(lambda: bool(reported))
    assert isinstance(reported.pop(), HostError)


def test_one_crosshair_for_both(graphs, context) -> None:
    tell(context, 0, 20)
    graphs.load_graph._tell_inspected(NOW_S + 7)
    assert graphs.speed_graph._inspected_s == NOW_S + 7
    graphs.load_graph._tell_inspected(None)
    assert graphs.speed_graph._inspected_s is None


def test_events_are_marked(graphs, context) -> None:
    tell(context, 0, 5)
    crash = server(ServerState.BACKOFF, updated_at_s=NOW_S + 5)
    context.live.take(picture((0, 0), at_s=NOW_S + 5, record=crash))
    (mark,) = graphs.load_graph._marks
    assert (mark.label, mark.tone, mark.at_s) == ("Crash", "fail", NOW_S + 5)
    assert graphs.speed_graph._marks == graphs.load_graph._marks


def test_export_writes_the_chosen_range(qtbot, graphs, context, rig, tmp_path: Path) -> None:
    tell(context, 0, 4)
    graphs.export_to(tmp_path / "a.csv")
    out = tmp_path / "a.csv"
    qtbot.waitUntil(lambda: out.exists() and out.read_text().count("\n") == 5)
    found = list(csv.DictReader(out.read_text().splitlines()))
    assert [row["gpu0_load_percent"] for row in found] == ["0", "1", "2", "3"]


def test_an_export_that_fails_is_told(qtbot, graphs, context, reported, tmp_path: Path) -> None:
    graphs.export_to(tmp_path / "no" / "folder.csv")
    qtbot.waitUntil(lambda: bool(reported))
    assert isinstance(reported.pop(), OSError)


def test_another_language_names_ranges_anew(graphs, context) -> None:
    assert [graphs.ranges.itemText(i) for i in range(3)] == ["Live", "15 minutes", "24 hours"]
    context.texts.set_language("ja")
    assert all(graphs.ranges.itemText(i) for i in range(3))


# -- the pure part -----------------------------------------------------------------------------


def test_slots_are_whole_and_hold_the_range() -> None:
    assert slot_s(0.0, 100, 0.5) == 0.5
    assert slot_s(900.0, 200, 1.0) == 5.0
    assert slot_s(900.0, 10_000, 2.0) == 2.0
    assert slot_s(86400.0, 200, 1.0) == 480.0
    assert slot_s(86400.0, 0, 1.0) == 86400.0


def test_rows_are_means_and_gaps() -> None:
    samples = [(100.0, (10.0, None)), (101.0, (20.0, None)), (106.0, (50.0, 1.0))]
    assert rows(samples, 2.0, 10) == (
        [(15.0, None), (None, None), (None, None), (50.0, 1.0)],
        106.0,
    )
    assert rows(samples, 2.0, 2) == ([(None, None), (50.0, 1.0)], 106.0)
    assert rows([], 2.0, 5) == ([], 0.0)


def test_samples_of_points_and_minutes() -> None:
    point = Point(10.0, 1.0, (CardPoint("b", 5.0),), 24.0, None)
    minute = Minute(60.0, 30.0, (CardPoint("a", 7.0),), 600.0, None)
    assert load_samples([point, minute], ["a", "b"]) == [(10.0, (None, 5.0)), (60.0, (7.0, None))]
    assert speed_samples([point, minute]) == [(10.0, (24.0, None)), (60.0, (20.0, None))]
    assert speed_samples([Minute(0.0, 0.0, (), 5.0)]) == [(0.0, (None, None))]
    assert [str(range_words(r)) for r in RANGES_S] == ["Live", "15 minutes", "24 hours"]


def test_the_rig_is_used(rig: RigWorkbench) -> None:
    assert rig.history_store() is rig.store

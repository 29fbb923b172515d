"""Verdict line, figures, what settles, steady labels, the keeper of the history, the meter."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtCore import QEvent
from PySide6.QtWidgets import QApplication, QLabel, QVBoxLayout, QWidget

from fixtures.pictures import LAYER, NOW_S, picture, server, stretch
from twinrig.domain.errors import DamagedFileError, HostError
from twinrig.domain.metrics import Ended, Snapshot, Throughput
from twinrig.domain.server import ServerState
from twinrig.messages import message
from twinrig.qt.history_keeper import HistoryKeeper
from twinrig.qt.meter import MeterWindow
from twinrig.qt.pages.base import PageContext
from twinrig.qt.viewmodels.face import SETTLED_AFTER, Settling, face
from twinrig.qt.viewmodels.figures import LastKnown, figures_view, speed_words
from twinrig.qt.widgets.server_figures import ServerFigures
from twinrig.qt.widgets.steady import SteadyLabel, SteadyLine
from twinrig.qt.widgets.verdict_line import VerdictLine
from twinrig.services.verdict import verdict

ENDED = Ended(1, 240.0, 10.0)
IDLE = {"tps": 0.0, "prompt": 0.0, "running": 0}


# -- verdict -----------------------------------------------------------------------------------


def test_the_link_leads_to_the_setting(qtbot, context: PageContext) -> None:
    went: list[str] = []
    line = VerdictLine(replace(context, navigate=went.append))
    qtbot.addWidget(line)
    line.show_verdict(verdict(stretch((49, 48), setup=LAYER)))
    assert line.badge.text().startswith("One card at a time")
    assert line.link.text() == "Change the split" and not line.link.isHidden()
    line.link.click()
    assert went == ["plan/tensor_parallel_size"]
    line.show_verdict(verdict(stretch((67, 70))))
    assert line.link.isHidden()


def test_evidence_is_behind_why_and_follows(qtbot, context: PageContext) -> None:
    line = VerdictLine(context)
    qtbot.addWidget(line)
    line.show_verdict(verdict(stretch((67, 70))))
    assert line.evidence.isHidden() and line.why.accessibleName()
    line.why.click()
    assert line.evidence.text().startswith("GPU 0: 67 %, 150 / 250 W")
    line.show_verdict(verdict(stretch((80, 81))))
    assert "GPU 1: 81 %" in line.evidence.text()
    line.show_verdict(verdict([]))
    assert line.evidence.isHidden() and line.why.isHidden()


# -- figures -----------------------------------------------------------------------------------


def told(
    snapshot: Snapshot | None, energy_j: float | None = None, tokens: float = 0.0
) -> list[str]:
    last = LastKnown()
    if snapshot is not None:
        last.take(snapshot)
    view = figures_view(snapshot, last, energy_j, tokens)
    return [] if view is None else [str(view.room), *map(str, view.facts)]


def with_speed(**changes) -> Snapshot:
    shot = picture((67, 70), kv=0.25)
    return replace(shot, throughput=replace(shot.throughput, **changes))


def test_headroom_in_tokens_or_percent() -> None:
    assert told(with_speed(kv_cache_size_tokens=131072)) == [
        "KV cache: 98,304 of 131,072 tokens free (75 %)"
    ]
    assert told(picture((67, 70), kv=0.25)) == ["KV cache: 25 % in use, 75 % free"]
    assert told(picture((67, 70), kv=None)) == ["Not available"]


def test_nothing_is_told_without_a_server_that_answers() -> None:
    assert told(None) == []
    assert told(replace(picture((0, 0)), server=None)) == []
    assert told(picture((0, 0), record=server(ServerState.LOADING))) == []


def test_latency_hits_drafts_and_energy() -> None:
    shot = with_speed(first_token_s=0.42, prefix_hit_ratio=0.9, draft_acceptance=0.71)
    assert told(shot, 3600.0, 1200.0)[1:] == [
        "First token after 0.42 s",
        "Prefix hits 90 %",
        "Drafts accepted 71 %",
        "1.0 Wh in 15 min, 3 J per token",
    ]
    assert told(picture((67, 70)), 1800.0)[1:] == ["0.5 Wh in 15 min"]


def test_interval_figures_stay_until_the_next_and_end_with_the_run() -> None:
    last = LastKnown()
    last.take(with_speed(first_token_s=0.4))
    last.take(picture((67, 70)))
    assert last.first_token_s == 0.4
    last.take(picture((67, 70), record=server(run_id="run-2")))
    assert last.first_token_s is None


def test_the_last_reply_and_its_age_stand_in_for_a_speed(qtbot, context: PageContext) -> None:
    last = LastKnown()
    told = Throughput(last_reply_tps=24.1, told_at_end=True)
    first = replace(picture((67, 70)), throughput=told)
    later = replace(picture((1, 0), at_s=NOW_S + 190), throughput=told)
    last.take(first)
    last.take(later)
    facts = [str(f) for f in figures_view(first, last, None, None).facts]
    assert facts == ["Generating", "Last reply 24.1 T/s (just now)"]
    facts = [str(f) for f in figures_view(later, last, None, None).facts]
    assert facts == ["Last reply 24.1 T/s (3 min ago)"]
    meter = MeterWindow(context.texts, context.theme, context.icons)
    qtbot.addWidget(meter)
    meter.show()
    meter.show_snapshot(first, last)
    assert meter._speed.text() == "— T/s", "not a zero that nobody told"
    assert meter._reply.text() == "Generating\nLast reply 24.1 T/s (just now)"
    meter.show_snapshot(picture((67, 70)), last)
    assert meter._speed.text() == "24 T/s" and meter._reply.isHidden()


def test_the_first_request_of_all_is_generating_without_a_rate() -> None:
    shot = replace(picture((67, 70)), throughput=Throughput(told_at_end=True))
    assert [str(w) for w in speed_words(shot, LastKnown())] == ["Generating"]
    rest = replace(picture((1, 0)), throughput=Throughput(told_at_end=True))
    assert speed_words(rest, LastKnown()) == ()
    mute = replace(picture((67, 70)), throughput=Throughput())
    assert speed_words(mute, LastKnown()) == (), "whose metrics failed may do anything"
    later = replace(rest, throughput=Throughput(last_reply_tps=24.1, told_at_end=True, ended=ENDED))
    last = LastKnown()
    last.take(replace(later, taken_at_s=NOW_S - 600))
    last.take(later)
    assert str(speed_words(later, last)[0]).endswith("(just now)"), "as fast as before, but new"


def test_unknown_headroom_is_no_empty_bar(qtbot, context: PageContext) -> None:
    row = ServerFigures(context)
    qtbot.addWidget(row)
    row.show_figures(figures_view(picture((1, 1), kv=None), LastKnown(), None, None))
    assert row._bar.share is None and not row.isHidden()
    row.show_figures(None)
    assert row.isHidden()


# -- settling ----------------------------------------------------------------------------------


def test_an_idle_rig_settles_and_anything_new_wakes_it() -> None:
    settling = Settling()
    told = [settling.take(s) for s in stretch((0, 0), 40, **IDLE)]
    assert not any(told[:SETTLED_AFTER]) and all(told[SETTLED_AFTER:])
    assert not settling.take(picture((0, 3), at_s=NOW_S + 41, **IDLE))


def test_work_and_starts_never_settle() -> None:
    assert face(picture((67, 70))) is None
    assert face(picture((0, 0), **{**IDLE, "running": 1})) is None
    for state in (ServerState.STARTING, ServerState.LOADING, ServerState.BACKOFF):
        assert face(picture((0, 0), **IDLE, record=server(state))) is None


def test_a_heartbeat_is_no_news_but_silence_is() -> None:
    def at(seconds: float, heard: float) -> object:
        record = server(updated_at_s=NOW_S + heard, ready_at_s=NOW_S)
        return face(picture((0, 0), at_s=NOW_S + seconds, record=record, **IDLE))

    assert at(1, 1) == at(6, 6)
    assert at(59, 59) != at(61, 61), "the minute of the uptime"
    assert at(50, 0) != at(51, 0), "the age of the last word"


def test_unknown_and_zero_are_two_faces() -> None:
    unknown = replace(picture((0, 0), **IDLE), throughput=Throughput())
    assert face(unknown) != face(picture((0, 0), **IDLE))
    assert face(picture((None, 0), **IDLE)) != face(picture((0, 0), **IDLE))


# -- steady labels -----------------------------------------------------------------------------


class Counting(QWidget):
    def __init__(self) -> None:
        super().__init__()
        self.layouts = 0

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.LayoutRequest:
            self.layouts += 1
        return super().event(event)


@pytest.mark.parametrize(("kind", "asks"), [("steady", False), ("line", False), ("plain", True)])
def test_a_steady_text_asks_for_no_layout(qtbot, kind: str, asks: bool) -> None:
    window = Counting()
    label = {
        "steady": lambda: SteadyLabel("100 %", window),
        "line": lambda: SteadyLine(window),
        "plain": lambda: QLabel(window),
    }[kind]()
    QVBoxLayout(window).addWidget(label)
    qtbot.addWidget(window)
    with qtbot.waitExposed(window):
        window.show()
    label.setText("1 %")
    QApplication.processEvents()
    window.layouts = 0
    for n in range(20):
        label.setText(f"{n} %")
        QApplication.processEvents()
    assert (window.layouts > 0) is asks, "the plain label proves that the test can fail"


def test_a_steady_label_grows_for_a_longer_text(qtbot) -> None:
    label = SteadyLabel("100 %")
    qtbot.addWidget(label)
    narrow = label.width()
    label.setText("Not available at all")
    assert label.width() >= label.fontMetrics().horizontalAdvance("Not available at all") > narrow
    wide = label.width()
    label.setText("1 %")
    assert label.width() == wide, "it never shrinks: columns would jump"


# -- the keeper --------------------------------------------------------------------------------


def minutes(context: PageContext, seconds: int) -> None:
    for n in range(0, seconds, 2):
        context.live.take(picture((60, 70), at_s=NOW_S + n))


def test_minutes_are_written_once(qtbot, context, rig, bridge) -> None:
    keeper = HistoryKeeper(rig, bridge, context.live)
    minutes(context, 190)
    qtbot.waitUntil(lambda: not keeper._writing)
    context.live.take(picture((60, 70), at_s=NOW_S + 190))
    qtbot.waitUntil(lambda: len(rig.store.kept) >= 3)
    minutes_before = len(rig.store.kept)
    keeper.finish()
    assert len(rig.store.kept) > minutes_before, "the begun minute is not lost"
    starts = [m.start_s for m in rig.store.kept]
    assert len(set(starts)) == len(starts)


def test_a_full_disk_loses_no_minute(qtbot, context, rig, bridge) -> None:
    keeper = HistoryKeeper(rig, bridge, context.live)
    rig.store.error = HostError(message("The history cannot be used."))
    minutes(context, 130)
    qtbot.waitUntil(lambda: not keeper._writing and context.live.history.has_pending)
    rig.store.error = None
    keeper.finish()
    assert len(rig.store.kept) == 3


def test_what_was_written_to_a_new_file_is_not_written_twice(qtbot, context, rig, bridge) -> None:
    keeper = HistoryKeeper(rig, bridge, context.live)
    rig.store.error = DamagedFileError(message("The history was damaged; a new one was begun."))
    minutes(context, 62)
    qtbot.waitUntil(lambda: not keeper._writing)
    assert not context.live.history.has_pending


def test_an_end_without_a_disk_does_not_stop_the_end(context, rig, bridge, caplog) -> None:
    keeper = HistoryKeeper(rig, bridge, context.live)
    rig.store.error = HostError(message("The history cannot be used."))
    minutes(context, 10)
    keeper.finish()
    assert rig.store.kept == []
    assert "was not written: The history cannot be used." in caplog.text


# -- the meter ---------------------------------------------------------------------------------


def meter(qtbot, context: PageContext) -> MeterWindow:
    window = MeterWindow(context.texts, context.theme, context.icons, context.settings)
    qtbot.addWidget(window)
    return window


def test_the_meter_comes_back_where_it_was(qtbot, context) -> None:
    first = meter(qtbot, context)
    first.show()
    first.move(123, 87)
    first.resize(first.width() + 60, first.height())
    first.remember()
    second = meter(qtbot, context)
    second.restore()
    assert second.isVisible()
    assert (second.pos(), second.width()) == (first.pos(), first.width())


def test_a_closed_meter_stays_closed(qtbot, context) -> None:
    first = meter(qtbot, context)
    first.show()
    first.hide()
    first.remember()
    second = meter(qtbot, context)
    second.restore()
    assert not second.isVisible()

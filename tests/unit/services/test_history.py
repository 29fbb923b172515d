"""History: the ring, minutes, events, energy; nothing is made up and nothing grows for ever."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path

import pytest

from fixtures.pictures import NOW_S, picture, server
from twinrig.domain.metrics import Ended, Snapshot, Throughput
from twinrig.domain.server import ServerState
from twinrig.services.history import (
    PENDING_MINUTES,
    CardPoint,
    Event,
    History,
    Minute,
    events_between,
    merged,
    minute_of,
)
from twinrig.services.history_csv import csv_text
from twinrig.services.history_store import HistoryStore

S = ServerState


def fed(seconds: int, **changes) -> History:
    history = History()
    for n in range(seconds):
        history.take(picture((60, 70), at_s=NOW_S + n, **changes))
    return history


def test_the_ring_holds_a_quarter_of_an_hour() -> None:
    history = fed(1200)
    points = history.points()
    assert len(points) == 901 and points[-1].at_s == NOW_S + 1199
    assert [p.at_s for p in history.points(NOW_S + 1198)] == [NOW_S + 1198, NOW_S + 1199]
    assert points[0].cards[0].load == 60 and points[0].generation_tps == 24.0


def test_a_repeated_snapshot_is_no_reading() -> None:
    history = fed(3)
    assert history.take(picture((9, 9), at_s=NOW_S + 2)) is None
    assert len(history.points()) == 3


def test_a_clock_that_was_set_back_starts_afresh() -> None:
    history = fed(30)
    assert history.take(picture((9, 9), at_s=NOW_S - 3600)) is not None
    assert len(history.points()) == 1 and history.points()[0].step_s == 0.0


def test_stale_and_missing_values_are_unknown_not_repeated() -> None:
    history = History()
    history.take(picture((60, 70), at_s=NOW_S, tps=None, prompt=None, cards=({"stale": True}, {})))
    point = history.points()[0]
    assert point.cards[0] == CardPoint("GPU-0") and point.cards[1].load == 70
    assert point.generation_tps is None and point.generation_tokens is None


def test_minutes_are_sums_and_means_on_the_clocks_minutes() -> None:
    start = NOW_S // 60 * 60
    history = History()
    for n in range(121):
        history.take(picture((n % 60, 70), at_s=start + n, tps=10.0, prompt=2.0))
    minutes, events = history.take_pending()
    assert [m.start_s for m in minutes] == [start, start + 60] and events == []
    assert minutes[1].seconds == 60.0
    assert minutes[1].generation_tokens == pytest.approx(600.0)
    assert minutes[1].prompt_tokens == pytest.approx(120.0)
    assert minutes[1].cards[0].load == pytest.approx(29.5)
    assert minutes[1].cards[1].power_w == pytest.approx(150.0)
    assert not history.has_pending
    rest, _ = history.take_pending(all_of_it=True)
    assert [m.start_s for m in rest] == [start + 120]


def test_tokens_of_a_gap_count_once_with_their_real_span() -> None:
    history = fed(2)
    late = picture((60, 70), at_s=NOW_S + 6)
    history.take(replace(late, throughput=Throughput(10.0, 0.0, 1, 0, 0.2, 5.0)))
    assert history.points()[-1].generation_tokens == pytest.approx(50.0)


def test_a_long_sleep_is_no_time_at_work() -> None:
    history = fed(2)
    history.take(picture((60, 70), at_s=NOW_S + 4000))
    assert history.points()[-1].step_s == 0.0
    assert history.energy_j == pytest.approx(0.0)


def test_energy_is_power_times_time() -> None:
    assert fed(11).energy_j == pytest.approx(2 * 150.0 * 10)
    assert fed(11, power_w=None).energy_j is None
    assert fed(11).generated_tokens == pytest.approx(11 * 24.0)
    long = fed(2000)
    assert long.energy_j == pytest.approx(2 * 150.0 * 901), "what left the ring is taken off"
    assert long.generated_tokens == pytest.approx(901 * 24.0)


def test_what_could_not_be_written_waits_and_is_bounded() -> None:
    history = fed(600)
    minutes, events = history.take_pending()
    history.give_back(minutes, events)
    assert history.take_pending() == (minutes, events)
    history.give_back([Minute(60.0 * n, 60, ()) for n in range(500)], [])
    assert len(history.take_pending()[0]) == PENDING_MINUTES


@pytest.mark.parametrize(
    ("old", "new", "kinds"),
    [
        (S.STOPPED, S.STARTING, ("start",)),
        (S.STARTING, S.LOADING, ()),
        (S.LOADING, S.READY, ("ready",)),
        (S.READY, S.DEGRADED, ()),
        (S.DEGRADED, S.READY, ()),
        (S.READY, S.BACKOFF, ("crash",)),
        (S.BACKOFF, S.STARTING, ("start",)),
        (S.BACKOFF, S.FAILED, ("failed",)),
        (S.READY, S.STOPPING, ()),
        (S.STOPPING, S.STOPPED, ("stop",)),
        (S.FAILED, S.STOPPED, ()),
        (S.SLEEPING, S.READY, ("ready",)),
    ],
)
def test_events_follow_the_states(old: S, new: S, kinds: tuple[str, ...]) -> None:
    assert events_between(server(old), server(new)) == kinds


def test_what_was_so_at_first_is_no_event() -> None:
    history = History()
    history.take(picture((0, 0), at_s=NOW_S, record=server(S.READY)))
    assert history.events() == []
    history.take(picture((0, 0), at_s=NOW_S + 1, record=server(S.BACKOFF)))
    assert history.events() == [Event(NOW_S + 1, "crash", "qwen")]


def test_events_are_told_once_and_in_order() -> None:
    history = fed(3)
    fix = Event(NOW_S - 5, "fix", "Allow pidfd_getfd")
    history.add_event(Event(NOW_S + 1, "start"))
    history.add_event(fix, store=False)
    history.add_event(fix, store=False)
    assert [e.kind for e in history.events()] == ["fix", "start"]
    assert history.events(NOW_S) == [Event(NOW_S + 1, "start")]
    assert history.take_pending()[1] == [Event(NOW_S + 1, "start")], "fixes have a journal"


def test_two_parts_of_a_minute_become_one() -> None:
    one = Minute(0.0, 20.0, (CardPoint("a", 90.0), CardPoint("b", 5.0)), 200.0, None, 0.5)
    two = Minute(0.0, 10.0, (CardPoint("a", 60.0),), 100.0, 7.0, None)
    both = merged(one, two)
    assert (both.seconds, both.generation_tokens, both.prompt_tokens) == (30.0, 300.0, 7.0)
    assert both.cards[0].load == pytest.approx(80.0) and both.cards[1].load == 5.0
    assert both.kv_cache_usage == 0.5


def test_csv_has_a_column_for_everything_and_empty_for_unknown() -> None:
    history = fed(2)
    history.take(picture((None, 70), at_s=NOW_S + 2, tps=None, prompt=None, kv=None))
    rows = list(csv.DictReader(io.StringIO(csv_text(history.points()))))
    assert rows[0]["time_utc"] == "2027-01-15T08:00:00.000+00:00"
    assert rows[1]["seconds"] == "1" and rows[1]["generation_tps"] == "24"
    assert rows[1]["gpu0_load_percent"] == "60" and rows[1]["gpu1_power_w"] == "150"
    assert rows[2]["gpu0_load_percent"] == "" and rows[2]["generation_tps"] == ""
    minute = minute_of(history.points())
    told = next(csv.DictReader(io.StringIO(csv_text([minute]))))
    assert told["seconds"] == "2" and told["generation_tps"] == "24"
    assert csv_text([]).count("\n") == 1


def test_a_day_of_readings_in_fast_motion_does_not_grow() -> None:
    import tracemalloc

    history = History()
    frame = picture((60, 70))

    def hours(first: int, last: int) -> None:
        for n in range(first * 900, last * 900):  # every fourth second
            history.take(replace(frame, taken_at_s=NOW_S + 4 * n))
            if history.has_pending:
                history.take_pending()

    hours(0, 1)
    tracemalloc.start()
    hours(1, 2)
    before = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    tracemalloc.start()
    hours(2, 3)
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert abs(after - before) < 300_000 and len(history.points()) <= 226


# -- replies that are told at their end --------------------------------------------------------


def told_at_end(at_s: float, ended: Ended | None = None) -> Snapshot:
    shot = picture((60, 61), tps=None, prompt=None, running=None, at_s=at_s)
    return replace(shot, throughput=Throughput(told_at_end=True, ended=ended))


def test_a_reply_is_a_bar_over_its_own_time() -> None:
    history = History()
    for n in range(30):
        history.take(told_at_end(NOW_S + n))
    history.take(told_at_end(NOW_S + 30, Ended(1, 240.0, 10.0)))
    rates = {p.at_s - NOW_S: p.generation_tps for p in history.points()}
    assert {n for n, rate in rates.items() if rate is not None} == set(range(21, 31))
    assert all(rates[n] == pytest.approx(24.0) for n in range(21, 31))
    assert rates[20] is None, "nothing is known of before: no zero"
    assert history.generated_tokens == pytest.approx(240.0)


def test_two_bars_at_the_same_time_add_up_and_half_a_second_is_half_a_bar() -> None:
    history = History()
    for n in range(20):
        history.take(told_at_end(NOW_S + n))
    history.take(told_at_end(NOW_S + 20, Ended(1, 100.0, 10.0)))
    history.take(told_at_end(NOW_S + 21, Ended(1, 35.0, 3.5)))
    rates = {p.at_s - NOW_S: p.generation_tps for p in history.points()}
    assert (rates[17], rates[18], rates[19], rates[21]) == pytest.approx((10.0, 15.0, 20.0, 10.0))


def test_tokens_of_a_closed_minute_reach_the_store_once(tmp_path: Path) -> None:
    """A reply of three minutes, told in the fourth: minutes that were written are added to."""
    history, store = History(), HistoryStore(tmp_path / "history.sqlite3")
    start_s = NOW_S // 60 * 60
    for n in range(240):
        history.take(told_at_end(start_s + n))
        if n % 60 == 30:
            store.write(*history.take_pending())
    history.take(told_at_end(start_s + 240, Ended(1, 1800.0, 180.0)))
    store.write(*history.take_pending(all_of_it=True))
    kept = {m.start_s - start_s: m.generation_tokens for m in store.minutes(0)}
    assert sum(value or 0.0 for value in kept.values()) == pytest.approx(1800.0)
    assert kept[120] == pytest.approx(600.0) and not kept[0]


def test_a_reply_that_began_before_the_panel_counts_what_was_seen() -> None:
    history = History()
    for n in range(5):
        history.take(told_at_end(NOW_S + n))
    history.take(told_at_end(NOW_S + 5, Ended(1, 1000.0, 100.0)))
    assert history.generated_tokens == pytest.approx(50.0)

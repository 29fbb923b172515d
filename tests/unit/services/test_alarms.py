"""Alarms: told when they last, once per episode, and again only after they were really gone."""

from __future__ import annotations

from fixtures.pictures import GIB, NOW_S, picture, server
from twinrig.domain.server import ServerState
from twinrig.messages import message
from twinrig.services.alarms import CLEAR_S, HOLD_S, Alarms
from twinrig.services.verdict_words import Verdict

CALM = Verdict("together", message("Both cards work together."), "ok")
STUCK = Verdict("stuck", message("Stuck."), "fail")
SPILL = Verdict("spill", message("Spilling."), "fail")


def told(alarms: Alarms, judged: Verdict, first: float, last: float, **changes) -> list[str]:
    kinds = []
    for n in range(round(first), round(last)):
        alarm = alarms.take(picture((50, 50), at_s=NOW_S + n, **changes), judged)
        if alarm is not None:
            kinds.append(alarm.kind)
    return kinds


def hot(degrees: int) -> dict:
    return {"cards": ({"temperature_c": degrees}, {})}


def test_nothing_happens_when_all_is_well() -> None:
    assert told(Alarms(), CALM, 0, 200) == []
    assert told(Alarms(), CALM, 0, 200, **hot(89)) == []


def test_stuck_is_told_at_once_and_only_once() -> None:
    assert told(Alarms(), STUCK, 0, 600) == ["stuck"]


def test_heat_must_last_and_is_told_once_however_long() -> None:
    alarms = Alarms()
    assert told(alarms, CALM, 0, HOLD_S["hot"], **hot(93)) == []
    assert told(alarms, CALM, HOLD_S["hot"], 5000, **hot(93)) == ["hot"]


def test_flicker_is_one_episode() -> None:
    alarms = Alarms()
    kinds = []
    for n in range(0, 600, 30):
        kinds += told(alarms, SPILL, n, n + 15)
        kinds += told(alarms, CALM, n + 15, n + 30)
    assert kinds == ["spill"]


def test_short_peaks_never_add_up() -> None:
    alarms = Alarms()
    for n in range(0, 300, 20):
        assert told(alarms, CALM, n, n + 3, **hot(95)) == []
        assert told(alarms, CALM, n + 3, n + 20) == []


def test_after_a_real_pause_it_is_news_again() -> None:
    alarms = Alarms()
    assert told(alarms, STUCK, 0, 50) == ["stuck"]
    assert told(alarms, CALM, 50, 50 + CLEAR_S - 2) == []
    assert told(alarms, STUCK, 50 + CLEAR_S - 2, 120) == [], "not gone long enough"
    assert told(alarms, CALM, 120, 122 + CLEAR_S) == []
    assert told(alarms, STUCK, 122 + CLEAR_S, 200) == ["stuck"]


def test_two_kinds_are_told_one_after_the_other() -> None:
    kinds = told(Alarms(), STUCK, 0, 30, **hot(95))
    assert kinds == ["stuck", "hot"]


def test_green_health_without_completions_is_told_with_its_reason() -> None:
    tired = server(ServerState.DEGRADED, degraded_reason=message("No reply for 120 s."))
    alarm = Alarms().take(picture((9, 9), record=tired), CALM)
    assert alarm is not None and str(alarm.text) == "No reply for 120 s."


def test_a_stale_temperature_is_no_heat() -> None:
    stale = {"cards": ({"temperature_c": 99, "stale": True}, {})}
    assert told(Alarms(), CALM, 0, 60, **stale) == []


def test_a_clock_set_back_is_no_endless_episode() -> None:
    alarms = Alarms()
    assert told(alarms, STUCK, 5000, 5010) == ["stuck"]
    assert told(alarms, STUCK, 0, 10) == ["stuck"]


def test_memory_that_stays_in_ram_between_requests_is_told_once() -> None:
    alarms, over = Alarms(), {"cards": ({"shared_used_bytes": 2 * GIB}, {})}
    assert told(alarms, SPILL, 0, 30, **over) == ["spill"]
    assert told(alarms, CALM, 30, 400, **over) == [], "idle: nothing new"
    assert told(alarms, SPILL, 400, 430, **over) == []
    assert told(alarms, CALM, 430, 432 + CLEAR_S) == [], "given back"
    assert told(alarms, SPILL, 432 + CLEAR_S, 600, **over) == ["spill"]

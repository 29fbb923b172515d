"""The verdict sentence: right, plain, and honest about what is not known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from qt.panel_rig import NOW_S, loading_record, record, sample, snapshot
from twinrig.domain.metrics import Snapshot, Throughput
from twinrig.domain.server import ServerState
from twinrig.domain.supervision import Failure
from twinrig.messages import message
from twinrig.qt.viewmodels.verdict import ENOUGH, WINDOW, verdict


def busy(loads: tuple[int | None, ...], count: int = WINDOW) -> list[Snapshot]:
    return [snapshot(record(), loads) for _ in range(count)]


def said(recent: list[Snapshot]) -> tuple[str, str]:
    result = verdict(recent)
    return result.kind, str(result.text)


def test_before_the_first_reading() -> None:
    assert said([]) == ("muted", "Waiting for the first reading.")


def test_no_server() -> None:
    assert said([snapshot(None)]) == ("muted", "No server is running.")
    assert said([snapshot(record(ServerState.STOPPED))])[1] == "No server is running."


@pytest.mark.parametrize("state", [s for s in ServerState if s is not ServerState.READY])
def test_every_other_state_has_its_sentence(state: ServerState) -> None:
    kind, text = said([snapshot(record(state))])
    assert text and kind in ("muted", "busy", "warn", "fail")
    assert "cards work" not in text


def test_loading_is_not_judged() -> None:
    assert said([snapshot(loading_record())])[0] == "busy"


def test_a_failure_tells_its_cause() -> None:
    failure = Failure(message("Port 8000 is taken."), message("Choose another."))
    server = record(ServerState.FAILED, failure=failure)
    assert said([snapshot(server)]) == ("fail", "Port 8000 is taken.")


def test_both_cards_work() -> None:
    assert said(busy((63, 61))) == ("ok", "All cards work (load 63 %, 61 %).")


def test_one_card_idles() -> None:
    kind, text = said(busy((95, 2)))
    assert kind == "warn"
    assert text == "Only GPU 0 works; the others are idle (load 95 %, 2 %)."
    assert "Only GPU 1 works" in said(busy((0, 80)))[1]


def test_in_between_is_not_explained_away() -> None:
    for loads in ((60, 15), (12, 14), (5, 4)):
        kind, text = said(busy(loads))
        assert kind == "muted" and "Cannot tell why" in text, loads


def test_unknown_load_is_cannot_tell_not_idle() -> None:
    kind, text = said(busy((80, None)))
    assert kind == "muted" and text.startswith("The server generates. Cannot tell")


def test_stale_readings_do_not_count() -> None:
    pictures = [
        replace(picture, samples=(sample(0, 80), sample(1, 80, stale=True)))
        for picture in busy((80, 80))
    ]
    assert "Cannot tell" in said(pictures)[1]


def test_one_visible_card_is_told() -> None:
    assert said(busy((90,)))[0] == "warn"
    assert "fewer than two cards" in said(busy((90,)))[1]


def test_too_few_readings_are_watched_first() -> None:
    assert said(busy((63, 61), ENOUGH - 1))[0] == "busy"
    assert said(busy((63, 61), ENOUGH))[0] == "ok"


def test_idle_and_unknown_differ() -> None:
    idle = snapshot(record(), loads=(0, 0), tps=0.0, running=0)
    assert said([idle]) == ("ok", "Ready and idle: no request is running.")
    mute = replace(idle, throughput=Throughput())
    assert said([mute])[1] == "Ready. Cannot tell how busy: the server gives no figures."


def test_idle_seconds_before_do_not_dilute_the_loads() -> None:
    idle = snapshot(record(), loads=(0, 0), tps=0.0, running=0)
    assert said([idle] * 5 + busy((60, 60), 5))[1] == "All cards work (load 60 %, 60 %)."


def test_only_the_last_readings_count() -> None:
    assert said(busy((95, 1), 50) + busy((60, 60), WINDOW))[0] == "ok"


def test_a_silent_supervisor_is_cannot_tell() -> None:
    picture = snapshot(record(updated_at_s=NOW_S - 45))
    assert said([picture] * 10) == (
        "warn",
        "Cannot tell: the supervisor has not reported for 45 s.",
    )

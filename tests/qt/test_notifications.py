"""Notices: news only, and not too often."""

from __future__ import annotations

from dataclasses import replace

import pytest

from qt.panel_rig import loading_record, record, snapshot
from twinrig.domain.server import ServerState
from twinrig.domain.supervision import Failure
from twinrig.messages import message
from twinrig.qt.notifications import Notices
from twinrig.services.verdict_words import Verdict


class Watch:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
def notices(watch: Watch) -> Notices:
    return Notices(watch)


LOADING, READY = snapshot(loading_record()), snapshot(record())
FAILED = snapshot(
    record(
        ServerState.FAILED,
        failure=Failure(message("The port 8000 is taken."), message("Choose another.")),
    )
)
STOPPED = snapshot(record(ServerState.STOPPED))


def test_what_was_so_at_the_start_is_no_news(notices: Notices) -> None:
    assert notices.take(READY) is None
    assert notices.take(READY) is None


def test_getting_ready_is_news_with_model_and_address(notices: Notices) -> None:
    notices.take(LOADING)
    notice = notices.take(READY)
    assert notice is not None and notice.kind == "ready"
    assert str(notice.text) == "Qwen3.6-27B answers at http://127.0.0.1:8000/v1"


def test_a_failure_tells_its_reason(notices: Notices) -> None:
    notices.take(LOADING)
    notice = notices.take(FAILED)
    assert notice is not None and notice.kind == "failed"
    assert str(notice.text) == "The port 8000 is taken."


def test_a_restart_is_told_as_such(notices: Notices) -> None:
    notices.take(READY)
    notice = notices.take(snapshot(record(ServerState.BACKOFF)))
    assert notice is not None
    assert str(notice.title) == "The server ended and is started again"
    assert str(notice.text) == "Open Twinrig to see the log."


def test_once_a_minute_per_kind(notices: Notices, watch: Watch) -> None:
    notices.take(LOADING)
    assert notices.take(READY) is not None
    watch.now_s += 30
    notices.take(LOADING)
    assert notices.take(READY) is None, "30 s later"
    assert notices.take(FAILED) is not None, "another kind"
    watch.now_s += 31
    notices.take(LOADING)
    assert notices.take(READY) is not None, "61 s later"


def test_recovering_and_stopping_are_quiet(notices: Notices) -> None:
    notices.take(snapshot(record(ServerState.DEGRADED)))
    assert notices.take(READY) is None
    assert notices.take(STOPPED) is None
    assert notices.take(replace(STOPPED, server=None)) is None


def test_an_alarm_is_told_once_and_never_beside_news(notices: Notices) -> None:
    stuck = Verdict("stuck", message("Stuck: no token for 30 s."), "fail")
    notices.take(LOADING)
    ready = notices.take(READY, stuck)
    assert ready is not None and ready.kind == "ready"
    told = [notices.take(replace(READY, taken_at_s=READY.taken_at_s + n), stuck) for n in range(99)]
    kinds = [notice.kind for notice in told if notice is not None]
    assert kinds in ([], ["stuck"]) and len(kinds) <= 1


def test_a_stuck_server_is_told_with_its_sentence(notices: Notices) -> None:
    stuck = Verdict("stuck", message("Stuck: no token for 30 s."), "fail")
    notice = notices.take(READY, stuck)
    assert notice is not None and str(notice.text) == "Stuck: no token for 30 s."
    assert notices.take(replace(READY, taken_at_s=READY.taken_at_s + 1), stuck) is None

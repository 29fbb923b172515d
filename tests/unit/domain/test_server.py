"""The transition table, looked at as a whole."""

from __future__ import annotations

import itertools

import pytest

from twinrig.domain.server import (
    ACTIVE_STATES,
    ANSWERING_STATES,
    TRANSITIONS,
    Phase,
    ServerState,
    may_follow,
)
from twinrig.domain.wording import GROUP_WORDS, PHASE_WORDS, STATE_WORDS, STATUS_WORDS

S = ServerState
ALLOWED = {
    "stopped": "starting failed",
    "starting": "loading ready backoff stopping failed",
    "loading": "ready backoff stopping failed",
    "ready": "degraded sleeping backoff stopping failed",
    "degraded": "ready sleeping backoff stopping failed",
    "backoff": "starting stopped failed",
    "sleeping": "loading backoff stopping failed",
    "stopping": "stopped starting failed",
    "failed": "starting stopped",
}


@pytest.mark.parametrize(("current", "following"), list(itertools.product(S, S)))
def test_every_pair_is_as_written_down(current: S, following: S) -> None:
    expected = current == following or following.value in ALLOWED[current.value].split()
    assert may_follow(current, following) is expected


def test_every_state_has_a_row_and_a_way_in_and_out() -> None:
    assert set(TRANSITIONS) == set(S)
    assert all(TRANSITIONS[state] for state in S)
    assert set().union(*TRANSITIONS.values()) == set(S)


def test_a_server_that_serves_cannot_fall_back_into_loading() -> None:
    assert not may_follow(S.READY, S.LOADING)
    assert not may_follow(S.READY, S.STARTING)


def test_a_stop_passes_through_stopping_while_a_process_lives() -> None:
    living = ACTIVE_STATES - {S.BACKOFF, S.STOPPING}
    assert all(not may_follow(state, S.STOPPED) for state in living)
    assert all(may_follow(state, S.STOPPING) for state in living)


def test_active_states_are_all_but_the_two_at_rest() -> None:
    assert set(S) - ACTIVE_STATES == {S.STOPPED, S.FAILED}
    assert ANSWERING_STATES <= ACTIVE_STATES


def test_from_every_state_a_new_start_can_be_reached() -> None:
    for state in S:
        reached, more = {state}, {state}
        while more:
            more = set().union(*(TRANSITIONS[s] for s in more)) - reached
            reached |= more
        assert S.STARTING in reached


def test_every_word_of_the_enumerations_is_there() -> None:
    from twinrig.domain.checks import Status
    from twinrig.domain.options import OptionGroup

    assert set(STATE_WORDS) == set(S)
    assert set(PHASE_WORDS) == set(Phase)
    assert set(STATUS_WORDS) == set(Status)
    assert set(GROUP_WORDS) == set(OptionGroup)
    words = [*STATE_WORDS.values(), *STATUS_WORDS.values()]
    assert len(set(words)) == len(words)

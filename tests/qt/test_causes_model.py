"""Turning from one cause to the next."""

from __future__ import annotations

from twinrig.domain.supervision import Candidate, Failure
from twinrig.messages import message
from twinrig.qt.viewmodels.causes import Causes

OTHERS = (
    Candidate(
        "b", message("B."), message("Do b."), "medium", "line b", 7, (("x", "1"),), ("fix-b",)
    ),
    Candidate("c", message("C."), message("Do c.")),
)
FAILURE = Failure(message("A."), message("Do a."), "a", "high", "line a", 9, others=OTHERS)


def test_turning_goes_round() -> None:
    causes = Causes()
    causes.show(FAILURE)
    seen = []
    for _ in range(4):
        assert causes.current is not None
        seen.append((causes.number, causes.current.finding_id))
        causes.turn()
    assert seen == [(1, "a"), (2, "b"), (3, "c"), (1, "a")]
    assert causes.count == 3 and causes.decisive_lines() == (7, 9)


def test_a_candidate_carries_what_a_fix_needs() -> None:
    causes = Causes()
    causes.show(FAILURE)
    causes.turn()
    current = causes.current
    assert current is not None
    assert (current.fixes, current.params, current.log_line_no) == (("fix-b",), (("x", "1"),), 7)


def test_the_same_failure_stays_where_it_was_and_another_begins_anew() -> None:
    causes = Causes()
    causes.show(FAILURE)
    causes.turn()
    causes.show(Failure(message("A."), message("Do a."), "a", "high", "line a", 9, others=OTHERS))
    assert causes.number == 2
    causes.show(Failure(message("Z."), message("Do z.")))
    assert causes.number == 1 and causes.count == 1
    causes.turn()
    assert causes.number == 1
    causes.show(None)
    assert causes.current is None and causes.count == 0 and causes.decisive_lines() == ()

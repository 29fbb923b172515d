"""The sample ring: an even time grid with honest gaps."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinrig.qt.widgets.ring import SampleRing, nice_maximum


def test_one_slot_per_interval() -> None:
    ring = SampleRing(2, 10, 1.0)
    assert [ring.append(t, (t, None)) for t in (0.0, 1.0, 2.05, 2.95)] == [1, 1, 1, 1]
    assert ring.last(10) == [(0.0, None), (1.0, None), (2.05, None), (2.95, None)]


def test_half_rate_is_bridged_by_a_straight_line() -> None:
    ring = SampleRing(1, 10, 1.0)
    ring.append(0.0, (10.0,))
    assert ring.append(2.0, (20.0,)) == 2
    assert ring.last(10) == [(10.0,), (15.0,), (20.0,)]


def test_nothing_is_bridged_from_or_to_a_gap() -> None:
    ring = SampleRing(2, 10, 1.0)
    ring.append(0.0, (None, 5.0))
    ring.append(2.0, (20.0, None))
    assert ring.last(10) == [(None, 5.0), (None, None), (20.0, None)]


def test_a_long_silence_stays_a_gap() -> None:
    ring = SampleRing(1, 10, 1.0)
    ring.append(0.0, (10.0,))
    assert ring.append(4.0, (10.0,)) == 4
    assert ring.last(10) == [(10.0,), (None,), (None,), (None,), (10.0,)]


def test_a_night_of_sleep_fills_the_ring_at_most() -> None:
    ring = SampleRing(1, 10, 1.0)
    ring.append(0.0, (10.0,))
    assert ring.append(30_000.0, (11.0,)) == 10
    assert ring.last(99) == [(None,)] * 9 + [(11.0,)]


def test_a_clock_that_goes_back_still_adds_one() -> None:
    ring = SampleRing(1, 10, 1.0)
    ring.append(100.0, (1.0,))
    assert ring.append(50.0, (2.0,)) == 1
    assert len(ring) == 2


def test_missing_values_of_a_short_row_are_gaps() -> None:
    ring = SampleRing(3, 4, 1.0)
    ring.append(0.0, (1.0,))
    assert ring.last(1) == [(1.0, None, None)]


@pytest.mark.parametrize(
    ("value", "top"), [(0, 10), (10, 10), (10.1, 20), (21, 50), (51, 100), (101, 200), (450, 500)]
)
def test_nice_maximum(value: float, top: float) -> None:
    assert nice_maximum(value) == top


@given(st.floats(0, 1e9))
def test_nice_maximum_holds_the_value_without_waste(value: float) -> None:
    top = nice_maximum(value)
    assert top >= value
    assert top == 10 or top <= 2.5 * value

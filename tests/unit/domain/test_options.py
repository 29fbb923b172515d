"""Conversion and limits of settings, by example and by property."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinrig.domain.options import Option, OptionGroup, OptionKind


def option(kind: OptionKind, **more: Any) -> Option:
    return Option("x", "x", kind, OptionGroup.MODEL, "X", "Help.", **more)


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(min_value=10**350, max_value=10**400)
    | st.floats()
    | st.text()
    | st.binary()
    | st.dates(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner),
    max_leaves=5,
)
kinds = st.sampled_from(OptionKind)
bounds = st.none() | st.integers(-(10**6), 10**6)


@given(
    kinds, anything, bounds, bounds, st.none() | st.integers(1, 64), st.lists(st.text(max_size=2))
)
def test_any_value_gives_a_value_or_a_fault_but_never_both(
    kind: OptionKind,
    value: object,
    low: int | None,
    high: int | None,
    step: int | None,
    choices: list[str],
) -> None:
    row = option(kind, minimum=low, maximum=high, multiple_of=step, choices=tuple(choices))
    converted, fault = row.check(value)
    assert (converted is None) != (fault is None)
    if fault is not None:
        assert str(fault)
        return
    if kind is OptionKind.BOOL:
        assert converted is value
    if kind in (OptionKind.INT, OptionKind.FLOAT):
        assert type(converted) is (int if kind is OptionKind.INT else float)
        assert low is None or converted >= low
        assert high is None or converted <= high
        assert math.isfinite(converted) if isinstance(converted, float) else True
    if kind is OptionKind.INT and step is not None:
        assert converted % step == 0
    if kind is OptionKind.CHOICE:
        assert converted in choices
    if kind is OptionKind.LIST:
        assert isinstance(converted, tuple)


@given(kinds, anything)
def test_what_was_converted_converts_to_itself(kind: OptionKind, value: object) -> None:
    converted, fault = option(kind, free_text=True).check(value)
    if fault is None:
        assert option(kind, free_text=True).check(converted) == (converted, None)


@pytest.mark.parametrize(
    ("kind", "value", "converted"),
    [
        (OptionKind.INT, 8192, 8192),
        (OptionKind.INT, 8192.0, 8192),
        (OptionKind.INT, 10**30, 10**30),
        (OptionKind.FLOAT, 1, 1.0),
        (OptionKind.FLOAT, 0.9, 0.9),
        (OptionKind.BOOL, False, False),
        (OptionKind.TEXT, "", ""),
        (OptionKind.JSON, '{"a": 1}', '{"a": 1}'),
        (OptionKind.LIST, ["a", "b"], ("a", "b")),
        (OptionKind.LIST, [], ()),
    ],
)
def test_right_values(kind: OptionKind, value: object, converted: object) -> None:
    found, fault = option(kind).check(value)
    assert fault is None
    assert found == converted
    assert type(found) is type(converted)


@pytest.mark.parametrize(
    ("kind", "value", "says"),
    [
        (OptionKind.INT, True, "must be a number, not True"),
        (OptionKind.INT, "8192", "must be a number, not '8192'"),
        (OptionKind.INT, 1.5, "must be a whole number, not 1.5"),
        (OptionKind.INT, math.inf, "must be a whole number, not inf"),
        (OptionKind.INT, None, "must be a number, not None"),
        (OptionKind.FLOAT, math.nan, "must be a number, not nan"),
        (OptionKind.FLOAT, -math.inf, "must be a number, not -inf"),
        (OptionKind.FLOAT, 10**400, "must be a number"),
        (OptionKind.BOOL, 1, "must be true or false, not 1"),
        (OptionKind.BOOL, "yes", "must be true or false, not 'yes'"),
        (OptionKind.TEXT, 8, "must be text in quotes, not 8"),
        (OptionKind.LIST, "a b", "must be a list of texts, not 'a b'"),
        (OptionKind.LIST, ["a", 1], "must be a list of texts"),
    ],
)
def test_wrong_values_are_named(kind: OptionKind, value: object, says: str) -> None:
    found, fault = option(kind).check(value)
    assert found is None
    assert says in str(fault)


def test_limits_are_inclusive() -> None:
    row = option(OptionKind.FLOAT, minimum=0.05, maximum=1.0)
    assert row.check(0.05) == (0.05, None)
    assert row.check(1) == (1.0, None)
    assert str(row.check(1.01)[1]) == "must be at most 1.0, not 1.01"
    assert str(row.check(0)[1]) == "must be at least 0.05, not 0.0"


def test_steps_are_kept() -> None:
    row = option(OptionKind.INT, multiple_of=16)
    assert row.check(32) == (32, None)
    assert row.check(0) == (0, None)
    assert str(row.check(33)[1]) == "must be a multiple of 16, not 33"


def test_choices_bind_unless_the_text_is_free() -> None:
    bound = option(OptionKind.CHOICE, choices=("auto", "fp8"))
    assert bound.check("fp8") == ("fp8", None)
    assert str(bound.check("FP8")[1]) == "must be one of auto, fp8, not FP8"
    free = option(OptionKind.CHOICE, choices=("auto",), free_text=True)
    assert free.check("anything") == ("anything", None)

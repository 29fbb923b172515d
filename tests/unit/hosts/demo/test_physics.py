"""The simulated cards behave as people report of real ones."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinrig.hosts.demo.models import LARGE, SMALL
from twinrig.hosts.demo.physics import (
    CARD_TOTAL_BYTES,
    GIB,
    IDLE_USED_BYTES,
    Card,
    Split,
    alternating_percent,
    busy_percent,
    memory_of,
    split_of,
    step_s,
)


def speed_tps(split: Split, count: int) -> float:
    return count / step_s(split, count, 0)


def test_one_stream_under_tensor_parallel_makes_about_41_tokens_a_second() -> None:
    assert speed_tps(Split.TENSOR, 1) == pytest.approx(41, abs=0.5)
    assert busy_percent(Split.TENSOR, 1, False) == (67.0, 70.0)


def test_a_layer_split_is_slower_for_one_stream() -> None:
    assert 0.5 < speed_tps(Split.LAYER, 1) / speed_tps(Split.TENSOR, 1) < 0.6


@pytest.mark.parametrize("split", list(Split))
def test_batches_scale_but_less_than_linearly(split: Split) -> None:
    speeds = [speed_tps(split, count) for count in range(1, 33)]
    assert speeds == sorted(speeds)
    for count, speed in enumerate(speeds[1:], 2):
        assert speed < count * speeds[0]
    each = [speed / count for count, speed in enumerate(speeds, 1)]
    assert each == sorted(each, reverse=True)


def test_eight_streams_make_more_than_four_times_one() -> None:
    assert 4 < speed_tps(Split.TENSOR, 8) / speed_tps(Split.TENSOR, 1) < 8


def test_reading_prompts_is_much_faster_than_writing() -> None:
    assert 1000 / step_s(Split.TENSOR, 0, 1000) > 30 * speed_tps(Split.TENSOR, 1)


def test_a_smaller_model_is_faster() -> None:
    weight = SMALL.weights_bytes / LARGE.weights_bytes
    assert step_s(Split.TENSOR, 1, 0, weight) < 0.5 * step_s(Split.TENSOR, 1, 0)


@pytest.mark.parametrize("split", list(Split))
@pytest.mark.parametrize("prefill", [False, True])
@pytest.mark.parametrize("count", [0, 1, 4, 64])
def test_utilisation_is_a_percentage(split: Split, prefill: bool, count: int) -> None:
    for percent in busy_percent(split, count, prefill):
        assert 0 <= percent <= 100


def test_utilisation_grows_with_the_batch() -> None:
    first = [busy_percent(Split.TENSOR, count, False)[0] for count in range(1, 20)]
    assert first == sorted(first)
    assert first[-1] > 90


@given(st.floats(0, 2e9), st.floats(1 / 6, 1.0), st.floats(0, 100))
def test_nvml_never_shows_a_layer_split_as_100_to_0(at_s, window_s, total) -> None:
    first, second = alternating_percent(total, at_s, window_s)
    assert first + second == pytest.approx(total)
    # Cards take turns of 25 ms; over 1/6 s at most half a period too much goes to one of them.
    assert abs(first - second) <= total * 0.025 / window_s + 1e-3


def test_over_a_whole_second_the_turns_are_equal() -> None:
    first, second = alternating_percent(97.0, 1234.5678, 1.0)
    assert first == pytest.approx(second, abs=0.1)


@pytest.mark.parametrize(
    ("sizes", "split"),
    [((1, 1), Split.SINGLE), ((2, 1), Split.TENSOR), ((1, 2), Split.LAYER)],
)
def test_split_of(sizes: tuple[int, int], split: Split) -> None:
    assert split_of(*sizes) is split


def test_memory_adds_up_to_the_share() -> None:
    memory = memory_of(LARGE, 2, 0.88, "auto")
    for card in (0, 1):
        parts = memory.weights_bytes[card] + memory.kv_bytes[card] + memory.runtime_bytes[card]
        assert parts == int(CARD_TOTAL_BYTES * 0.88)
        assert parts + IDLE_USED_BYTES[card] < CARD_TOTAL_BYTES
    assert memory.weights_bytes[0] == LARGE.weights_bytes // 2
    assert 32768 < memory.kv_tokens < 50000


def test_fp8_holds_twice_as_many_tokens() -> None:
    auto, fp8 = (memory_of(LARGE, 2, 0.88, dtype).kv_tokens for dtype in ("auto", "fp8"))
    assert fp8 == pytest.approx(2 * auto, abs=2)


def test_the_large_model_does_not_fit_one_card_the_small_one_does() -> None:
    assert memory_of(LARGE, 1, 0.88, "auto").kv_bytes[0] < 0
    assert memory_of(LARGE, 1, 0.88, "auto").weights_bytes[0] > CARD_TOTAL_BYTES
    small = memory_of(SMALL, 1, 0.88, "auto")
    assert small.kv_bytes[0] > 3 * GIB
    assert small.kv_bytes[1] == small.weights_bytes[1] == 0


def warm_up(card: Card, percent: float, seconds: int) -> list[tuple[float, float]]:
    start = card.at_s or 0.0
    values = []
    for second in range(1, seconds + 1):
        card.advance(start + second, percent)
        values.append((card.power_w, card.temperature_c))
    return values


def test_power_and_temperature_follow_with_inertia() -> None:
    card = Card(0, 1)
    card.advance(0.0, 0.0)
    idle_w, idle_c = card.power_w, card.temperature_c
    values = warm_up(card, 90, 300)
    powers, temperatures = zip(*values, strict=True)
    assert powers == tuple(sorted(powers))
    assert temperatures == tuple(sorted(temperatures))
    assert temperatures[0] - idle_c < 2  # not at once
    assert powers[4] > 190  # power is quick
    assert 60 < temperatures[-1] < 75
    cooling = warm_up(card, 0, 400)
    assert cooling[-1][0] == pytest.approx(idle_w, abs=0.5)
    assert cooling[-1][1] == pytest.approx(idle_c, abs=1)


def test_idle_is_idle_not_zero() -> None:
    for index in (0, 1):
        card = Card(index, 1)
        card.advance(0.0, 0.0)
        assert 8 < card.power_w < 20
        assert 30 < card.temperature_c < 40
        assert 200 <= card.clock_mhz(0) < 500


def test_a_panel_that_starts_late_sees_a_warm_card() -> None:
    cold, warm = Card(0, 1), Card(0, 1)
    cold.advance(0.0, 90)
    warm.advance(0.0, 90, warm_s=600)
    assert warm.temperature_c > cold.temperature_c + 20


def test_hot_cards_lower_their_clock_a_little() -> None:
    card = Card(0, 1)
    card.advance(0.0, 95)
    before = card.clock_mhz(95)
    warm_up(card, 95, 300)
    assert before - 150 < card.clock_mhz(95) < before


@given(st.floats(0, 2e9), st.integers(0, 2**31))
def test_noise_is_bounded_and_the_same_for_the_same_seed(at_s: float, seed: int) -> None:
    value = Card(0, seed).noise(at_s, "power", 2.0)
    assert -2.0 <= value <= 2.0
    assert Card(0, seed).noise(at_s, "power", 2.0) == value


def test_noise_differs_between_cards_names_and_times() -> None:
    values = {
        Card(index, 7).noise(at_s, name, 1.0)
        for index, at_s, name in itertools.product((0, 1), (0.0, 1.0), ("a", "b"))
    }
    assert len(values) == 8

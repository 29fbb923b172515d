"""RateMeter: exact sums, and None wherever the truth is unknown."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinrig.domain.metrics import Ended, EngineMetrics, Throughput
from twinrig.services.rates import ProbeTokens, RateMeter

NO_PROBE = ProbeTokens()


def metrics(
    generation: float | None = 0.0, prompt: float | None = 0.0, start: float | None = 1.0, **rest
) -> EngineMetrics:
    return EngineMetrics(
        generation_tokens=generation, prompt_tokens=prompt, process_start_s=start, **rest
    )


def test_the_first_scrape_has_no_rate_but_has_gauges() -> None:
    meter = RateMeter()
    first = meter.update(
        metrics(500, 900, requests_running=3.0, requests_waiting=1.0, kv_cache_usage=0.25),
        10.0,
        probe=NO_PROBE,
    )
    assert first == Throughput(
        generation_tps=None,
        prompt_tps=None,
        requests_running=3,
        requests_waiting=1,
        kv_cache_usage=0.25,
        interval_s=None,
    )


def test_rates_are_differences_over_real_time() -> None:
    meter = RateMeter()
    meter.update(metrics(100, 1000), 10.0, probe=NO_PROBE)
    second = meter.update(metrics(141, 1600), 11.5, probe=NO_PROBE)
    assert second.generation_tps == pytest.approx(41 / 1.5)
    assert second.prompt_tps == pytest.approx(400.0)
    assert second.interval_s == 1.5


def test_an_idle_server_reads_zero_not_none() -> None:
    meter = RateMeter()
    meter.update(metrics(100, 100), 1.0, probe=NO_PROBE)
    idle = meter.update(metrics(100, 100), 2.0, probe=NO_PROBE)
    assert (idle.generation_tps, idle.prompt_tps) == (0.0, 0.0)


def test_counters_that_are_not_served_stay_unknown() -> None:
    meter = RateMeter()
    meter.update(metrics(None, 5, None), 1.0, probe=NO_PROBE)
    result = meter.update(metrics(None, 7, None), 2.0, probe=NO_PROBE)
    assert result.generation_tps is None
    assert result.prompt_tps == 2.0
    assert result.requests_running is None


def test_a_counter_that_comes_back_after_a_gap_starts_anew() -> None:
    meter = RateMeter()
    meter.update(metrics(100), 1.0, probe=NO_PROBE)
    assert meter.update(metrics(None), 2.0, probe=NO_PROBE).generation_tps is None
    assert meter.update(metrics(180), 3.0, probe=NO_PROBE).generation_tps is None
    assert meter.update(metrics(190), 4.0, probe=NO_PROBE).generation_tps == 10.0


def test_missed_scrapes_are_spread_over_the_whole_gap() -> None:
    meter = RateMeter()
    meter.update(metrics(0), 0.0, probe=NO_PROBE)
    after = meter.update(metrics(120), 4.0, probe=NO_PROBE)
    assert (after.generation_tps, after.interval_s) == (30.0, 4.0)


@pytest.mark.parametrize(
    ("second", "run"),
    [
        (metrics(10, 10, start=2.0), "a"),
        (metrics(3, 20), "a"),
        (metrics(20, 3), "a"),
        (metrics(20, 20), "b"),
    ],
    ids=["start-time", "generation-fell", "prompt-fell", "run-changed"],
)
def test_a_restart_makes_its_interval_unknown_and_the_next_one_right(second, run) -> None:
    meter = RateMeter()
    meter.update(metrics(10, 10), 1.0, probe=NO_PROBE, run="a")
    meter.update(metrics(10, 10), 2.0, probe=NO_PROBE, run="a")
    broken = meter.update(second, 3.0, probe=NO_PROBE, run=run)
    assert (broken.generation_tps, broken.prompt_tps, broken.interval_s) == (None, None, None)
    following = metrics(
        second.generation_tokens + 5, second.prompt_tokens + 7, second.process_start_s
    )
    fine = meter.update(following, 4.0, probe=NO_PROBE, run=run)
    assert (fine.generation_tps, fine.prompt_tps) == (5.0, 7.0)


def test_a_missing_start_time_is_no_restart() -> None:
    meter = RateMeter()
    meter.update(metrics(10, start=1.0), 1.0, probe=NO_PROBE)
    assert meter.update(metrics(20, start=None), 2.0, probe=NO_PROBE).generation_tps == 10.0


def test_probe_tokens_are_not_the_users() -> None:
    meter = RateMeter()
    meter.update(metrics(100, 50), 1.0, probe=ProbeTokens(8, 5))
    result = meter.update(metrics(108, 55), 2.0, probe=ProbeTokens(16, 10))
    assert (result.generation_tps, result.prompt_tps) == (0.0, 0.0)


def test_a_probe_that_is_recorded_late_never_makes_a_negative_rate() -> None:
    meter = RateMeter()
    meter.update(metrics(100), 1.0, probe=NO_PROBE)
    early = meter.update(metrics(108), 2.0, probe=NO_PROBE)
    recorded = meter.update(metrics(108), 3.0, probe=ProbeTokens(generation=8))
    later = meter.update(metrics(138), 4.0, probe=ProbeTokens(generation=8))
    assert early.generation_tps == 8.0
    assert recorded.generation_tps == 0.0
    # 30 came, 8 of them had been shown too many before
    assert later.generation_tps == 22.0


def test_a_supervisor_that_counts_from_zero_again_is_a_restart() -> None:
    meter = RateMeter()
    meter.update(metrics(100), 1.0, probe=ProbeTokens(16, 5))
    assert meter.update(metrics(120), 2.0, probe=NO_PROBE).generation_tps is None


def test_a_scrape_at_the_same_time_changes_nothing() -> None:
    meter = RateMeter()
    meter.update(metrics(0), 1.0, probe=NO_PROBE)
    assert meter.update(metrics(50), 1.0, probe=NO_PROBE).generation_tps is None
    assert meter.update(metrics(60), 2.0, probe=NO_PROBE).generation_tps == 60.0


def test_reset_forgets_the_server() -> None:
    meter = RateMeter()
    meter.update(metrics(0), 1.0, probe=NO_PROBE)
    meter.reset()
    assert meter.update(metrics(60), 2.0, probe=NO_PROBE).generation_tps is None


STEPS = st.lists(
    st.tuples(
        st.integers(0, 5000),  # tokens of users
        st.integers(0, 3),  # probes that the server counts now
        st.floats(0.05, 10.0),  # seconds
        st.booleans(),  # is the supervisor's record up to date?
    ),
    min_size=1,
    max_size=40,
)


@given(STEPS, st.integers(0, 10**12))
def test_the_integral_of_the_rates_is_the_growth_of_the_counter(steps, start) -> None:
    meter = RateMeter()
    meter.update(metrics(start, 0), 0.0, probe=NO_PROBE)
    raw, probes, recorded, now, total, users = start, 0, 0, 0.0, 0.0, 0
    for tokens, new_probes, seconds, up_to_date in [*steps, (5000, 0, 1.0, True)]:
        raw += tokens + 8 * new_probes
        users += tokens
        probes += 8 * new_probes
        recorded = probes if up_to_date else recorded
        now += seconds
        result = meter.update(metrics(raw, 0), now, probe=ProbeTokens(generation=recorded))
        assert result.generation_tps is not None
        assert result.generation_tps >= 0
        total += result.generation_tps * (result.interval_s or math.nan)
    # The last step repays what late records showed too many.
    assert total == pytest.approx(users, rel=1e-9, abs=1e-6)


def test_ratios_hold_for_the_interval_only() -> None:
    meter = RateMeter()
    begun = metrics(
        0, 0, prefix_hits=50.0, prefix_queries=100.0, draft_tokens=30.0, accepted_tokens=20.0,
        first_token_seconds=4.0, first_tokens=8.0,
    )  # fmt: skip
    assert meter.update(begun, 1.0, probe=NO_PROBE).prefix_hit_ratio is None
    more = metrics(
        9, 9, prefix_hits=140.0, prefix_queries=200.0, draft_tokens=40.0, accepted_tokens=27.0,
        first_token_seconds=5.0, first_tokens=10.0,
    )  # fmt: skip
    told = meter.update(more, 2.0, probe=NO_PROBE)
    assert told.prefix_hit_ratio == pytest.approx(0.9)
    assert told.draft_acceptance == pytest.approx(0.7)
    assert told.first_token_s == pytest.approx(0.5)
    still = meter.update(more, 3.0, probe=NO_PROBE)
    assert (still.prefix_hit_ratio, still.draft_acceptance, still.first_token_s) == (None,) * 3


def test_ratios_survive_a_restart_and_missing_series() -> None:
    meter = RateMeter()
    meter.update(metrics(9, 9, prefix_hits=50.0, prefix_queries=100.0), 1.0, probe=NO_PROBE)
    reset = metrics(0, 0, 2.0, prefix_hits=1.0, prefix_queries=400.0)
    assert meter.update(reset, 2.0, probe=NO_PROBE).prefix_hit_ratio is None
    meter.update(metrics(1, 1, 2.0), 3.0, probe=NO_PROBE)
    again = metrics(2, 2, 2.0, prefix_hits=3.0, prefix_queries=500.0)
    assert meter.update(again, 4.0, probe=NO_PROBE).prefix_hit_ratio is None


# -- an engine that tells its work at the end of each request ----------------------------------


def at_end(tokens: float, seconds: float, finished: float) -> EngineMetrics:
    return EngineMetrics(
        generation_tokens=tokens,
        prompt_tokens=0.0,
        requests_finished=finished,
        generation_seconds=seconds,
        last_generation_tps=24.0,
        counted_at_end=True,
    )


def test_what_ended_is_told_once_and_is_no_rate_of_the_interval() -> None:
    meter, probe = RateMeter(), ProbeTokens()
    meter.update(at_end(8, 0.5, 1), 0.0, probe=probe)
    told = meter.update(at_end(488, 20.5, 2), 1.0, probe=probe)
    assert told.generation_tps is None and told.told_at_end
    assert told.ended == Ended(1, 480.0, 20.0) and told.ended.tps == 24.0
    assert meter.update(at_end(488, 20.5, 2), 2.0, probe=probe).ended is None


def test_replies_at_the_same_time_add_up() -> None:
    meter, probe = RateMeter(), ProbeTokens()
    meter.update(at_end(0, 0.0, 0), 0.0, probe=probe)
    told = meter.update(at_end(960, 40.0, 2), 1.0, probe=probe)
    assert told.ended is not None and told.ended.tps == 48.0


def test_the_supervisors_own_probe_is_no_reply() -> None:
    meter = RateMeter()
    meter.update(at_end(8, 0.5, 1), 0.0, probe=ProbeTokens(8, 0))
    told = meter.update(at_end(16, 1.0, 2), 1.0, probe=ProbeTokens(16, 0))
    assert told.ended is None


def test_a_restart_ends_nothing() -> None:
    meter, probe = RateMeter(), ProbeTokens()
    meter.update(at_end(488, 20.5, 2), 0.0, probe=probe, run="a")
    assert meter.update(at_end(0, 0.0, 0), 1.0, probe=probe, run="b").ended is None
    assert meter.update(at_end(48, 2.0, 1), 2.0, probe=probe, run="b").ended == Ended(1, 48.0, 2.0)

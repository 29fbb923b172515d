"""``/metrics`` of a real vLLM 0.32 under load, and bodies that are damaged on the way."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twinrig.domain.metrics import EngineMetrics
from twinrig.engines import prometheus
from twinrig.engines.vllm import VllmEngine
from twinrig.engines.vllm_metrics import parse_vllm_metrics

ENGINES = """\
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{engine="0",model_name="m"} 100.0
vllm:generation_tokens_total{engine="1",model_name="m"} 1.5e+03
vllm:generation_tokens_created{engine="0",model_name="m"} 1.79e+09
vllm:prompt_tokens_total{engine="0",model_name="a } b"} 7
vllm:num_requests_running{engine="0"} 2.0
vllm:num_requests_running{engine="1"} 1.0
vllm:kv_cache_usage_perc{engine="0"} 0.2
vllm:kv_cache_usage_perc{engine="1"} 0.4
vllm:cache_config_info{engine="0",kv_cache_size_tokens="1000",x="1"} 1.0
vllm:cache_config_info{engine="1",kv_cache_size_tokens="500"} 1.0
process_start_time_seconds 1.7959553253e+09
"""


def test_a_body_as_really_served(fixtures: Path, engine: VllmEngine) -> None:
    metrics = engine.parse_metrics((fixtures / "vllm" / "metrics.txt").read_text())
    assert metrics == EngineMetrics(
        generation_tokens=2757.0,
        prompt_tokens=531.0,
        requests_running=12.0,
        requests_waiting=0.0,
        kv_cache_usage=0.002136360861868969,
        kv_cache_size_tokens=2097152,
        prefix_queries=531.0,
        prefix_hits=0.0,
        preemptions=0.0,
        process_start_s=1795955325.3,
        first_token_seconds=0.49693894386291504,
        first_tokens=15.0,
        inter_token_seconds=40.118527512999435,
        inter_tokens=2754.0,
    )


def test_draft_counters_as_documented_for_vllm() -> None:
    body = (
        'vllm:spec_decode_num_draft_tokens_total{engine="0"} 400.0\n'
        'vllm:spec_decode_num_accepted_tokens_total{engine="0"} 284.0\n'
    )
    metrics = parse_vllm_metrics(body)
    assert (metrics.draft_tokens, metrics.accepted_tokens) == (400.0, 284.0)


def test_several_engines_are_summed() -> None:
    metrics = parse_vllm_metrics(ENGINES)
    assert metrics.generation_tokens == 1600.0
    assert metrics.prompt_tokens == 7.0
    assert metrics.requests_running == 3.0
    assert metrics.kv_cache_usage == pytest.approx(0.3)
    assert metrics.kv_cache_size_tokens == 1500
    assert metrics.process_start_s == 1795955325.3
    assert metrics.requests_waiting is None


def test_nothing_served_is_unknown_not_zero() -> None:
    for body in ("", "\n\n", "# HELP x\n", "<html>502 Bad Gateway</html>"):
        assert parse_vllm_metrics(body) == EngineMetrics()


@pytest.mark.parametrize(
    "line",
    [
        "vllm:generation_tokens_total",
        "vllm:generation_tokens_total{",
        'vllm:generation_tokens_total{engine="0"}',
        'vllm:generation_tokens_total{engine="0"} ',
        'vllm:generation_tokens_total{engine="0"} many',
        'vllm:generation_tokens_total{engine="0"} NaN',
        'vllm:generation_tokens_total{engine="0"} +Inf',
        'vllm:generation_tokens_total{engine="0"} 1 2 3',
        'vllm:generation_tokens_total{engine="0" 5',
        ' vllm:generation_tokens_total{engine="0"} 5',
        "# vllm:generation_tokens_total 5",
        'vllm:generation_tokens_total_bucket{le="1"} 5',
        'vllm:generation_tokens{engine="0"} 5',
    ],
)
def test_damaged_lines_are_skipped(line: str) -> None:
    assert parse_vllm_metrics(line).generation_tokens is None
    whole = parse_vllm_metrics(line + "\n" + ENGINES)
    assert whole.generation_tokens == 1600.0


def test_time_stamps_and_windows_line_ends_are_fine() -> None:
    body = 'vllm:generation_tokens_total{engine="0"} 5 1700000000000\r\nvllm:prompt_tokens_total 4'
    metrics = parse_vllm_metrics(body)
    assert (metrics.generation_tokens, metrics.prompt_tokens) == (5.0, 4.0)


@pytest.mark.parametrize("value", ["None", "-4", "", "1.5", "9" * 30, "²"])
def test_a_cache_size_that_is_no_number_is_unknown(value: str) -> None:
    body = f'vllm:cache_config_info{{kv_cache_size_tokens="{value}"}} 1.0\n'
    assert parse_vllm_metrics(body).kv_cache_size_tokens is None


@settings(deadline=None)
@given(st.text(), st.integers(0, len(ENGINES)))
def test_nothing_raises(noise: str, cut: int) -> None:
    for body in (noise, ENGINES[:cut] + noise, noise + ENGINES[cut:]):
        metrics = parse_vllm_metrics(body)
        assert metrics.kv_cache_usage is None or metrics.kv_cache_usage == metrics.kv_cache_usage


@settings(deadline=None)
@given(st.binary())
def test_bytes_of_another_program_do_not_raise(data: bytes) -> None:
    assert isinstance(parse_vllm_metrics(data.decode("utf-8", "replace")), EngineMetrics)


def test_labels() -> None:
    line = 'a{le="1",engine="0",name="x y"} 1'
    assert prometheus.label(line, "le") == "1"
    assert prometheus.label(line, "name") == "x y"
    assert prometheus.label(line, "ngine") is None
    assert prometheus.label('a{x="1', "x") is None


def test_a_scrape_costs_a_few_milliseconds(fixtures: Path) -> None:
    body = (fixtures / "vllm" / "metrics.txt").read_text() * 2
    assert 65_000 < len(body) < 90_000
    best = min(_timed(body) for _ in range(5))
    assert best < 0.02, f"{best * 1000:.1f} ms"


def _timed(body: str) -> float:
    start = time.perf_counter()
    parse_vllm_metrics(body)
    return time.perf_counter() - start

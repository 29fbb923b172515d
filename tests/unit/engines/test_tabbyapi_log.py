"""Phases and counters from tabbyAPI's log, folded or not, of three versions."""

from __future__ import annotations

import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinrig.domain.server import Phase
from twinrig.engines.base import PhaseEvent
from twinrig.engines.tabbyapi_log import TabbyMeter, tabby_phase_of

STAMP = "2026-08-13 20:55:45.123 INFO:     "
ID = "(ID: 0123456789abcdef0123456789abcdef)"
HEAD = f"Metrics {ID}: 210 tokens generated in 10.0 seconds "
FORMS = {
    "2024-03": "Metrics: 210 tokens generated in 10.0 seconds (21.0 T/s, context 500 tokens)",
    "2024-05": "Metrics: 210 tokens generated in 10.0 seconds (Queue: 0.0 s, Process: 800.5 T/s,"
    " Generate: 21.0 T/s, Context: 500 tokens)",
    "2024-08": HEAD + "(Queue: 0.0 s, Process: 100 cached tokens and 400 new tokens at 800.5 T/s,"
    " Generate: 21.0 T/s, Context: 500 tokens)",
    "2026-06": HEAD + "(Queue: 0.0 s, Process: 100 cached tokens and 400 new tokens at 800.5 T/s,"
    " Generate: 21.0 T/s, Context: 500 tokens, Draft: 60 / 80 tokens accepted (75.00%)) "
    "<-- Not accurate (truncated)",
}  # fmt: skip


@pytest.mark.parametrize(
    ("line", "event"),
    [
        (STAMP + "exllamav3 version: 1.4.2", PhaseEvent(Phase.CONFIG)),
        (STAMP + "Configured backend: cudaMallocAsync", PhaseEvent(Phase.CONFIG)),
        (STAMP + "Loading model: /m/x", PhaseEvent(Phase.CONFIG)),
        (STAMP + "Loading with tensor parallel", PhaseEvent(Phase.WORKERS)),
        (" -- NCCL warmup, device 1, please wait...", PhaseEvent(Phase.WORKERS)),
        (STAMP + "Loading with autosplit", PhaseEvent(Phase.WEIGHTS)),
        ("Loading model modules ━━━━━  42% 28/67 0:00:11", PhaseEvent(Phase.WEIGHTS, 0.42)),
        ("Loading draft modules ━━━━━ 100% 3/3 0:00:00", PhaseEvent(Phase.WEIGHTS, 1.0)),
        (STAMP + "Model successfully loaded.", PhaseEvent(Phase.MEMORY)),
        (STAMP + "Uvicorn running on http://0.0.0.0:5001", PhaseEvent(Phase.LISTEN, port=5001)),
        (
            "2026-08-13 20:55:45.123 WARNING:  Port 5000 is currently in use. Switching to 5001.",
            PhaseEvent(Phase.CONFIG, port=5001),
        ),
        (STAMP + '127.0.0.1:1 - "GET /v1/model/Shutting down HTTP/1.1" 200', None),
        (STAMP + "Model unloaded.", None),
    ],
)
def test_phases(line: str, event: PhaseEvent | None) -> None:
    assert tabby_phase_of(line) == event


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("width", [40, 79, 80, 1000])
def test_every_form_folded_at_every_width(form: str, width: int) -> None:
    meter = TabbyMeter()
    lines = textwrap.wrap(STAMP + FORMS[form], width, break_on_hyphens=False)
    told = [meter.feed(line) for line in lines]
    meter.feed(STAMP + "something else")
    assert (told.count(True) == 1 and told[-1]) or form == "2026-06"
    metrics = meter.metrics()
    assert metrics.generation_tokens == 210 and metrics.requests_finished == 1
    assert metrics.last_generation_tps == 21.0 and metrics.counted_at_end
    if form >= "2024-05":
        assert metrics.last_prompt_tps == 800.5
    if form >= "2024-08":
        assert (metrics.prompt_tokens, metrics.prefix_hits, metrics.prefix_queries) == (
            400,
            100,
            500,
        )
    else:
        assert (metrics.prompt_tokens, metrics.prefix_hits) == (500, None)
    if form >= "2026-06":
        assert (metrics.accepted_tokens, metrics.draft_tokens) == (60, 80)
    else:
        assert metrics.draft_tokens is None


def test_requests_add_up_and_short_ones_say_nothing_of_speed() -> None:
    meter = TabbyMeter()
    assert meter.metrics().generation_tokens == 0 and meter.metrics().last_generation_tps is None
    assert meter.feed(STAMP + FORMS["2024-08"])
    probe = FORMS["2024-08"].replace("210 tokens", "8 tokens").replace("21.0 T/s", "3.0 T/s")
    assert meter.feed(STAMP + probe)
    assert meter.metrics().generation_tokens == 218
    assert meter.metrics().last_generation_tps == 21.0


def test_a_rate_that_is_no_number_is_computed() -> None:
    meter = TabbyMeter()
    assert meter.feed(STAMP + FORMS["2024-08"].replace("21.0 T/s", "Indeterminate T/s"))
    assert meter.metrics().last_generation_tps == 21.0


@pytest.mark.parametrize(
    "line",
    [
        "Metrics (ID: abc): N tokens generated in S seconds (x)",
        "Generation progress: 210 tokens, 99 T/s",
        '127.0.0.1 - "GET /?Metrics: 5 tokens generated in 1 seconds ( HTTP/1.1" 404',
    ],
)
def test_other_lines_count_nothing(line: str) -> None:
    meter = TabbyMeter()
    meter.feed(line)
    meter.feed(STAMP + "next")
    assert meter.metrics().generation_tokens == 0


@given(st.lists(st.text(max_size=60), max_size=30))
def test_no_text_breaks_the_meter(lines: list[str]) -> None:
    meter = TabbyMeter()
    for line in ["Metrics: ", *lines]:
        meter.feed(line)
        tabby_phase_of(line)
    assert (meter.metrics().generation_tokens or 0) >= 0

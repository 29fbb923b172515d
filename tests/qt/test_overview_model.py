"""What the overview says: states, cards, endpoint. No window."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace

import pytest

from qt.panel_rig import GIB, NOW_S, gpu, loading_record, record, sample, snapshot
from twinrig.domain.gpu import GpuInfo, GpuSample
from twinrig.domain.quantities import gib, number
from twinrig.domain.server import Phase, ServerState
from twinrig.domain.supervision import Failure, PhaseTime
from twinrig.messages import message
from twinrig.qt.viewmodels.overview import (
    STATE_KINDS,
    card_views,
    endpoint_view,
    state_view,
)


def test_every_state_has_a_kind() -> None:
    assert set(STATE_KINDS) == set(ServerState)


def test_no_record_is_stopped() -> None:
    view = state_view(None, NOW_S)
    assert (view.word, view.kind, view.detail) == ("Stopped", "muted", None)


def test_loading_tells_phase_elapsed_and_expected() -> None:
    view = state_view(loading_record(), NOW_S)
    assert view.kind == "busy"
    assert str(view.detail) == "Loading weights: 30 s of about 1 min 0 s"
    assert view.progress == pytest.approx(0.5)


def test_a_first_load_knows_no_expected_time() -> None:
    phases = (PhaseTime(Phase.WEIGHTS, NOW_S - 95, None),)
    view = state_view(record(ServerState.LOADING, phases=phases), NOW_S)
    assert str(view.detail) == "Loading weights: 1 min 35 s"
    assert view.progress is None


def test_progress_of_the_log_wins_over_the_clock() -> None:
    phases = (PhaseTime(Phase.WEIGHTS, NOW_S - 59, 60.0, 0.25),)
    assert state_view(record(ServerState.LOADING, phases=phases), NOW_S).progress == 0.25


def test_a_late_phase_never_claims_to_be_done() -> None:
    phases = (PhaseTime(Phase.COMPILE, NOW_S - 600, 60.0),)
    assert state_view(record(ServerState.LOADING, phases=phases), NOW_S).progress == 0.99


def test_details_of_other_states() -> None:
    assert str(state_view(record(), NOW_S).detail) == "Ready for 1 min"
    backoff = record(ServerState.BACKOFF, next_restart_at_s=NOW_S + 14)
    assert str(state_view(backoff, NOW_S).detail) == "Restarts in 14 s"
    failure = Failure(message("Port 8000 is taken."), message("Choose another."))
    failed = record(ServerState.FAILED, failure=failure)
    assert str(state_view(failed, NOW_S).detail) == "Choose another."
    slow = record(ServerState.DEGRADED, degraded_reason=message("No token for 2 minutes."))
    assert str(state_view(slow, NOW_S).detail) == "No token for 2 minutes."


def test_a_silent_supervisor_is_told_whatever_it_said_last() -> None:
    view = state_view(record(updated_at_s=NOW_S - 75), NOW_S)
    assert view.kind == "warn"
    assert str(view.detail) == "Last heard of 1 min 15 s ago"


@pytest.mark.parametrize("state", [ServerState.STOPPED, ServerState.FAILED])
def test_a_server_at_rest_may_be_silent(state: ServerState) -> None:
    assert state_view(record(state, updated_at_s=NOW_S - 9999), NOW_S).kind == STATE_KINDS[state]


def test_a_full_card() -> None:
    first = card_views(snapshot(None))[0]
    assert str(first.title) == "GPU 0" and first.name == "NVIDIA GeForce RTX 5070"
    assert first.load == pytest.approx(0.63) and str(first.load_text) == "63 %"
    assert first.memory == pytest.approx(9.8 / 12, abs=1e-3)
    assert str(first.memory_text) == "9.8 of 12.0 GiB"
    assert str(first.temperature_text) == "61 °C"
    assert str(first.power_text) == "142 of 250 W"
    assert str(first.clock_text) == "2610 MHz"


def test_nothing_known_is_said_and_never_zero() -> None:
    bare = GpuInfo(0, "GPU-0", "Card", None)
    picture = snapshot(None, gpus=(bare,), samples=(GpuSample("GPU-0", NOW_S),))
    view = card_views(picture)[0]
    assert view.load is None and view.memory is None
    texts = (view.load_text, view.memory_text, view.temperature_text, view.power_text)
    assert {str(text) for text in texts} == {"Not available"}
    assert "0" not in str(view.clock_text)


def test_a_card_without_a_sample_keeps_its_total() -> None:
    view = card_views(snapshot(None, samples=()))[0]
    assert str(view.memory_text) == "Use not available; 12.0 GiB in all"
    assert view.memory is None


def test_real_zeros_are_zeros() -> None:
    zero = sample(0, 0, memory_used_bytes=0, power_w=0.0, temperature_c=0, clock_sm_mhz=0)
    view = card_views(snapshot(None, gpus=(gpu(0),), samples=(zero,)))[0]
    assert view.load == 0.0 and str(view.load_text) == "0 %"
    assert view.memory == 0.0 and str(view.memory_text) == "0.0 of 12.0 GiB"
    assert str(view.temperature_text) == "0 °C" and str(view.power_text) == "0 of 250 W"


def test_samples_belong_to_cards_by_uuid_not_by_place() -> None:
    picture = snapshot(None, samples=(sample(1, 11), sample(0, 99)))
    assert [str(view.load_text) for view in card_views(picture)] == ["99 %", "11 %"]


def test_stale_is_passed_on() -> None:
    picture = snapshot(None, samples=(sample(0, 50, stale=True), sample(1)))
    assert [view.stale for view in card_views(picture)] == [True, False]


def test_endpoint_appears_with_an_address() -> None:
    assert endpoint_view(None) is None
    assert endpoint_view(record(base_url="")) is None
    ready = endpoint_view(record())
    assert ready is not None
    assert ready.base_url == "http://127.0.0.1:8000/v1" and ready.live
    loading = endpoint_view(loading_record())
    assert loading is not None and not loading.live


@pytest.mark.parametrize("model", ["Qwen3.6-27B", 'odd "name"', "it's", "日本語 モデル"])
def test_curl_survives_a_shell(model: str) -> None:
    view = endpoint_view(record(model_id=model))
    assert view is not None
    words = shlex.split(view.curl())
    assert words[:2] == ["curl", "http://127.0.0.1:8000/v1/chat/completions"]
    assert json.loads(words[-1])["model"] == model


def test_curl_with_a_key_names_a_variable_only() -> None:
    view = endpoint_view(record())
    assert view is not None
    assert '"Authorization: Bearer $API_KEY"' in view.curl(with_key=True)
    assert "Authorization" not in view.curl()


def test_numbers() -> None:
    assert [number(v) for v in (0, 7, 7.26, 99.94, 99.96, 123.4)] == [
        "0",
        "7",
        "7.3",
        "99.9",
        "100",
        "123",
    ]
    assert gib(11.94 * GIB) == "11.9"


def test_pcie_traffic_is_shown_only_where_it_is_read() -> None:
    plain = snapshot(record())
    assert all(card.traffic_text is None for card in card_views(plain))
    busy = sample(0, 50, pcie_in_bytes_s=1_240_000_000, pcie_out_bytes_s=800_000_000)
    half = sample(1, 50, pcie_in_bytes_s=None, pcie_out_bytes_s=5)
    first, second = card_views(replace(plain, samples=(busy, half)))
    assert str(first.traffic_text) == "1.2 / 0.8" and second.traffic_text is None

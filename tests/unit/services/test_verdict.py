"""The verdict: labelled situations, the physics behind them, and honesty where data lack."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from fixtures.pictures import GIB, LAYER, NOW_S, SINGLE, TENSOR, picture, server, stretch
from twinrig.domain.metrics import ServerSetup, Snapshot, Throughput
from twinrig.domain.server import ServerState
from twinrig.domain.supervision import Failure
from twinrig.hosts.demo.physics import alternating_percent
from twinrig.messages import message
from twinrig.services.situation import CardMeans, situation, steady, within
from twinrig.services.verdict import ENOUGH, KEPT, Verdict, verdict

IDLE = {"tps": 0.0, "prompt": 0.0, "running": 0, "power_w": 15.0}
QUIET = {"tps": 0.0, "prompt": 0.0, "running": 1}
HOT = {"throttle_reasons": ("software thermal slowdown",), "temperature_c": 88}
CAP = {"throttle_reasons": ("software power cap",), "power_w": 249.0}
X4 = {"pcie_generation": 3, "pcie_width": 4}


def both(changes: dict) -> tuple[dict, dict]:
    return changes, changes


# (name, expected id, expected kind, sure, snapshots)
LABELLED: list[tuple[str, str, str, bool, list[Snapshot]]] = [
    # the first seed's measured rig: tensor parallel, one request, 67 and 70 %
    ("tensor parallel, one request", "together", "ok", True, stretch((67, 70))),
    ("tensor parallel, setup unknown", "together", "ok", True, stretch((67, 70), setup=None)),
    ("tensor parallel, eight requests", "together", "ok", True, stretch((94, 95), running=8)),
    ("layer split", "layer-split", "warn", True, stretch((49, 48), setup=LAYER)),
    ("layer split, setup unknown", "layer-split", "warn", False, stretch((51, 49), setup=None)),
    ("uneven layer split", "layer-split", "warn", True, stretch((70, 29), setup=LAYER)),
    ("layer split, many requests", "together", "ok", True,
     stretch((80, 82), running=6, setup=LAYER)),
    ("sum between both", "unclear", "muted", False, stretch((56, 54), setup=None)),
    ("loads too low for a split", "unclear", "muted", False, stretch((30, 30), setup=None)),
    ("tensor set, loads of a split", "waiting-cards", "muted", False, stretch((45, 44))),
    ("stages that wait busily", "layer-split", "warn", True, stretch((80, 80), setup=LAYER)),
    ("profile uses one card", "one-card-setup", "warn", True, stretch((96, 1), setup=SINGLE)),
    ("one card idles under tensor", "one-card", "warn", True, stretch((95, 2))),
    ("the other card idles", "one-card", "warn", True, stretch((0, 80), setup=None)),
    ("uneven", "unclear", "muted", False, stretch((95, 40), running=3)),
    ("load not available", "load-unknown", "muted", False, stretch((80, None))),
    ("one visible card", "one-visible", "warn", True, stretch((90,))),
    ("power cap", "power-cap", "ok", True, stretch((97, 97), running=8, cards=both(CAP))),
    (
        "cap named, but far below the limit",
        "together", "ok", True,
        stretch((97, 97), running=8, cards=both({**CAP, "power_w": 150.0})),
    ),
    ("too hot", "too-hot", "warn", True, stretch((97, 97), running=4, cards=({}, HOT))),
    (
        "power brake", "power-brake", "warn", True,
        stretch((97, 97), cards=({"throttle_reasons": ("hardware power brake",)}, {})),
    ),
    ("narrow link under tensor", "pcie-link", "warn", True, stretch((70, 71), cards=({}, X4))),
    ("narrow link, several requests layer split", "together", "ok", True,
     stretch((70, 71), running=3, setup=LAYER, cards=({}, X4))),
    ("spill", "spill", "fail", True, stretch((99, 98), cards=({}, {"shared_used_bytes": 2 * GIB}))),
    ("little shared memory is normal", "together", "ok", True,
     stretch((67, 70), cards=both({"shared_used_bytes": GIB // 8}))),
    ("prefill", "prefill", "busy", True, stretch((97, 96), prompt=2400.0, tps=0.0, power_w=230.0)),
    ("prefill beside a reply", "prefill", "busy", True, stretch((97, 96), prompt=2000.0, tps=20.0)),
    ("short prompts between tokens", "together", "ok", True, stretch((67, 70), prompt=60.0)),
    ("long prefill without counters", "prefill", "busy", True,
     stretch((98, 97), 40, **QUIET, power_w=220.0)),
    ("stuck", "stuck", "fail", True, stretch((100, 100), 40, **QUIET, power_w=95.0)),
    ("no token, cards rest", "stalled", "warn", False, stretch((0, 0), 40, **QUIET, power_w=15.0)),
    ("no token, power unknown", "stalled", "warn", False,
     stretch((100, 100), 40, **QUIET, power_w=None)),
    ("no token for a short while", "no-token", "busy", False,
     stretch((0, 0), 20, **QUIET, power_w=15.0)),
    ("a collective just hung", "no-token", "busy", False,
     stretch((100, 100), 12, **QUIET, power_w=95.0)),
    ("a prompt just came", "prefill", "busy", True, stretch((99, 98), 8, **QUIET, power_w=230.0)),
    ("full cache", "cache-full", "warn", True,
     stretch((95, 95), running=6, waiting=3, kv=0.99)),
    ("all slots taken", "slots-full", "ok", True, stretch((95, 95), running=8, waiting=2)),
    ("idle", "idle", "ok", True, stretch((1, 0), **IDLE)),
    ("idle, desktop flickers", "idle", "ok", True, stretch((12, 0), **IDLE)),
    ("a game runs", "foreign-load", "warn", True, stretch((92, 0), **{**IDLE, "power_w": 200.0})),
    ("server mute", "no-figures", "muted", False,
     stretch((0, 0), tps=None, prompt=None, running=None)),
    ("server mute, cards work", "no-figures", "muted", False,
     stretch((80, 80), tps=None, prompt=None, running=None)),
    ("three readings", "watching", "busy", False, stretch((67, 70), ENOUGH - 1)),
    ("a card is lost", "card-lost", "fail", True, stretch((67, 70), cards=({}, {"stale": True}))),
    ("all cards lost", "cards-lost", "warn", False, stretch((67, 70), cards=both({"stale": True}))),
]  # fmt: skip


@pytest.mark.parametrize(
    ("wanted", "kind", "sure", "recent"),
    [case[1:] for case in LABELLED],
    ids=[case[0] for case in LABELLED],
)
def test_labelled(wanted: str, kind: str, sure: bool, recent: list[Snapshot]) -> None:
    found = verdict(recent)
    assert (found.id, found.kind, found.sure) == (wanted, kind, sure), str(found.text)
    assert "{" not in str(found.text) and all("{" not in str(line) for line in found.evidence)


def test_there_are_enough_labels() -> None:
    assert len(LABELLED) >= 40 and len({case[1] for case in LABELLED}) >= 20


def said(recent: list[Snapshot]) -> str:
    return str(verdict(recent).text)


def test_the_words() -> None:
    assert said(stretch((67, 70))) == "Both cards work together (67 % / 70 %)."
    assert said(stretch((49, 48), setup=LAYER)) == (
        "One card at a time: layer split (49 % / 48 %, together 97 %)."
    )
    assert "PCIe link is 3.0 x4" in said(stretch((70, 71), cards=({}, X4)))
    assert "power limit holds GPU 0, 1 back (250 W)" in said(
        stretch((97, 97), running=8, cards=both(CAP))
    )
    assert said(stretch((100, 100), 40, **QUIET, power_w=95.0)) == (
        "Stuck: all cards at 100 % / 100 % with little power, and no token for 39 s."
    )


def test_evidence_tells_what_it_was_told_from() -> None:
    lines = [str(line) for line in verdict(stretch((67, 70))).evidence]
    assert lines[0] == "GPU 0: 67 %, 150 / 250 W, 61 °C, PCIe 5.0 x8"
    blind = {"power_w": None, "power_limit_w": None, "temperature_c": None, "pcie_width": None}
    lines = [str(line) for line in verdict(stretch((67, 70), cards=both(blind))).evidence]
    assert lines == ["GPU 0: 67 %", "GPU 1: 70 %"]


def test_links_lead_to_where_it_can_be_changed() -> None:
    def place(found: Verdict) -> str:
        return found.link.place if found.link else ""

    assert place(verdict(stretch((49, 48), setup=LAYER))) == "plan/tensor_parallel_size"
    assert place(verdict(stretch((100, 100), 40, **QUIET, power_w=95.0))) == "server/log"
    assert (
        place(verdict(stretch((95, 95), running=6, waiting=3, kv=0.99)))
        == "plan/gpu_memory_utilization"
    )
    assert place(verdict(stretch((67, 70)))) == ""
    assert place(verdict(stretch((95, 2)))) == "", "the split is set already"


def test_before_the_first_reading_and_without_a_server() -> None:
    assert verdict([]).id == "waiting"
    assert verdict([replace(picture((0, 0)), server=None)]).id == "stopped"


@pytest.mark.parametrize("state", [s for s in ServerState if s is not ServerState.READY])
def test_every_other_state_has_its_sentence(state: ServerState) -> None:
    found = verdict(stretch((67, 70), record=server(state)))
    assert found.id == state.value and found.kind != "ok"


def test_failure_and_degradation_tell_their_cause() -> None:
    cause = message("Port 8000 is taken.")
    failed = server(ServerState.FAILED, failure=Failure(cause, message("Choose another.")))
    assert verdict(stretch((0, 0), record=failed)).text == cause
    tired = server(ServerState.DEGRADED, degraded_reason=message("No reply for 120 s."))
    assert str(verdict(stretch((0, 0), record=tired)).text) == "No reply for 120 s."


def test_a_silent_supervisor_is_cannot_tell() -> None:
    old = server(updated_at_s=NOW_S - 45)
    found = verdict([picture((67, 70), record=old)])
    assert found.id == "silent" and "45 s" in str(found.text) and not found.sure


def test_stale_readings_do_not_count() -> None:
    pictures = stretch((67, 70), 20)
    for n in range(8, 18):
        samples = tuple(replace(s, stale=True, utilisation_percent=0) for s in pictures[n].samples)
        pictures[n] = replace(pictures[n], samples=samples)
    assert verdict(pictures).id == "together"


def test_idle_seconds_before_do_not_dilute_the_loads() -> None:
    idle = stretch((0, 0), 30, **IDLE)
    later = [replace(p, taken_at_s=p.taken_at_s + 30) for p in stretch((67, 70), 6)]
    first = picture((20, 20), at_s=NOW_S + 30)  # NVML still averages over the pause
    found = verdict([*idle, first, *later[1:]])
    assert found.id == "together" and "67 % / 70 %" in str(found.text)


def test_another_run_of_the_server_is_another_story() -> None:
    old = stretch((100, 100), 40, **QUIET, power_w=95.0)
    fresh = picture(
        (90, 90), at_s=NOW_S + 40, record=server(run_id="run-2", updated_at_s=NOW_S + 40)
    )
    assert verdict([*old, fresh]).id == "watching"


def test_one_token_ends_the_silence() -> None:
    pictures = stretch((100, 100), 40, **QUIET, power_w=95.0)
    spoke = replace(pictures[20], throughput=Throughput(1.0, 0.0, 1, 0, 0.2, 1.0))
    assert verdict([*pictures[:20], spoke, *pictures[21:]]).id != "stuck"


def test_unknown_counters_are_not_silence() -> None:
    pictures = stretch((100, 100), 40, **{**QUIET, "tps": None}, power_w=95.0)
    assert verdict(pictures).id not in ("stuck", "stalled")


def test_half_rate_decides_the_same() -> None:
    for recent, wanted in ((stretch((49, 48), setup=LAYER), "layer-split"),
                           (stretch((67, 70)), "together")):  # fmt: skip
        assert verdict(recent[::2]).id == wanted


def test_what_is_kept_is_enough_for_the_slowest_rule() -> None:
    pictures = stretch((100, 100), 300, **QUIET, power_w=95.0)
    assert verdict(pictures[-KEPT:]).id == "stuck"


@pytest.mark.parametrize("setup", [LAYER, None], ids=["known", "unknown"])
def test_alternation_as_nvml_reads_it_is_always_a_layer_split(setup: ServerSetup | None) -> None:
    """The physics: cards take turns every 25 ms, NVML averages over 1/6 to 1 s, we look at 1 Hz."""
    chance = random.Random(7)
    for _ in range(200):
        pictures = []
        for n in range(12):
            at_s = NOW_S + n + chance.uniform(-0.02, 0.02)
            loads = alternating_percent(97.0, at_s, chance.uniform(1 / 6, 1.0))
            pictures.append(picture([round(v) for v in loads], at_s=at_s, setup=setup))
        assert verdict(pictures).id == "layer-split", situation(pictures)


def test_noisy_tensor_parallel_is_never_a_layer_split() -> None:
    chance = random.Random(8)
    for _ in range(200):
        pictures = [
            picture((chance.randint(60, 75), chance.randint(62, 77)), at_s=NOW_S + n, setup=None)
            for n in range(12)
        ]
        assert verdict(pictures).id == "together"


def test_link_bandwidth() -> None:
    assert CardMeans(0, link_generation=3, link_width=4).link_gb_s == pytest.approx(3.94)
    assert CardMeans(0, link_generation=5, link_width=16).link_gb_s == pytest.approx(63.04)
    assert CardMeans(0, link_generation=9, link_width=16).link_gb_s is None
    assert CardMeans(0, link_width=16).link_gb_s is None


def test_windows_and_pauses() -> None:
    pictures = stretch((67, 70), 20)
    assert len(within(pictures, 5.0)) == 5 and within([], 5.0) == []
    assert steady(pictures) == pictures
    pause = replace(pictures[10], throughput=Throughput(0.0, 0.0, 0, 0))
    assert steady([*pictures[:10], pause, *pictures[11:]]) == pictures[12:]


def ended(loads: tuple[int, int], setup: ServerSetup, last: float | None = 24.0) -> list[Snapshot]:
    """tabbyAPI: nothing is told before a request has ended, then its speed."""
    told = Throughput(last_reply_tps=last, told_at_end=True)
    return [replace(p, throughput=told) for p in stretch(loads, setup=setup)]


TABBY_SPLIT = ServerSetup(1, None, 8)


@pytest.mark.parametrize(
    ("recent", "wanted"),
    [
        (ended((67, 70), TENSOR), "together"),
        (ended((51, 49), TABBY_SPLIT), "layer-split"),
        (ended((96, 1), TABBY_SPLIT), "one-card"),
        (ended((2, 0), TENSOR), "idle"),
        (ended((67, 70), TENSOR, None), "together"),
    ],
)
def test_an_engine_that_tells_only_of_ended_requests(recent, wanted) -> None:
    found = verdict(recent)
    assert found.id == wanted
    assert "no token" not in str(found.text)
    if wanted == "layer-split":
        assert not found.sure


def test_setups_are_three() -> None:
    assert TENSOR.tensor_parallel_size == 2 and LAYER.pipeline_parallel_size == 2
    assert SINGLE.max_num_seqs == 8


# -- memory that Windows moved into RAM --------------------------------------------------------

SPILT = {"cards": ({"shared_used_bytes": 3 * GIB}, {"shared_used_bytes": GIB})}
COST = (64 * 1024.0, 64 * 1024.0)


def test_a_spill_says_how_many_tokens_to_give_back() -> None:
    setup = replace(TENSOR, kv_bytes_per_token=COST)
    found = verdict(stretch((67, 70), setup=setup, **SPILT))
    assert found.id == "spill" and found.kind == "fail"
    assert "GPU 0 keeps 3.0 GiB" in str(found.text)
    assert "about 50,000 tokens" in str(found.text)  # 3 GiB / 64 KiB = 49,152
    assert found.link is not None and found.link.place == "plan/gpu_memory_utilization"


@pytest.mark.parametrize("cost", [(), (65536.0,), (0.0, 0.0)])
def test_without_the_cost_of_a_token_no_number_is_made_up(cost: tuple[float, ...]) -> None:
    found = verdict(stretch((67, 70), setup=replace(TENSOR, kv_bytes_per_token=cost), **SPILT))
    assert found.id == "spill" and "tokens" not in str(found.text)


def test_the_cache_of_another_engine_has_another_setting() -> None:
    setup = replace(TENSOR, pool_setting="cache_tokens")
    link = verdict(stretch((67, 70), setup=setup, **SPILT)).link
    assert link is not None and link.place == "plan/cache_tokens"


def test_ram_of_an_unnamed_card_is_no_sure_spill() -> None:
    pictures = [replace(p, unplaced_shared_bytes=2 * GIB) for p in stretch((67, 70))]
    found = verdict(pictures)
    assert found.id == "spill-unplaced" and not found.sure and "2.0 GiB" in str(found.text)
    little = [replace(p, unplaced_shared_bytes=200 << 20) for p in stretch((67, 70))]
    assert verdict(little).id == "together"
    told = {"cards": ({"shared_used_bytes": 0}, {"shared_used_bytes": 0})}
    named = [replace(p, unplaced_shared_bytes=2 * GIB) for p in stretch((67, 70), **told)]
    assert verdict(named).id == "together", "it belongs to the processor's own graphics"


def test_a_desktop_uses_a_little_ram_and_that_is_no_spill() -> None:
    usual = {"cards": ({"shared_used_bytes": 300 << 20}, {"shared_used_bytes": 0})}
    assert verdict(stretch((67, 70), **usual)).id == "together"

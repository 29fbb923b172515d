"""Plans for vLLM: budget, figures that the engine prints, its refusals, its versions."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest

from fixtures.sizing_models import (
    DENSE_8B,
    FALCON_7B,
    HYBRID_27B,
    PARALLEL_HYBRID_3B,
    SLIDING_26B,
)
from twinrig.domain.memory import (
    GIB,
    Card,
    EngineRefusalError,
    Measurement,
    PartKind,
    SizingSettings,
    Verdict,
)
from twinrig.sizing.cards import nominal_card
from twinrig.sizing.estimate import estimate, sized_model
from twinrig.sizing.vllm_plan import card_utilization

TWO_24 = (nominal_card(24), nominal_card(24))


def plan(config=DENSE_8B, file_bytes=None, **settings):
    options = {"engine_version": "0.32.0", **settings}
    return estimate(sized_model(config, file_bytes), SizingSettings(**options))


def test_the_budget_adds_up() -> None:
    found = plan(cards=TWO_24, tensor_parallel=2, utilization=0.9, context_tokens=8192)
    for gpu in found.gpus:
        assert sum(part.size_bytes for part in gpu.parts) == gpu.total_bytes
        given = gpu.used_bytes
        assert given == int(0.9 * gpu.total_bytes)
    assert found.kv_pool_bytes == found.gpus[0].size(PartKind.KV)
    assert found.verdict is Verdict.FITS


def test_every_part_has_a_sentence() -> None:
    found = plan(HYBRID_27B, cards=TWO_24, tensor_parallel=2, quantization="awq-int4")
    assert all(str(part.text) for part in found.gpus[0].parts)
    assert len({str(part.text) for part in found.gpus[0].parts}) == len(found.gpus[0].parts)


def test_graphs_are_taken_off_the_pool_only_since_0_21() -> None:
    options = {"cards": TWO_24[:1], "utilization": 0.9, "context_tokens": 8192}
    old, new = plan(engine_version="0.20.2", **options), plan(engine_version="0.21", **options)
    graphs = new.gpus[0].size(PartKind.GRAPHS)
    assert old.kv_pool_bytes - new.kv_pool_bytes == graphs > 0
    assert plan(enforce_eager=True, **options).gpus[0].size(PartKind.GRAPHS) == 0


def test_figures_as_an_l40s_printed_them() -> None:
    """0.22, 27B hybrid in 8 bits: 8.18 GiB needed, 112,896 tokens at most of a 7.04 GiB pool."""
    found = plan(
        HYBRID_27B,
        engine_version="0.22+",
        kv_pool_bytes=int(7.04 * GIB),
        context_tokens=131_072,
        quantization="fp8",
    )
    assert found.kv_needed_bytes / GIB == pytest.approx(8.18, abs=0.01)
    assert found.max_context_tokens == pytest.approx(112_896, rel=0.005)
    assert found.attention_block_size == 784
    assert found.verdict is Verdict.DOES_NOT_FIT


def test_the_printed_size_changed_its_meaning() -> None:
    """A 2B hybrid: 129,472 tokens printed by an old version, four times as many usable."""
    config = copy.deepcopy(HYBRID_27B)
    config["text_config"].update(
        layer_types=["full_attention" if i % 4 == 3 else "linear_attention" for i in range(24)],
        num_hidden_layers=24,
        num_attention_heads=8,
        num_key_value_heads=2,
        hidden_size=2048,
        linear_num_value_heads=16,
    )
    options = {"kv_pool_bytes": int(5.95 * GIB), "mamba_cache_mode": "none"}
    old = plan(config, engine_version="0.19.1", **options)
    assert old.capacity_tokens == old.legacy_capacity_tokens == 129_472
    assert old.max_concurrency == pytest.approx(1.97, abs=0.01)
    new = plan(config, engine_version="0.22", **options)
    assert new.capacity_tokens == pytest.approx(1.97 * 262_144, rel=0.005)
    assert new.max_concurrency == old.max_concurrency


def test_states_bound_to_the_context_in_mode_none() -> None:
    """A parallel hybrid on a 16 GB card: 83,968 tokens, 41.5 requests of 2,048."""
    found = plan(
        PARALLEL_HYBRID_3B,
        engine_version="0.12.0",
        kv_pool_bytes=int(5.28 * GIB),
        context_tokens=2048,
    )
    assert (found.capacity_tokens, found.attention_block_size) == (83_968, 2080)
    assert found.max_concurrency == 41.5


@pytest.mark.parametrize(
    ("version", "mode"), [("0.27.1", "none"), ("0.28.0", "align"), ("0.33", "align"), ("", "align")]
)
def test_the_state_mode_by_version(version, mode) -> None:
    default = plan(HYBRID_27B, engine_version=version, kv_pool_bytes=8 * GIB)
    stated = plan(HYBRID_27B, engine_version=version, kv_pool_bytes=8 * GIB, mamba_cache_mode=mode)
    assert default.kv_needed_bytes == stated.kv_needed_bytes
    off = plan(HYBRID_27B, engine_version=version, kv_pool_bytes=8 * GIB, prefix_caching=False)
    assert off.kv_needed_bytes <= default.kv_needed_bytes


def test_two_batches_are_in_flight_since_0_32() -> None:
    options = {"kv_pool_bytes": 8 * GIB, "context_tokens": 100_000}
    new = plan(SLIDING_26B, engine_version="0.32.0", **options)
    double = plan(SLIDING_26B, engine_version="0.31", max_num_batched_tokens=4096, **options)
    assert new.kv_needed_bytes == double.kv_needed_bytes


def test_one_block_is_never_given_out_since_0_32() -> None:
    pool = 100 * 16 * 131_072
    assert plan(engine_version="0.31", kv_pool_bytes=pool).max_context_tokens == 1600
    assert plan(engine_version="0.32", kv_pool_bytes=pool).max_context_tokens == 1584


def test_the_oldest_engine_reads_whole_prompts() -> None:
    options = {"cards": TWO_24[:1], "utilization": 0.9, "engine_version": "0.6.x (V0)"}
    short = plan(context_tokens=20_000, **options).gpus[0].size(PartKind.ACTIVATIONS)
    longer = plan(context_tokens=29_000, **options).gpus[0].size(PartKind.ACTIVATIONS)
    chunked = plan(context_tokens=40_000, **options).gpus[0].size(PartKind.ACTIVATIONS)
    assert chunked < short < longer
    assert short / GIB == pytest.approx(1.71, abs=0.3)


def test_pipeline_stages_and_the_check_that_forgot_them() -> None:
    options = {"pipeline_parallel": 2, "kv_pool_bytes": 16 * GIB, "context_tokens": 131_072}
    good = plan(engine_version="0.32", **options)
    forgetful = plan(engine_version="0.15.1", **options)
    assert good.kv_needed_bytes == 8 * GIB
    assert forgetful.kv_needed_bytes == 16 * GIB
    assert good.max_concurrency == forgetful.max_concurrency == 2.0
    assert plan(engine_version="?", **options).kv_needed_bytes == 16 * GIB
    assert 0.45 < good.weights_bytes / plan(kv_pool_bytes=GIB).weights_bytes < 0.55


@pytest.mark.parametrize(
    ("config", "tp", "words"),
    [
        (FALCON_7B, 2, "Total number of attention heads (71)"),
        (DENSE_8B, 3, "tensor parallel size (3)"),
        ({**DENSE_8B, "num_attention_heads": 40, "num_key_value_heads": 10}, 4, "10 KV heads"),
        (HYBRID_27B, 5, "attention heads (24)"),
    ],
)
def test_heads_that_cannot_be_divided_are_refused_in_the_engines_words(config, tp, words) -> None:
    with pytest.raises(EngineRefusalError) as caught:
        plan(config, tensor_parallel=tp)
    assert words in str(caught.value.text)
    assert "Set the tensor parallel size to one of: 1" in str(caught.value.next_step)


def test_more_stages_than_layers() -> None:
    with pytest.raises(EngineRefusalError):
        plan(pipeline_parallel=33)


def test_a_context_that_is_too_long_is_refused_in_the_engines_words() -> None:
    found = plan(kv_pool_bytes=GIB, context_tokens=131_072)
    assert found.verdict is Verdict.DOES_NOT_FIT
    text = str(found.refusals[0])
    assert "16.00 GiB KV cache is needed" in text
    assert f"estimated maximum model length is {found.max_context_tokens}" in text


def test_more_requests_than_states_are_refused() -> None:
    """An L40S: max_num_seqs 256 against 184 blocks; the plan tells how many start."""
    options = {"engine_version": "0.22", "kv_pool_bytes": int(8.82 * GIB)}
    found = plan(HYBRID_27B, max_num_seqs=256, context_tokens=131_072, **options)
    assert found.max_num_seqs == 184
    assert "max_num_seqs (256) exceeds available Mamba cache blocks (184)" in str(
        found.refusals[-1]
    )
    fewer = plan(HYBRID_27B, max_num_seqs=184, context_tokens=131_072, **options)
    assert fewer.refusals == ()
    assert fewer.max_num_seqs == 184


def test_no_room_at_all() -> None:
    found = plan(DENSE_8B, cards=(nominal_card(12),), utilization=0.9)
    assert found.kv_pool_bytes == 0
    assert found.max_context_tokens == 0
    assert "No available memory for the cache blocks" in str(found.refusals[0])
    assert found.gpus[0].size(PartKind.HEADROOM) == 0
    assert found.gpus[0].over_bytes > 0


def test_the_share_must_be_free_at_the_start() -> None:
    card = Card(int(31.84 * GIB), int(30.12 * GIB))
    refused = plan(cards=(card,), utilization=0.95, context_tokens=4096)
    assert "is less than desired GPU memory utilization" in str(refused.refusals[0])
    assert plan(cards=(card,), utilization=0.93, context_tokens=4096).refusals == ()


def test_the_largest_share_is_what_is_free_less_a_margin() -> None:
    card = Card(int(31.84 * GIB), int(30.12 * GIB))
    assert card_utilization(SizingSettings(), card) == 0.93
    unmeasured = Card(10 * GIB)
    assert card_utilization(SizingSettings(reserve_bytes=GIB), unmeasured) == 0.9
    assert card_utilization(SizingSettings(), Card(GIB)) == 0.0


def test_the_smaller_card_decides() -> None:
    uneven = plan(cards=(nominal_card(24), nominal_card(16)), tensor_parallel=2, utilization=0.9)
    small = plan(cards=(nominal_card(16), nominal_card(16)), tensor_parallel=2, utilization=0.9)
    assert uneven.kv_pool_bytes == small.kv_pool_bytes
    assert uneven.gpus[0].size(PartKind.HEADROOM) > uneven.gpus[1].size(PartKind.HEADROOM)


def test_file_sizes_come_before_the_configuration() -> None:
    found = plan(file_bytes=5 * GIB, kv_pool_bytes=GIB)
    assert found.weights_bytes == 5 * GIB
    assert any("weight files" in str(a) for a in found.assumptions)
    unknown = {k: v for k, v in DENSE_8B.items() if k != "intermediate_size"}
    assert plan(unknown, file_bytes=5 * GIB, kv_pool_bytes=GIB).weights_bytes == 5 * GIB
    bare = plan(unknown, kv_pool_bytes=GIB)
    assert bare.weights_bytes is None
    assert bare.max_context_tokens == 8176
    assert any("intermediate_size" in str(a) for a in bare.assumptions)
    assert plan(unknown, cards=TWO_24).kv_pool_bytes is None


def test_assumptions_name_every_default() -> None:
    texts = " ".join(str(a) for a in plan(HYBRID_27B, engine_version="", cards=TWO_24).assumptions)
    for words in (
        "version is not known",
        "Tokens per step",
        "Parallel requests",
        "align",
        "table of readings",
        "1.30 GiB",
    ):
        assert words in texts
    stated = plan(
        HYBRID_27B,
        cards=(Card(24 * GIB, 23 * GIB),),
        max_num_batched_tokens=2048,
        max_num_seqs=8,
        mamba_cache_mode="none",
    )
    assert len(stated.assumptions) == 1


def test_a_measured_overhead_replaces_the_estimate_and_is_told() -> None:
    options = {"cards": TWO_24, "tensor_parallel": 2, "utilization": 0.9, "context_tokens": 8192}
    cold = plan(**options)
    found = Measurement("m", "vllm", "0.32.0", "/m", 0.0, 8 * GIB, None, 2 * GIB)
    warm = plan(measurement=found, **options)
    assert warm.calibrated
    assert not cold.calibrated
    budget = int(0.9 * TWO_24[0].total_bytes)
    assert warm.kv_pool_bytes == budget - 8 * GIB - 2 * GIB
    assert any("measured on this machine" in str(a) for a in warm.assumptions)
    tiny = plan(measurement=replace(found, overhead_bytes=GIB // 10), **options)
    assert tiny.kv_pool_bytes == budget - 8 * GIB - GIB // 10


def test_large_cards_have_larger_defaults() -> None:
    small = plan(cards=(nominal_card(24),), utilization=0.9)
    large = plan(cards=(nominal_card(80),), utilization=0.9)
    assert large.gpus[0].size(PartKind.ACTIVATIONS) > small.gpus[0].size(PartKind.ACTIVATIONS)

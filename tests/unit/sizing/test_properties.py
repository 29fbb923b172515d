"""What must hold for every model and every setting: monotone, never negative, solvers exact."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fixtures.sizing_models import ALL
from twinrig.domain.errors import TwinrigError
from twinrig.domain.memory import GIB, Card, PartKind, SizingRules, SizingSettings, Verdict
from twinrig.sizing.cards import nominal_card, real_total_bytes
from twinrig.sizing.estimate import estimate, sized_model
from twinrig.sizing.solve import best_quantization, largest_context, levers
from twinrig.sizing.versions import parse_version, version_or_newest
from twinrig.sizing.vllm_plan import gather

MODELS = {name: sized_model(config) for name, config in ALL.items()}
names = st.sampled_from(sorted(MODELS))
vllm = st.builds(
    SizingSettings,
    engine_version=st.sampled_from(["", "0.9.1", "0.12.0", "0.20.2", "0.22", "0.28", "0.32.0"]),
    tensor_parallel=st.sampled_from([1, 2, 4, 8]),
    context_tokens=st.integers(1, 300_000),
    kv_dtype=st.sampled_from(["auto", "fp8", "int8_per_token_head", "nvfp4"]),
    max_num_seqs=st.one_of(st.none(), st.integers(1, 1024)),
    max_num_batched_tokens=st.one_of(st.none(), st.integers(16, 65_536)),
    draft_tokens=st.integers(0, 8),
    mamba_cache_mode=st.sampled_from(["", "none", "align"]),
    quantization=st.sampled_from(["bf16", "fp8", "awq-int4"]),
    utilization=st.one_of(st.none(), st.floats(0.1, 1.0)),
    enforce_eager=st.booleans(),
    text_only=st.booleans(),
    cards=st.sampled_from([(nominal_card(n),) * 8 for n in (12, 16, 24, 80)]),
)
exl3 = st.builds(
    SizingSettings,
    engine_id=st.just("tabbyapi"),
    rules=st.just(SizingRules.EXL3),
    engine_version=st.sampled_from(["", "0.0.29", "0.0.43", "1.4.1", "1.6.1", "1.6.5"]),
    tensor_parallel=st.sampled_from([None, 2]),
    context_tokens=st.integers(1, 300_000),
    bits_per_weight=st.floats(1.5, 8),
    cache_mode=st.sampled_from(["FP16", "Q8", "4,4", "2,3"]),
    max_batch_size=st.one_of(st.none(), st.integers(1, 16)),
    draft_tokens=st.integers(0, 8),
    chunk_size=st.sampled_from([256, 2048, 8192]),
    cards=st.sampled_from([(nominal_card(a), nominal_card(b)) for a, b in ((12, 12), (24, 16))]),
    reserve_bytes=st.integers(0, 3 * GIB),
)
either = st.one_of(vllm, exl3)


def planned(name, asked):
    """The plan, None where the engine refuses heads and cards."""
    try:
        return estimate(MODELS[name], asked)
    except TwinrigError:
        return None


@settings(max_examples=150, deadline=None)
@given(names, either)
def test_nothing_is_negative_and_verdicts_agree(name, asked) -> None:
    plan = planned(name, asked)
    if plan is None:
        return
    for gpu in plan.gpus:
        assert all(part.size_bytes >= 0 for part in gpu.parts)
        if gpu.over_bytes == 0:
            assert sum(p.size_bytes for p in gpu.parts) == gpu.total_bytes
        else:
            assert gpu.size(PartKind.HEADROOM) == 0
    if asked.rules is SizingRules.EXL3:
        over = any(gpu.over_bytes > 8 for gpu in plan.gpus)
        assert over == (plan.verdict is Verdict.DOES_NOT_FIT) or not over
    assert (plan.verdict is Verdict.DOES_NOT_FIT) or not plan.refusals


@settings(max_examples=120, deadline=None)
@given(names, either, st.integers(1, 100_000))
def test_more_context_never_needs_less(name, asked, more) -> None:
    plan = planned(name, asked)
    if plan is None:
        return
    longer = planned(name, replace(asked, context_tokens=asked.context_tokens + more))
    assert longer.kv_needed_bytes >= plan.kv_needed_bytes
    assert not (longer.verdict is Verdict.FITS and plan.verdict is Verdict.DOES_NOT_FIT)


@settings(max_examples=120, deadline=None)
@given(names, vllm)
def test_more_cards_never_need_more_each(name, asked) -> None:
    one = planned(name, replace(asked, tensor_parallel=1))
    two = planned(name, replace(asked, tensor_parallel=2))
    if one is None or two is None:
        return
    assert two.weights_bytes <= one.weights_bytes
    pool = gather(MODELS[name].shape, replace(asked, tensor_parallel=1), None).pool
    half = gather(MODELS[name].shape, replace(asked, tensor_parallel=2), None).pool
    assert half.block_bytes / max(1, block(half)) <= pool.block_bytes / max(1, block(pool)) * 1.001


def block(pool) -> int:
    """Tokens that a block of the widest attention group holds; states count one."""
    return max((b.block for b, _ in pool.groups if b.kind is not None), default=1)


@settings(max_examples=120, deadline=None)
@given(names, vllm, st.integers(1, 16), st.integers(1, 16_384))
def test_larger_batches_never_leave_more(name, asked, requests, tokens) -> None:
    first = replace(asked, max_num_seqs=requests, max_num_batched_tokens=tokens)
    second = replace(asked, max_num_seqs=2 * requests, max_num_batched_tokens=2 * tokens)
    small, large = planned(name, first), planned(name, second)
    if small is None:
        return
    assert large.kv_pool_bytes <= small.kv_pool_bytes
    assert large.max_context_tokens <= small.max_context_tokens


@settings(max_examples=150, deadline=None)
@given(names, vllm)
def test_capacity_and_need_are_inverse(name, asked) -> None:
    try:
        parts = gather(MODELS[name].shape, asked, None)
    except TwinrigError:
        return
    most = largest_context(MODELS[name], asked, 2**22)
    need = parts.checked.needed_bytes
    if most:
        assert need(most, parts.traffic) <= parts.usable
    if most < 2**22:
        assert need(most + 1, parts.traffic) > parts.usable


@settings(max_examples=60, deadline=None)
@given(names, exl3, st.integers(256, 65_536))
def test_the_best_bits_fit_and_the_next_step_does_not(name, asked, context) -> None:
    found = best_quantization(MODELS[name], asked, context)
    if found is None:
        return
    assert found.plan.verdict is not Verdict.DOES_NOT_FIT
    if found.bits < 8:
        more = replace(asked, context_tokens=context, bits_per_weight=round(found.bits + 0.05, 2))
        assert planned(name, more).verdict is Verdict.DOES_NOT_FIT


@settings(max_examples=60, deadline=None)
@given(names, either)
def test_levers_give_what_they_promise_and_the_best_comes_first(name, asked) -> None:
    if planned(name, asked) is None:
        return
    found = levers(MODELS[name], asked)
    gains = [lever.gain_tokens for lever in found]
    assert gains == sorted(gains, reverse=True)
    assert all(gain > 0 for gain in gains)
    assert len({lever.setting for lever in found if lever.setting != "cache_mode"}) <= len(found)


def test_levers_by_name() -> None:
    asked = SizingSettings(
        engine_version="0.32",
        cards=(nominal_card(32),),
        quantization="awq-int4",
        max_num_batched_tokens=16_384,
        max_num_seqs=64,
        utilization=0.8,
        draft_tokens=2,
    )
    settings_found = {lever.setting: lever.value for lever in levers(MODELS["hybrid"], asked)}
    assert settings_found["max_num_batched_tokens"] == "2048"
    assert settings_found["kv_cache_dtype"] == "fp8"
    assert settings_found["enforce_eager"] == "true"
    assert settings_found["speculative_config"] == ""
    assert settings_found["gpu_memory_utilization"] == "0.95"
    assert settings_found["enable_prefix_caching"] == "false"


def test_levers_of_exllamav3_by_name() -> None:
    asked = SizingSettings(
        engine_id="tabbyapi",
        rules=SizingRules.EXL3,
        engine_version="0.0.43",
        cards=(nominal_card(12), nominal_card(12)),
        tensor_parallel=2,
        bits_per_weight=4.15,
        draft_tokens=4,
        max_batch_size=2,
    )
    found = {lever.setting for lever in levers(MODELS["hybrid"], asked)}
    assert {"cache_mode", "max_batch_size", "draft_mode", "chunk_size"} <= found


def test_the_best_quantisation_of_vllm() -> None:
    asked = SizingSettings(engine_version="0.32", cards=(nominal_card(24),), max_num_seqs=8)
    roomy = best_quantization(MODELS["dense"], replace(asked, cards=(nominal_card(48),)), 8192)
    tight = best_quantization(MODELS["dense"], asked, 60_000)
    assert (roomy.name, tight.name) == ("bf16", "fp8")
    assert best_quantization(MODELS["latent"], asked, 8192) is None


def test_without_cards_there_is_nothing_to_solve() -> None:
    asked = SizingSettings(engine_version="0.32")
    assert largest_context(MODELS["dense"], asked) is None
    assert levers(MODELS["dense"], asked) == ()


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("0.22+", (0, 22)),
        ("0.7.x (V0)", (0, 7)),
        ("0.10.1+gptoss", (0, 10, 1)),
        ("0.23-0.24", (0, 23)),
        ("0.15/0.16 (2026-02)", (0, 15)),
        ("0.19 dev (gemma)", (0, 19)),
        ("v1.6.2", (1, 6, 2)),
        ("0.2x (2026-09)", None),
        ("0.1x", None),
        ("2026-05", None),
        ("", None),
        ("newest", None),
        ("0.11.0rc (2025-09)", (0, 11, 0)),
    ],
)
def test_versions_as_people_write_them(text, version) -> None:
    assert parse_version(text) == version
    assert version_or_newest(text) > (0, 0)


@given(st.floats(1, 1000))
def test_real_sizes_are_a_little_below_the_boxes(nominal) -> None:
    assert 0.9 * nominal * GIB < real_total_bytes(nominal) <= nominal * GIB
    assert nominal_card(nominal) == Card(real_total_bytes(nominal), nominal_gb=nominal)

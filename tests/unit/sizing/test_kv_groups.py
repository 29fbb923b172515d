"""vLLM's blocks and groups, pinned to what its logs print (facts measured on real start-ups)."""

from __future__ import annotations

import copy

import pytest

from fixtures.sizing_models import (
    DENSE_8B,
    GPT_OSS_20B,
    HYBRID_27B,
    KIMI_LINEAR,
    LATENT_1T,
    PARALLEL_HYBRID_3B,
    SHORT_CONV,
    SLIDING_26B,
    SPARSE_744B,
    pattern,
)
from twinrig.domain.memory import GIB
from twinrig.sizing.kv_formats import resolve_format, token_bytes
from twinrig.sizing.kv_groups import PoolRules, Traffic, build_pool, longest
from twinrig.sizing.model import read_model


def per_token(config, kv_format="auto", tp=1) -> int:
    shape = read_model(config)
    return sum(token_bytes(a, shape, kv_format, tp) * n for a, n in shape.attentions)


@pytest.mark.parametrize(
    ("config", "kv_format", "tp", "expected"),
    [
        (DENSE_8B, "auto", 1, 131_072),
        (DENSE_8B, "fp8", 2, 32_768),
        (DENSE_8B, "fp8", 16, 8_192),  # 8 heads on 16 cards: one on each, copied
        (HYBRID_27B, "auto", 1, 65_536),
        (HYBRID_27B, "int8_per_token_head", 2, 16 * 2 * 2 * 260),
        (LATENT_1T, "auto", 8, 70_272),  # the latent is whole on every card
        (LATENT_1T, "fp8", 8, 35_136),
        (SPARSE_744B, "auto", 8, 78 * (576 * 2 + 132)),
        (SPARSE_744B, "fp8", 8, 78 * (656 + 132)),
        (DENSE_8B, "nvfp4", 1, 36_864),
        (DENSE_8B, "bfloat16", 1, 131_072),
    ],
)
def test_bytes_of_a_token(config, kv_format, tp, expected) -> None:
    assert per_token(config, kv_format, tp) == expected


def test_the_checkpoint_may_ask_for_eight_bits() -> None:
    scheme = {"kv_cache_scheme": {"num_bits": 8, "type": "float"}}
    shape = read_model({**DENSE_8B, "quantization_config": scheme})
    assert resolve_format(shape, "auto") == "fp8"
    assert resolve_format(shape, "bfloat16") == "bfloat16"
    modelopt = read_model({**DENSE_8B, "quantization_config": {"kv_cache_quant_algo": "FP8"}})
    assert resolve_format(modelopt, "auto") == "fp8"
    assert resolve_format(read_model(DENSE_8B), "") == "auto"


@pytest.mark.parametrize(
    ("config", "kv_format", "tp", "drafts", "block"),
    [
        (HYBRID_27B, "auto", 1, 0, 784),
        (HYBRID_27B, "auto", 2, 0, 784),
        (HYBRID_27B, "fp8", 1, 0, 1568),
        (HYBRID_27B, "fp8", 1, 2, 1600),
        (PARALLEL_HYBRID_3B, "auto", 1, 0, 2080),
    ],
)
def test_setting_attention_block_size(config, kv_format, tp, drafts, block) -> None:
    pool = build_pool(read_model(config), PoolRules(kv_format, tp, drafts))
    assert pool.attention_block == block


def test_uniform_models_have_one_group_of_sixteen_tokens() -> None:
    pool = build_pool(read_model(DENSE_8B), PoolRules("auto", 1))
    assert (pool.group_count, pool.block_bytes) == (1, 16 * 131_072)
    assert pool.needed_bytes(131_072, Traffic(2048)) == 16 * GIB
    assert pool.needed_bytes(1, Traffic(2048)) == pool.block_bytes


def test_hybrid_requests_hold_states_beside_tokens() -> None:
    """8.18 GiB for 131,072 tokens as an L40S printed; 2 more blocks a group in align mode."""
    pool = build_pool(read_model(HYBRID_27B), PoolRules("auto", 1))
    assert pool.block_bytes == 51_380_224
    assert pool.blocks(131_072, Traffic(2048)) == 168 + 3
    assert pool.needed_bytes(131_072, Traffic(2048)) / GIB == pytest.approx(8.18, abs=0.005)
    assert pool.blocks(131_072, Traffic(2048, aligned=True)) == 168 + 6
    assert pool.state_blocks(Traffic(2048, drafts=4, aligned=True)) == 18


def test_drafting_adds_a_layer_and_blocks() -> None:
    """17 attention and 48 state layers: groups of 17, 95 blocks wide as a 2x 3090 printed."""
    shape = read_model(HYBRID_27B)
    pool = build_pool(shape, PoolRules("int8_per_token_head", 2, 4, draft_layers=1))
    assert pool.attention_block == 1584
    assert pool.block_bytes == 17 * 1584 * 1040
    blocks = int(11.1 * GIB) // pool.block_bytes
    needed = pool.blocks(262_144, Traffic(8192, 4, aligned=True))
    assert (blocks, needed) == (425, 184)


def test_windows_hold_the_window_and_a_batch() -> None:
    """The 13,445 blocks of a 256,000-token request on a 32 GB card under WSL2."""
    pool = build_pool(read_model(SLIDING_26B), PoolRules("fp8", 1))
    assert pool.block_bytes == 5 * 65_536
    assert pool.blocks(256_000, Traffic(16_384)) == 8000 + 5 * 1089
    small = pool.blocks(256_000, Traffic(2_048))
    assert small == 8000 + 5 * 193


def test_equal_counts_make_two_groups() -> None:
    pool = build_pool(read_model(GPT_OSS_20B), PoolRules("auto", 1))
    assert (pool.group_count, pool.block_bytes) == (2, 12 * 32_768)


def test_nearly_equal_counts_are_padded_to_the_larger() -> None:
    config = {**GPT_OSS_20B, "num_hidden_layers": 25}
    config["layer_types"] = [*GPT_OSS_20B["layer_types"], "full_attention"]
    pool = build_pool(read_model(config), PoolRules("auto", 1))
    assert (pool.group_count, pool.block_bytes) == (2, 13 * 32_768)


def test_windows_count_in_full_without_the_hybrid_manager() -> None:
    pool = build_pool(read_model(GPT_OSS_20B), PoolRules("auto", 1, separate_windows=False))
    assert pool.group_count == 1
    assert pool.block_bytes == 24 * 32_768


def test_chunks_hold_a_chunk_and_a_batch() -> None:
    config = {**DENSE_8B, "attention_chunk_size": 8192, "no_rope_layers": [1, 1, 1, 0] * 8}
    pool = build_pool(read_model(config), PoolRules("auto", 1))
    assert pool.blocks(131_072, Traffic(2048)) == 8192 + 3 * 640


def test_sparse_attention_has_blocks_of_64() -> None:
    pool = build_pool(read_model(SPARSE_744B), PoolRules("auto", 8))
    assert pool.blocks(65, Traffic(2048)) == 2
    assert pool.block_bytes == 64 * 78 * 1284


def test_latent_hybrids_have_blocks_of_128() -> None:
    pool = build_pool(read_model(KIMI_LINEAR), PoolRules("auto", 1))
    assert pool.attention_block is not None
    assert pool.attention_block % 128 == 0


def test_small_states_leave_the_usual_block() -> None:
    pool = build_pool(read_model(SHORT_CONV), PoolRules("auto", 1))
    assert pool.attention_block is None
    assert pool.groups[0][0].block == 16


def test_a_model_of_states_alone_has_no_tokens_in_its_blocks() -> None:
    config = {
        "hidden_size": 1024,
        "num_hidden_layers": 4,
        "state_size": 16,
        "time_step_rank": 64,
        "conv_kernel": 4,
        "intermediate_size": 2048,
        "vocab_size": 100,
    }
    pool = build_pool(read_model(config), PoolRules("auto", 1))
    assert pool.attention_block is None
    assert pool.blocks(10**6, Traffic(2048)) == 1


def test_longest_is_exact() -> None:
    pool = build_pool(read_model(DENSE_8B), PoolRules("auto", 1))
    traffic = Traffic(2048)
    assert longest(pool, 10 * pool.block_bytes, traffic, 10**6) == 160
    assert longest(pool, 10 * pool.block_bytes - 1, traffic, 10**6) == 144
    assert longest(pool, 10**12, traffic, 777) == 777
    assert longest(pool, pool.block_bytes - 1, traffic, 10**6) == 0
    assert longest(pool, 10**12, traffic, 0) == 0


def test_two_kinds_of_pages_are_brought_to_one_size() -> None:
    """Without a common divisor the smaller page is padded and keeps its tokens."""
    config = copy.deepcopy(SLIDING_26B)
    config["text_config"]["num_global_key_value_heads"] = 3
    pool = build_pool(read_model(config), PoolRules("fp8", 1))
    pages = {bucket.page for bucket, _ in pool.groups}
    blocks = {bucket.block for bucket, _ in pool.groups}
    assert (pages, blocks) == ({65_536}, {16})


def test_pattern_helper() -> None:
    assert pattern(4, 2, "a", "b") == ["b", "a", "b", "a"]

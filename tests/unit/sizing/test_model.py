"""From configurations to shapes: every way to say which layer is which, and nonsense."""

from __future__ import annotations

import copy
import json

import pytest

from fixtures.sizing_models import (
    ALL,
    DENSE_8B,
    FALCON_7B,
    GRANITE_HYBRID,
    HYBRID_27B,
    JAMBA,
    KIMI_LINEAR,
    LATENT_1T,
    NEMOTRON_H,
    PARALLEL_HYBRID_3B,
    SHORT_CONV,
    SLIDING_26B,
)
from twinrig.domain.memory import UnsizableError
from twinrig.sizing.model import read_model
from twinrig.sizing.reading import MAX_CONFIG_BYTES, parse_config
from twinrig.sizing.shape import AttentionKind, StateKind


def counts(config) -> tuple[dict[str, int], dict[str, int]]:
    shape = read_model(config)
    attentions: dict[str, int] = {}
    for attention, count in shape.attentions:
        attentions[attention.kind] = attentions.get(attention.kind, 0) + count
    return attentions, {s.kind.value: n for s, n in shape.states}


@pytest.mark.parametrize(
    ("config", "attentions", "states"),
    [
        (DENSE_8B, {"full": 32}, {}),
        (HYBRID_27B, {"full": 16}, {"gated_delta": 48}),
        (SLIDING_26B, {"full": 5, "sliding": 25}, {}),
        (LATENT_1T, {"full": 61}, {}),
        (PARALLEL_HYBRID_3B, {"full": 32}, {"mamba2": 32}),
        (GRANITE_HYBRID, {"full": 4}, {"mamba2": 36}),
        (JAMBA, {"full": 4}, {"mamba1": 28}),
        (SHORT_CONV, {"full": 6}, {"short_conv": 10}),
        (NEMOTRON_H, {"full": 4}, {"mamba2": 27}),
        (KIMI_LINEAR, {"full": 7}, {"kimi_delta": 20}),
    ],
)
def test_kinds_of_layers(config, attentions, states) -> None:
    assert counts(config) == (attentions, states)


def test_an_interval_counts_as_a_list() -> None:
    config = copy.deepcopy(HYBRID_27B)
    del config["text_config"]["layer_types"]
    config["text_config"]["full_attention_interval"] = 4
    assert read_model(config).layers == read_model(HYBRID_27B).layers


def test_a_window_pattern_of_letters() -> None:
    config = {**DENSE_8B, "sliding_window": 4096, "sliding_window_pattern": "LLLG"}
    assert counts(config)[0] == {"sliding": 24, "full": 8}


def test_a_window_pattern_as_a_number() -> None:
    config = {**DENSE_8B, "sliding_window": 4096, "sliding_window_pattern": 4}
    shape = read_model(config)
    assert [x.attention.kind for x in shape.layers[:4]] == [
        AttentionKind.SLIDING,
        AttentionKind.SLIDING,
        AttentionKind.SLIDING,
        AttentionKind.FULL,
    ]
    assert {a.window for a, _ in shape.attentions} == {4096, 0}


def test_a_window_alone_slides_everywhere_unless_switched_off() -> None:
    assert counts({**DENSE_8B, "sliding_window": 4096})[0] == {"sliding": 32}
    off = {**DENSE_8B, "sliding_window": 4096, "use_sliding_window": False}
    assert counts(off)[0] == {"full": 32}


def test_chunks_follow_the_layers_with_rotary_positions() -> None:
    config = {**DENSE_8B, "attention_chunk_size": 8192, "no_rope_layers": [1, 1, 1, 0] * 8}
    assert counts(config)[0] == {"chunked": 24, "full": 8}


def test_classes_fill_in_what_their_configuration_leaves_out() -> None:
    config = {
        "model_type": "gemma3",
        "text_config": {
            "model_type": "gemma3_text",
            "hidden_size": 2560,
            "intermediate_size": 10240,
            "num_hidden_layers": 34,
            "sliding_window": 1024,
        },
    }
    shape = read_model(config)
    assert counts(config)[0] == {"sliding": 29, "full": 5}
    assert shape.tied
    assert {(a.heads, a.kv_heads, a.head_dim) for a, _ in shape.attentions} == {(8, 4, 256)}


def test_the_last_layers_may_use_the_cache_of_others() -> None:
    config = {**DENSE_8B, "num_kv_shared_layers": 12}
    assert counts(config)[0] == {"full": 20}


def test_searched_architectures_name_each_block() -> None:
    blocks = [
        {"attention": {"no_op": True}, "ffn": {"ffn_mult": 1.0}}
        if i % 2
        else {"attention": {"n_heads_in_group": 8}, "ffn": {"no_op": True}}
        for i in range(32)
    ]
    shape = read_model({**DENSE_8B, "block_configs": blocks})
    assert [(a.kv_heads, n) for a, n in shape.attentions] == [(4, 16)]
    assert {x.mlp.width for x in shape.layers} == {0, 2816}


def test_one_key_head_of_multi_query_attention() -> None:
    assert [a.kv_heads for a, _ in read_model(FALCON_7B).attentions] == [1]


def test_fallback_is_named() -> None:
    assert "every layer" in str(read_model(PARALLEL_HYBRID_3B).notes[0])
    assert read_model(DENSE_8B).notes == ()


def test_states_are_read() -> None:
    state, _ = read_model(HYBRID_27B).states[0]
    assert (state.kind, state.state_bytes, state.inner) == (StateKind.GATED_DELTA, 4, 6144)
    assert read_model(JAMBA).states[0][0].inner == 8192


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"num_hidden_layers": None}, "num_hidden_layers"),
        ({"num_attention_heads": None}, "num_attention_heads"),
        ({"hidden_size": None, "head_dim": 128}, "hidden_size"),
        ({"num_hidden_layers": "32"}, "num_hidden_layers"),
        ({"num_hidden_layers": -1}, "num_hidden_layers"),
        ({"num_hidden_layers": 10**12}, "num_hidden_layers"),
        ({"num_hidden_layers": 1.5}, "num_hidden_layers"),
        ({"num_hidden_layers": True}, "num_hidden_layers"),
        ({"num_hidden_layers": 100_000}, "num_hidden_layers"),
        ({"num_key_value_heads": [8, "x"] * 16}, "num_key_value_heads"),
        ({"num_key_value_heads": float("inf")}, "num_key_value_heads"),
        ({"layer_types": ["full_attention"] * 31}, "layer_types"),
        ({"layer_types": ["telepathy"] * 32}, "layer_types"),
        ({"layer_types": "full_attention", "layers_block_type": 7}, "layer_types"),
        ({"hybrid_override_pattern": "M" * 31 + "?"}, "hybrid_override_pattern"),
        ({"layer_types": ["linear_attention"] * 32}, "linear_num_value_heads"),
        ({"layer_types": ["sliding_attention"] * 32}, "sliding_window"),
        ({"kv_lora_rank": 512}, "qk_rope_head_dim"),
    ],
)
def test_a_key_that_is_missing_or_wrong_is_named(change, key) -> None:
    config = {k: v for k, v in {**DENSE_8B, **change}.items() if v is not None}
    with pytest.raises(UnsizableError) as caught:
        read_model(config)
    assert key in str(caught.value.text)
    assert caught.value.next_step is not None


def test_weights_may_be_unknown_while_the_cache_is_known() -> None:
    config = {k: v for k, v in DENSE_8B.items() if k != "intermediate_size"}
    assert read_model(config).unknown == ("intermediate_size",)


@pytest.mark.parametrize(
    "junk",
    [b"", b"[]", b"nonsense", b"\xff\xfe\x00", b"[" * 100_000, b"{" * 10, b"null", b'"text"'],
)
def test_junk_is_told_as_such(junk) -> None:
    with pytest.raises(UnsizableError) as caught:
        parse_config(junk)
    assert "no model configuration" in str(caught.value.text)


def test_ten_megabytes_of_junk() -> None:
    with pytest.raises(UnsizableError):
        parse_config(b"{" + b'"a":1,' * (MAX_CONFIG_BYTES // 3) + b"}")


@pytest.mark.parametrize("name", ALL)
def test_any_key_may_be_missing_without_a_traceback(name) -> None:
    config = ALL[name]
    inner = config.get("text_config", config)
    for key in list(inner):
        broken = copy.deepcopy(config)
        (broken.get("text_config") or broken).pop(key)
        try:
            read_model(broken)
        except UnsizableError as error:
            assert str(error.text)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("value", ["", "12", [], {}, -1, 1e308, None, [None], [{}], True])
def test_any_key_may_hold_nonsense_without_a_traceback(name, value) -> None:
    config = json.loads(json.dumps(ALL[name]))
    inner = config.get("text_config", config)
    for key in list(inner):
        before = inner[key]
        inner[key] = value
        try:
            read_model(config)
        except UnsizableError as error:
            assert str(error.text)
        inner[key] = before

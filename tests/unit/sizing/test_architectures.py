"""Other architectures, as vLLM 0.32 itself builds them on torch's meta device.

``vllm_shapes.jsonl`` holds configurations (the defaults of their classes, or after those of public
models) with the parameters' bytes on one card of one and of two, and the cache of all layers, as
``tests/real/shapes_of_vllm.py`` prints them.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from twinrig.domain.memory import UnsizableError
from twinrig.sizing.kv_formats import plain_token_bytes
from twinrig.sizing.model import note_of_unknown, read_model
from twinrig.sizing.shape import ModelShape
from twinrig.sizing.states import vllm_state_bytes
from twinrig.sizing.weights import BESIDE, weights_bytes

SHAPES = Path(__file__).parents[2] / "fixtures" / "vllm_shapes.jsonl"
CASES = [json.loads(line) for line in SHAPES.read_text("utf-8").splitlines()]
OFF = 0.02
WIDER_OFF = {"zamba2": 0.07}
"""Adapters of its shared layers are not counted."""
DENSE: dict[str, Any] = {
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "num_hidden_layers": 4,
    "vocab_size": 32000,
}


def cache_of(shape: ModelShape, tp: int) -> Counter[tuple[str, int, int]]:
    found: Counter[tuple[str, int, int]] = Counter()
    for attention, count in shape.attentions:
        size = plain_token_bytes(attention, shape, "auto", tp)
        found[attention.kind.value, size, attention.window] += count
    for state, count in shape.states:
        found["state", vllm_state_bytes(state, tp, 0), 0] += count
    return found


def test_there_are_enough() -> None:
    assert len(CASES) > 50
    assert len({case["config"]["model_type"] for case in CASES}) > 45


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_cache_and_weights_are_those_of_the_engine(case: dict[str, Any]) -> None:
    shape = read_model(case["config"])
    for tp, weights, cache in zip((1, 2), case["weights"], case["cache"], strict=True):
        ours = weights_bytes(shape, "bf16", tp)
        assert ours is not None
        rotary = (shape.max_position or 0) * max(
            (a.latent.rope_dim if a.latent else a.head_dim for a, _ in shape.attentions), default=0
        )
        off = WIDER_OFF.get(case["name"], OFF)
        assert ours - BESIDE - 2 * rotary == pytest.approx(weights, rel=off)
        theirs: Counter[tuple[str, int, int]] = Counter()
        for kind, size, window, count in cache:
            theirs[kind, size, window - window % 2] += count  # one class sees one token more
        assert cache_of(shape, tp) == theirs


def test_the_number_of_layers_may_be_that_of_their_list() -> None:
    words = ["full_attention", "mlp", "full_attention"]
    named = {k: v for k, v in DENSE.items() if k != "num_hidden_layers"}
    assert len(read_model({**named, "layers_block_type": words}).layers) == 3
    with pytest.raises(UnsizableError, match="num_hidden_layers"):
        read_model(named)


def test_what_is_said_of_single_layers_wins() -> None:
    single = {"01": {"head_dim": 512}, "3": {"num_key_value_heads": 1}, "x": {}, "2": None}
    shape = read_model({**DENSE, "head_dim": 128, "per_layer_config": single})
    heads = [x.attention for x in shape.layers if x.attention is not None]
    assert [a.head_dim for a in heads] == [128, 512, 128, 128]
    assert [a.kv_heads for a in heads] == [2, 2, 2, 1]


def test_words_that_are_not_known_are_taken_at_their_word() -> None:
    words = ["sliding_odd", "wise_attention", "odd_attn", "full_attention"]
    shape = read_model({**DENSE, "layer_types": words, "sliding_window": 512})
    kinds = [x.attention.kind.value for x in shape.layers if x.attention is not None]
    assert kinds == ["sliding", "full", "full", "full"]
    assert "odd_attn, sliding_odd, wise_attention" in shape.notes[0].params["word"]
    with pytest.raises(UnsizableError, match="riddle"):
        read_model({**DENSE, "layer_types": ["riddle"] * 4})


def test_windows_from_a_layer_on() -> None:
    keys = {"sliding_window": 512, "max_window_layers": 3}
    for use, kinds in ((True, ["full"] * 3 + ["sliding"]), (False, ["full"] * 4)):
        shape = read_model({**DENSE, **keys, "use_sliding_window": use})
        assert [x.attention.kind.value for x in shape.layers if x.attention] == kinds


def test_hybrid_layers_without_a_state_are_attention() -> None:
    shape = read_model({**DENSE, "layer_types": ["hybrid"] * 4})
    assert not shape.hybrid and len(shape.attentions) == 1
    assert "hybrid" in shape.notes[0].params["word"]


@pytest.mark.parametrize(
    ("keys", "matrices"),
    [
        ({"hidden_act": "silu"}, 3),
        ({"hidden_act": "gelu_pytorch_tanh"}, 3),
        ({"hidden_act": "gelu_pytorch_tanh", "use_bias": True}, 2),
        ({"hidden_act": "gelu", "use_parallel_residual": True}, 2),
        ({"hidden_act": "silu", "use_parallel_residual": False}, 3),
        ({"hidden_act": "gelu_new"}, 2),
        ({"hidden_act": "xielu"}, 2),
        ({"activation_function": "swiglu", "n_inner": 4096}, 3),
        ({"activation_function": "gelu_new", "n_inner": None, "intermediate_size": None}, 2),
    ],
)
def test_a_gate_or_none(keys: dict[str, Any], matrices: int) -> None:
    mlp = read_model({**DENSE, **keys}).layers[0].mlp
    assert mlp is not None and (mlp.matrices, mlp.width) == (matrices, 4096)


def test_a_section_is_saved_without_what_its_class_has_by_default() -> None:
    part = {"model_type": "llama", "vocab_size": 32064, "max_position_embeddings": 4096}
    shape = read_model({"model_type": "llava", "text_config": part})
    attention = shape.layers[0].attention
    assert attention is not None and len(shape.layers) == 32
    assert (attention.heads, attention.kv_heads, attention.head_dim) == (32, 32, 128)
    assert (shape.vocabulary, shape.max_position, shape.unknown) == (32064, 4096, ())
    paired = {
        "model_type": "paligemma",
        "text_config": {"model_type": "gemma", "hidden_size": 2048},
    }
    widths = [x.attention.head_dim for x in read_model(paired).layers if x.attention is not None]
    assert widths == [256] * 28 and read_model(paired).tied
    windows = {"text_config": {"model_type": "mistral", "sliding_window": None}}
    assert [a.kind.value for a, _ in read_model(windows).attentions] == ["full"]
    with pytest.raises(UnsizableError, match="num_hidden_layers"):
        read_model(part)  # a whole configuration names its layers


def test_what_cannot_be_sized_is_named() -> None:
    shape = read_model({k: v for k, v in DENSE.items() if k != "intermediate_size"})
    assert weights_bytes(shape, "bf16", 1) is None
    assert "intermediate_size" in str(note_of_unknown(shape)[0])


def test_an_encoder_with_a_gate_and_shared_keys() -> None:
    encoder = {"hidden_size": 1000, "depth": 2, "num_heads": 10, "intermediate_size": 3000}
    gated = {**encoder, "hidden_act": "silu", "num_key_value_heads": 5}
    sizes = []
    for part in (encoder, gated, {**encoder, "intermediate_size": 9000, "out_hidden_size": 3000}):
        vision = read_model({"text_config": DENSE, "vision_config": part}).vision
        assert vision is not None
        sizes.append(vision.parameters)
    projector = 1000 * 1024
    assert sizes[0] == 2 * (4_000_000 + 6_000_000) + projector
    assert sizes[1] == 2 * (3_000_000 + 9_000_000) + projector
    assert sizes[2] == sizes[0]

"""From a configuration to the shape of the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from twinrig.messages import Message, message
from twinrig.sizing.attention import read_attention
from twinrig.sizing.families import with_family_defaults
from twinrig.sizing.kinds import BOTH, CONV, LINEAR, MAMBA, MLP_ONLY, MOE_ONLY, counted, layer_kinds
from twinrig.sizing.mlp import read_mlp
from twinrig.sizing.reading import MAX_LAYERS, PER_LAYER, Config, missing
from twinrig.sizing.shape import Layer, Mlp, ModelShape, Vision
from twinrig.sizing.states import read_state

_COUNT = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
_STATE_WORDS = (LINEAR, MAMBA, CONV, BOTH)
_NO_MLP = Mlp()
_WIDEST = 8
"""The feed-forward part of an encoder is never so many times as wide as its layers."""
USUAL_ENCODER = 420_000_000
"""Parameters of the encoder that most models with images carry (27 layers of 1152)."""


def read_model(whole: Mapping[str, Any]) -> ModelShape:
    """Shape of the model that ``whole``, a parsed ``config.json``, describes.

    Raises UnsizableError that names the missing or wrong key.
    """
    config = Config(with_family_defaults(whole))
    count = config.integer(*_COUNT) or counted(config) or config.need(*_COUNT)
    if count > MAX_LAYERS:
        raise missing(_COUNT[0])
    words, fallback = layer_kinds(config, count)
    layers = _layers(config, words)
    hidden = config.need("hidden_size", "n_embd", "d_model")
    unknown = _unknown(config, layers)
    vision = _vision(config, hidden)
    notes: tuple[Message, ...] = () if fallback is None else (fallback,)
    if vision is not None and vision.assumed:
        notes += (message("The image encoder is not in the configuration: 0.8 GiB are assumed."),)
    return ModelShape(
        architecture=config.architecture,
        layers=layers,
        hidden=hidden,
        vocabulary=config.integer("vocab_size", "padded_vocab_size") or 0,
        tied=_tied(config),
        element_bytes=4 if _dtype(config) == "float32" else 2,
        max_position=config.integer("max_position_embeddings", "n_positions", "max_seq_len"),
        draft_layers=config.integer("mtp_num_hidden_layers", "num_nextn_predict_layers") or 0,
        per_layer_width=config.integer("hidden_size_per_layer_input") or 0,
        per_layer_vocabulary=config.integer("vocab_size_per_layer_input") or 0,
        vision=vision,
        quantization=_quantization(config),
        unknown=unknown,
        notes=notes,
    )


def _layers(config: Config, words: tuple[str, ...]) -> tuple[Layer, ...]:
    shared_from = len(words) - (config.integer("num_kv_shared_layers") or 0)
    mixer_only = any(word in (MLP_ONLY, MOE_ONLY) for word in words)
    blocks = config.integer("num_mem_blocks") or 0  # so many, used by all layers that have both
    known: dict[tuple[object, ...], Layer] = {}
    varies = _varies(config)
    found = []
    for number, word in enumerate(words):
        owns = number < shared_from
        copied = bool(blocks) and words[:number].count(BOTH) >= blocks
        alone = mixer_only and word not in (MLP_ONLY, MOE_ONLY)
        alone = alone or (bool(blocks) and (word != BOTH or copied))
        mlp = _NO_MLP if alone else read_mlp(config, number, only_experts=word == MOE_ONLY)
        key = (word, owns, mlp, copied, number if varies else 0)
        if key not in known:
            known[key] = _layer(config, word, number, owns, mlp)
            if copied:
                known[key] = _without_weights(known[key])
        found.append(known[key])
    return tuple(found)


def _layer(config: Config, word: str, number: int, owns: bool, mlp: Mlp | None) -> Layer:
    state = read_state(config, word if word != BOTH else MAMBA) if word in _STATE_WORDS else None
    attention = None
    if word not in (LINEAR, MAMBA, CONV, MLP_ONLY, MOE_ONLY):
        attention = read_attention(config, word, number, owns_cache=owns)
    if word in (MAMBA, BOTH) and not config.has("num_attention_heads"):
        mlp = _NO_MLP  # a pure state model has nothing between its mixers
    return Layer(attention, state, mlp)


def _without_weights(layer: Layer) -> Layer:
    """A layer whose attention is computed with the weights of another one."""
    if layer.attention is None:
        return layer
    return replace(layer, attention=replace(layer.attention, borrows_weights=True))


def _varies(config: Config) -> bool:
    """Whether attention differs from layer to layer beyond its kind."""
    names = (
        "num_key_value_heads",
        "num_key_value_heads_per_layer",
        "head_dim",
        "num_attention_heads",
        "block_configs",
    )
    return config.has(PER_LAYER) or any(isinstance(config.get(name), list) for name in names)


def _unknown(config: Config, layers: tuple[Layer, ...]) -> tuple[str, ...]:
    keys = []
    if any(layer.mlp is None for layer in layers):
        keys.append("intermediate_size")
    if not config.has("vocab_size", "padded_vocab_size"):
        keys.append("vocab_size")
    return tuple(keys)


def _tied(config: Config) -> bool:
    value = config.whole.get("tie_word_embeddings")
    if isinstance(value, bool):
        return value
    return config.flag("tie_word_embeddings", config.flag("tie_embedding"))


def _dtype(config: Config) -> str:
    return (config.text("dtype") or config.text("torch_dtype")).removeprefix("torch.")


def _quantization(config: Config) -> Mapping[str, object]:
    for name in ("quantization_config", "compression_config"):
        found = config.get(name)
        if isinstance(found, Mapping):
            return found
    return {}


def _vision(config: Config, hidden: int) -> Vision | None:
    """Parameters of the image encoder, from the usual keys of a transformer encoder."""
    part = config.whole.get("vision_config")
    if not isinstance(part, Mapping):
        multimodal = "ConditionalGeneration" in config.architecture
        return Vision(USUAL_ENCODER, assumed=True) if multimodal else None

    def number(*names: str) -> int:
        value = next((part[n] for n in names if isinstance(part.get(n), int)), 0)
        return int(value)

    width = number("hidden_size", "embed_dim", "width")
    depth = number("depth", "num_hidden_layers", "num_layers", "layers")
    inner = number("intermediate_size") or 4 * width
    if inner > _WIDEST * width:  # that of the merger
        inner = number("out_hidden_size") or inner
    gated = part.get("hidden_act") == "silu"
    heads, kv = number("num_attention_heads", "num_heads"), number("num_key_value_heads")
    shared = kv / heads if 0 < kv <= heads else 1
    attention = int((2 + 2 * shared) * width * width)
    layers = depth * (attention + (3 if gated else 2) * width * inner)
    merge = max(1, number("spatial_merge_size")) ** 2
    mergers = 1 + len(part.get("deepstack_visual_indexes") or ())
    joined = width * merge
    projector = mergers * joined * (joined + hidden) if merge > 1 else width * hidden
    table = width * number("num_position_embeddings", "position_embedding_size")
    return Vision(layers + projector + table)


def note_of_unknown(shape: ModelShape) -> tuple[Message, ...]:
    """Sentences about keys without which the weights cannot be sized."""
    return tuple(
        message("The configuration has no {key}: the size of the weights is not known.", key=key)
        for key in shape.unknown
    )

"""Reads the feed-forward part of a layer: dense, or experts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeGuard

from twinrig.sizing.reading import Config
from twinrig.sizing.shape import Mlp

_WIDTH = (
    "intermediate_size",
    "ffn_hidden_size",
    "n_inner",
    "ffn_dim",
    "block_ff_dim",
    "shared_intermediate_size",
)
_EXPERTS = (
    "num_experts",
    "num_local_experts",
    "n_routed_experts",
    "moe_num_experts",
    "num_routed_experts",
)


def read_mlp(config: Config, layer: int, *, only_experts: bool = False) -> Mlp | None:
    """Feed-forward part of a layer; None when its width is not in the configuration."""
    block = _block(config, layer)
    if block.get("no_op"):
        return Mlp()
    matrices = _matrices(config)
    experts = config.integer(*_EXPERTS, layer=layer) or 0
    if experts > 1 and (only_experts or _has_experts(config, layer)):
        return _moe(config, layer, experts, matrices)
    width = _dense_width(config, layer, block)
    return None if not width else Mlp(width, matrices)


def _dense_width(config: Config, layer: int, block: Mapping[str, object]) -> int | None:
    given = block.get("intermediate_size")
    if isinstance(given, int):
        return given
    factor = block.get("ffn_mult")
    if _factor(factor):
        hidden = config.need("hidden_size")
        return -(-int(2 * factor * hidden / 3) // 256) * 256
    width = config.integer("intermediate_size_mlp", *_WIDTH, layer=layer)
    if width is None and config.has("multi_query", "new_decoder_architecture"):
        return 4 * config.need("hidden_size")  # the width that such configurations leave out
    nested = config.part("ffn_config").get("ffn_hidden_size")
    if width is None and isinstance(nested, int):
        return nested
    if width and config.flag("block_auto_adjust_ff_dim"):
        width = _adjusted(config, width)
    double = config.flag("use_double_wide_mlp")
    return width * 2 if width and double and _shares_cache(config, layer) else width


def _factor(value: object) -> TypeGuard[float]:
    """A width is never more than some times the other."""
    return isinstance(value, (int, float)) and 0 < value <= 1000


def _adjusted(config: Config, width: int) -> int:
    width = 2 * width // 3
    factor = config.get("block_ffn_dim_multiplier")
    if _factor(factor):
        width = int(factor * width)
    step = config.integer("block_multiple_of") or 256
    return -(-width // step) * step


def _shares_cache(config: Config, layer: int) -> bool:
    count = config.need("num_hidden_layers")
    return layer >= count - (config.integer("num_kv_shared_layers") or 0)


def _moe(config: Config, layer: int, experts: int, matrices: int) -> Mlp | None:
    width = config.integer(
        "moe_intermediate_size",
        "expert_intermediate_size",
        "moe_ffn_hidden_size",
        "intermediate_size",
        layer=layer,
    )
    if not width:
        return None
    shared = config.integer(
        "shared_expert_intermediate_size", "moe_shared_expert_intermediate_size"
    )
    if shared is None:
        count = (
            config.integer(
                "n_shared_experts", "num_shared_experts", "num_shared_expert", layer=layer
            )
            or 0
        )
        shared = count * width
        if not count and config.has("shared_intermediate_size"):
            shared = config.integer("shared_intermediate_size") or 0
    dense = _beside(config)
    return Mlp(dense, matrices, experts, width, shared)


def _beside(config: Config) -> int:
    """Width of a dense part that works beside the experts in the same layer."""
    return (config.integer("intermediate_size") or 0) if config.flag("enable_moe_block") else 0


def _has_experts(config: Config, layer: int) -> bool:
    listed = config.get("mlp_layer_types")
    if isinstance(listed, list) and layer < len(listed):
        return bool(listed[layer] == "sparse")
    dense = config.numbers("mlp_only_layers")
    if dense and layer in dense:
        return False
    first = config.integer("first_k_dense_replace", "moe_layer_num_skipped", "num_dense_layers")
    if first and layer < first:
        return False
    chosen = config.numbers("moe_layers")
    if chosen:
        return layer in chosen
    step = (
        config.integer(
            "expert_layer_period",
            "decoder_sparse_step",
            "interleave_moe_layer_step",
            "moe_layer_freq",
        )
        or 1
    )
    if config.has("expert_layer_period"):
        return layer % step == (config.integer("expert_layer_offset") or 0) % step
    if config.has("decoder_sparse_step", "interleave_moe_layer_step"):
        return (layer + 1) % step == 0
    return layer % step == 0


def _matrices(config: Config) -> int:
    plain = config.text("mlp_hidden_act") or config.text("hidden_act") or config.text("activation")
    if config.has("hybrid_override_pattern") or config.flag("new_decoder_architecture"):
        return 2
    if config.has("multi_query"):
        return 2
    return 2 if plain in ("relu2", "relu") else 3


def _block(config: Config, layer: int) -> Mapping[str, object]:
    blocks = config.get("block_configs")
    if not isinstance(blocks, list) or layer >= len(blocks) or not isinstance(blocks[layer], dict):
        return {}
    found = blocks[layer].get("ffn")
    return found if isinstance(found, Mapping) else {}

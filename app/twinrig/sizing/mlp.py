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
    "ff_intermediate_size",
    "shared_intermediate_size",
)
_OLD_WIDTH = ("n_inner", "ffn_dim", "expansion_ratio", "apply_residual_connection_post_layernorm")
"""Keys of classes without a gate; what they leave out is four times the hidden size."""
_PARALLEL = ("use_parallel_residual",)
_ACTIVATION = ("mlp_hidden_act", "hidden_act", "activation", "activation_function")
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
    experts = config.integer(*_EXPERTS, layer=layer) or _nested(config, "moe_num_experts")
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
    if width is None and (
        config.has("multi_query", "new_decoder_architecture") or config.names(*_OLD_WIDTH)
    ):
        times = config.integer("expansion_ratio") or 4  # what such configurations leave out
        return times * config.need("hidden_size", "n_embd", "d_model")
    nested = _nested(config, "ffn_hidden_size")
    if width is None and nested:
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
    ) or _nested(config, "ffn_hidden_size")
    if not width:
        return None
    shared = config.integer(
        "shared_expert_intermediate_size", "moe_shared_expert_intermediate_size"
    )
    if shared is None:
        count = (
            config.integer(
                "n_shared_experts",
                "num_shared_experts",
                "num_shared_expert",
                "moe_num_shared_experts",
                layer=layer,
            )
            or 0
        )
        shared = count * width
        if not count and config.has("shared_intermediate_size"):
            shared = config.integer("shared_intermediate_size") or 0
        elif not count and config.has("interleave_moe_layer_step"):
            shared = width  # such layers always have one shared expert
    dense = _beside(config)
    return Mlp(dense, matrices, experts, width, shared)


def _nested(config: Config, name: str) -> int:
    """A number of the feed-forward part where that has a section of its own, 0 without."""
    value = config.part("ffn_config").get(name)
    return value if isinstance(value, int) and value > 0 else 0


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
    first = config.integer(
        "first_k_dense_replace",
        "moe_layer_num_skipped",
        "num_dense_layers",
        "moe_layer_start_index",
        layer=0,
    )
    if first and layer < first:
        return False
    last = config.get("moe_layer_end_index")
    if isinstance(last, int) and 0 <= last < layer:  # -1: the last one
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
    """2 without a gate: plain activations, and the keys of classes that never have one."""
    plain = next((text for name in _ACTIVATION if (text := config.text(name))), "")
    if plain in ("swiglu", "gegelu"):
        return 3
    if config.has("hybrid_override_pattern", "multi_query") or config.names(*_OLD_WIDTH):
        return 2
    if config.flag("new_decoder_architecture") or config.text("mlp_type") == "default":
        return 2
    if plain.startswith("gelu") and (config.flag("use_bias") or config.names(*_PARALLEL)):
        return 2
    return 2 if plain in ("relu2", "relu", "gelu_new", "gelu_fast", "xielu") else 3


def _block(config: Config, layer: int) -> Mapping[str, object]:
    blocks = config.get("block_configs")
    if not isinstance(blocks, list) or layer >= len(blocks) or not isinstance(blocks[layer], dict):
        return {}
    found = blocks[layer].get("ffn")
    return found if isinstance(found, Mapping) else {}

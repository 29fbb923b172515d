"""Reads the geometry of one attention layer."""

from __future__ import annotations

from collections.abc import Mapping

from twinrig.sizing.kinds import CHUNKED, SLIDING
from twinrig.sizing.reading import Config, missing
from twinrig.sizing.shape import Attention, AttentionKind, Latent

_KINDS = {SLIDING: AttentionKind.SLIDING, CHUNKED: AttentionKind.CHUNKED}


def read_attention(config: Config, word: str, layer: int, *, owns_cache: bool) -> Attention | None:
    """Geometry of attention layer ``layer`` of the kind ``word``; None when it has none.

    Raises UnsizableError when a key that every such layer needs is missing.
    """
    kind = _KINDS.get(word, AttentionKind.FULL)
    block = _block(config, layer)
    if block.get("no_op") or block.get("replace_with_linear"):
        return None
    heads = config.need("num_attention_heads", "n_head", "n_heads", "num_heads", layer=layer)
    if config.has("kv_lora_rank"):
        return _latent(config, heads, owns_cache)
    special = kind is AttentionKind.FULL and config.has("global_head_dim")
    head_dim = _head_dim(config, heads, layer, special)
    swa = kind is AttentionKind.SLIDING
    value_dim = (config.integer("swa_v_head_dim") if swa else None) or config.integer("v_head_dim")
    return Attention(
        kind=kind,
        heads=heads,
        kv_heads=_kv_heads(config, heads, layer, kind, block),
        head_dim=(config.integer("swa_head_dim") if swa else None) or head_dim,
        value_dim=value_dim or head_dim,
        window=_window(config, kind, layer),
        gated=config.flag("attn_output_gate") or config.has("full_attention_interval"),
        owns_cache=owns_cache,
        shares_values=special and config.flag("attention_k_eq_v"),
        input_width=config.integer("attention_hidden_size") or 0,
    )


def _latent(config: Config, heads: int, owns_cache: bool) -> Attention:
    rope_dim = config.integer("qk_rope_head_dim")
    if rope_dim is None:
        raise missing("qk_rope_head_dim")
    latent = Latent(
        rank=config.need("kv_lora_rank"),
        rope_dim=rope_dim,
        nope_dim=config.integer("qk_nope_head_dim") or 128,
        value_dim=config.integer("v_head_dim") or 128,
        query_rank=config.integer("q_lora_rank") or 0,
    )
    return Attention(
        kind=AttentionKind.FULL,
        heads=heads,
        kv_heads=1,
        head_dim=latent.rank + latent.rope_dim,
        value_dim=0,
        latent=latent,
        index_dim=config.integer("index_head_dim") or 0,
        index_heads=config.integer("index_n_heads") or 0,
        owns_cache=owns_cache,
    )


def _head_dim(config: Config, heads: int, layer: int, special: bool) -> int:
    if special:
        return config.need("global_head_dim")
    given = config.integer("head_dim", "attention_head_dim", "kv_channels", layer=layer)
    if given:
        return given
    hidden = config.integer("hidden_size", "n_embd", "d_model")
    if not hidden:
        raise missing("head_dim")
    return hidden // heads


def _kv_heads(
    config: Config, heads: int, layer: int, kind: AttentionKind, block: Mapping[str, object]
) -> int:
    group = block.get("n_heads_in_group")
    if isinstance(group, int) and group > 0:
        return max(1, heads // group)
    if config.flag("multi_query") and not config.flag("new_decoder_architecture"):
        return 1
    names: tuple[str, ...] = (
        "num_key_value_heads_per_layer",
        "num_key_value_heads",
        "num_kv_heads",
        "n_head_kv",
        "multi_query_group_num",
        "num_attention_groups",
    )
    if kind is AttentionKind.FULL:
        names = ("num_global_key_value_heads", *names)
    elif kind is AttentionKind.SLIDING:
        names = ("swa_num_key_value_heads", *names)
    nested = config.part("attn_config").get("kv_n_heads")
    if isinstance(nested, int) and nested > 0:
        return nested
    return config.integer(*names, layer=layer) or heads


def _window(config: Config, kind: AttentionKind, layer: int) -> int:
    if kind is AttentionKind.SLIDING:
        return config.need("sliding_window", "sliding_window_size", layer=layer)
    if kind is AttentionKind.CHUNKED:
        return config.need("attention_chunk_size")
    return 0


def _block(config: Config, layer: int) -> Mapping[str, object]:
    """Entry of this layer in ``block_configs`` (models made by architecture search)."""
    blocks = config.get("block_configs")
    if not isinstance(blocks, list) or layer >= len(blocks) or not isinstance(blocks[layer], dict):
        return {}
    found = blocks[layer].get("attention")
    return found if isinstance(found, Mapping) else {}

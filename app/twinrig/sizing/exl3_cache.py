"""exllamav3's cache and batch slots, over all cards. All of it is taken when the model loads."""

from __future__ import annotations

from twinrig.sizing.exl3_rules import PAGE, Exl3Rules
from twinrig.sizing.shape import Attention, AttentionKind, ModelShape, State
from twinrig.sizing.states import exl3_state_bytes

_RING_EXTRA = 512


def paged(attention: Attention, rules: Exl3Rules) -> bool:
    """Whether the layer's cache grows with the context; rings do not."""
    return not (rules.rings and attention.kind is AttentionKind.SLIDING)


def head_token_bytes(attention: Attention, rules: Exl3Rules) -> float:
    """Bytes of one token in one KV head; of a latent layer the whole vector."""
    keys, values = rules.key_bits, rules.value_bits
    if attention.latent is not None:
        rank, rope = attention.latent.rank, attention.latent.rope_dim
        stored = rank * 2.0 if keys is None else rank * keys / 8
        return stored + rope * 2 + attention.index_dim * 2  # the rope key stays FP16
    if keys is None or values is None:
        return (attention.head_dim + attention.value_dim) * 2.0
    return (attention.head_dim * keys + attention.value_dim * values) / 8


def layer_token_bytes(attention: Attention, rules: Exl3Rules) -> int:
    """Bytes of one token in one paged layer, all heads."""
    if not paged(attention, rules):
        return 0
    return int(head_token_bytes(attention, rules) * attention.kv_heads)


def ring_bytes(attention: Attention, rules: Exl3Rules) -> int:
    """Bytes of one slot of a sliding layer that is a ring: FP16 whatever the cache mode."""
    if paged(attention, rules):
        return 0
    tokens = -(-(attention.window - 1 + _RING_EXTRA) // PAGE) * PAGE
    return tokens * attention.kv_heads * (attention.head_dim + attention.value_dim) * 2


def slot_bytes(layer_attention: Attention | None, state: State | None, rules: Exl3Rules) -> int:
    """Bytes of one batch slot in one layer."""
    total = 0
    if layer_attention is not None and layer_attention.owns_cache:
        total += ring_bytes(layer_attention, rules)
    if state is not None:
        total += exl3_state_bytes(state, rules.version, rules.drafts)
    return total


def token_bytes_total(shape: ModelShape, rules: Exl3Rules) -> int:
    """Paged cache of one token, all layers and heads once."""
    return sum(layer_token_bytes(a, rules) * n for a, n in shape.attentions)


def slot_bytes_total(shape: ModelShape, rules: Exl3Rules) -> int:
    """Batch slot, all layers."""
    return sum(slot_bytes(x.attention, x.state, rules) * n for x, n in shape.kinds)

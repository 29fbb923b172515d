"""vLLM's KV cache: layers in groups that take whole blocks out of one pool.

Rules as in vLLM 0.32 (``v1/core/kv_cache_utils.py``), read and checked against start-ups.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from twinrig.sizing.kv_formats import plain_token_bytes, token_bytes
from twinrig.sizing.shape import Attention, AttentionKind, ModelShape
from twinrig.sizing.states import vllm_state_bytes

BLOCK = 16
SPARSE_BLOCK = 64
LATENT_HYBRID_BLOCK = 128
_NEARLY_EQUAL = 1.5


@dataclass(frozen=True)
class Traffic:
    """What decides the blocks of a request besides its length.

    ``in_flight`` are tokens scheduled but not settled; ``aligned`` is ``mamba_cache_mode align``.
    """

    in_flight: int
    drafts: int = 0
    aligned: bool = False


@dataclass(frozen=True)
class Bucket:
    """Layers of one kind: tokens per block, bytes of a block of one layer, number of layers.

    ``kind`` None: a state. ``window`` in tokens for sliding and chunked layers.
    """

    kind: AttentionKind | None
    block: int
    page: int
    layers: int
    window: int = 0

    def blocks(self, tokens: int, traffic: Traffic) -> int:
        """Blocks that one request of ``tokens`` holds in one group of this kind."""
        if self.kind is None:
            return (2 if traffic.aligned else 1) + traffic.drafts
        if self.kind is AttentionKind.SLIDING:
            held = min(self.window - 1 + traffic.in_flight, tokens)
            return -(-held // self.block) + 1
        if self.kind is AttentionKind.CHUNKED:
            return -(-min(self.window + traffic.in_flight, tokens) // self.block)
        return -(-tokens // self.block)


@dataclass(frozen=True)
class Pool:
    """How the pool is divided. ``groups`` pairs a bucket with its number of groups."""

    groups: tuple[tuple[Bucket, int], ...]
    block_bytes: int
    attention_block: int | None

    def blocks(self, tokens: int, traffic: Traffic) -> int:
        """Blocks of one request of ``tokens``."""
        return sum(bucket.blocks(tokens, traffic) * n for bucket, n in self.groups)

    def needed_bytes(self, tokens: int, traffic: Traffic) -> int:
        """Pool that one request of ``tokens`` needs on one card."""
        return self.blocks(tokens, traffic) * self.block_bytes

    def state_blocks(self, traffic: Traffic) -> int:
        """Blocks of one request that hold states."""
        return sum(b.blocks(0, traffic) * n for b, n in self.groups if b.kind is None)

    @property
    def group_count(self) -> int:
        """Number of block tables of a request."""
        return sum(n for _, n in self.groups)


@dataclass(frozen=True)
class PoolRules:
    """Settings that shape the pool: format of the cache, cards, draft tokens and layers added."""

    kv_format: str
    tp: int
    drafts: int = 0
    separate_windows: bool = True
    draft_layers: int = 0


def build_pool(shape: ModelShape, rules: PoolRules) -> Pool:
    """Divide the layers into groups. A model without any cache gives an empty pool."""
    attention = _attention_buckets(shape, rules)
    states = _state_buckets(shape, rules)
    if not states:
        return _attention_pool(attention)
    if not attention:
        return Pool(tuple((b, 1) for b in states), sum(b.page * b.layers for b in states), None)
    block = _aligned_block(shape, attention, states)
    widened = [_with_block(bucket, block) for bucket in attention]
    page = max(b.page for b in widened)
    padded = [replace(b, page=page) for b in (*_unified(widened), *states)]
    return _grouped(padded, block if block > BLOCK else None)


def _attention_buckets(shape: ModelShape, rules: PoolRules) -> list[Bucket]:
    found: dict[tuple[AttentionKind, int, int, int], int] = {}
    for attention, count in _with_drafts(shape, rules):
        kind, window = attention.kind, attention.window
        if not rules.separate_windows:
            kind, window = AttentionKind.FULL, 0
        size = token_bytes(attention, shape, rules.kv_format, rules.tp)
        plain = plain_token_bytes(attention, shape, rules.kv_format, rules.tp)
        key = (kind, window, size, plain)
        found[key] = found.get(key, 0) + count
    block = SPARSE_BLOCK if _sparse(shape) else BLOCK
    buckets = [
        Bucket(kind, block, block * size, count, window)
        for (kind, window, size, _plain), count in found.items()
    ]
    return _grown(buckets, [block * key[3] for key in found])


def _grown(buckets: list[Bucket], plain: list[int]) -> list[Bucket]:
    """Smaller pages hold more tokens, where the larger page is a multiple (scales aside)."""
    if len({(b.kind, b.window) for b in buckets}) < 2:
        return buckets
    largest = max(plain)
    grown = [
        replace(b, block=b.block * (largest // p), page=b.page * (largest // p))
        if largest % p == 0
        else b
        for b, p in zip(buckets, plain, strict=True)
    ]
    page = max(b.page for b in grown)
    return [replace(b, page=page) for b in grown]


def _with_drafts(shape: ModelShape, rules: PoolRules) -> list[tuple[Attention, int]]:
    found = list(shape.attentions)
    full = [a for a, _ in found if a.kind is AttentionKind.FULL]
    if rules.draft_layers and full:
        found.append((full[-1], rules.draft_layers))
    return found


def _sparse(shape: ModelShape) -> bool:
    return any(a.index_dim for a, _ in shape.attentions)


def _state_buckets(shape: ModelShape, rules: PoolRules) -> list[Bucket]:
    return [
        Bucket(None, 0, vllm_state_bytes(state, rules.tp, rules.drafts), count)
        for state, count in shape.states
    ]


def _aligned_block(shape: ModelShape, attention: Sequence[Bucket], states: Sequence[Bucket]) -> int:
    """Tokens per block so that a page of attention holds a state."""
    latent = any(a.latent is not None for a, _ in shape.attentions)
    unit = LATENT_HYBRID_BLOCK if latent else BLOCK
    per_token = min(b.page // b.block for b in attention)
    largest = max(b.page for b in states)
    return unit * max(1, math.ceil(largest / (unit * per_token)))


def _with_block(bucket: Bucket, block: int) -> Bucket:
    return replace(bucket, block=block, page=bucket.page // bucket.block * block)


def _unified(buckets: Sequence[Bucket]) -> list[Bucket]:
    page = max(b.page for b in buckets)
    return [replace(b, block=b.block * (page // b.page)) for b in buckets]


def _attention_pool(buckets: Sequence[Bucket]) -> Pool:
    if not buckets:
        return Pool((), 0, None)
    if len({(b.kind, b.window) for b in buckets}) == 1:
        total = sum(b.page * b.layers for b in buckets)
        return Pool(((buckets[0], 1),), total, None)
    return _grouped(list(buckets), None)


def _grouped(buckets: Sequence[Bucket], attention_block: int | None) -> Pool:
    """Groups of equal size: that of the rarest kind, or of the commonest if it is near."""
    merged: dict[tuple[AttentionKind | None, int, int], Bucket] = {}
    for bucket in buckets:
        key = (bucket.kind, bucket.block, bucket.window)
        seen = merged.get(key)
        layers = bucket.layers + (seen.layers if seen else 0)
        merged[key] = replace(bucket, layers=layers)
    counts = [b.layers for b in merged.values()]
    size = max(counts) if max(counts) < _NEARLY_EQUAL * min(counts) else min(counts)
    page = max(b.page for b in buckets)
    groups = tuple((b, -(-b.layers // size)) for b in merged.values())
    return Pool(groups, size * page, attention_block)


def longest(pool: Pool, available_bytes: int, traffic: Traffic, limit: int) -> int:
    """Longest request in tokens that the pool holds, up to ``limit``; 0 when not even one."""
    if limit < 1 or pool.needed_bytes(1, traffic) > available_bytes:
        return 0
    low, high = 1, limit
    while low < high:
        middle = (low + high + 1) // 2
        if pool.needed_bytes(middle, traffic) <= available_bytes:
            low = middle
        else:
            high = middle - 1
    return low

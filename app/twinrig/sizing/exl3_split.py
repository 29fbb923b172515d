"""How exllamav3 spreads a model: by whole units under tensor parallelism, else by layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from twinrig.domain.memory import MIB, Card, SizingSettings
from twinrig.sizing.exl3_cache import layer_token_bytes, slot_bytes
from twinrig.sizing.exl3_rules import Exl3Rules
from twinrig.sizing.exl3_weights import TILE, head_bytes, layer_bytes, matrix_bytes, padded
from twinrig.sizing.matrices import Role, layer_matrices
from twinrig.sizing.shape import Layer, ModelShape, StateKind

RESERVES = (96 * MIB, 512 * MIB)
"""Kept free on the first and on every further card when no split is given."""


@dataclass
class Load:
    """What one card gets, in bytes; ``kv_token`` is the paged cache of one token."""

    weights: float = 0.0
    kv_token: float = 0.0
    state: float = 0.0


@dataclass(frozen=True)
class LayerCost:
    """Bytes of one layer."""

    weights: int
    kv_token: int
    state: int


def budgets(settings: SizingSettings) -> list[float]:
    """What the split is made of: the given numbers, else free memory less the reserve."""
    if settings.gpu_split:
        return [float(v) for v in settings.gpu_split]
    free = [_free(card, settings.reserve_bytes) for card in settings.cards]
    return [max(1.0, f - RESERVES[min(i, 1)]) for i, f in enumerate(free)]


def _free(card: Card, reserve: int) -> float:
    return float(card.total_bytes - reserve if card.free_bytes is None else card.free_bytes)


def shares(units: int, ratio: Sequence[float]) -> list[int]:
    """``units`` in proportion to ``ratio``, whole ones, by largest remainder."""
    total = sum(ratio)
    exact = [units * r / total for r in ratio]
    given = [int(x) for x in exact]
    order = sorted(range(len(ratio)), key=lambda i: given[i] - exact[i])
    for i in order[: units - sum(given)]:
        given[i] += 1
    return given


def split_tensors(shape: ModelShape, rules: Exl3Rules, ratio: Sequence[float]) -> list[Load]:
    """Every card works on every layer; a unit is a KV head, key head, expert or 128 channels."""
    loads = [Load() for _ in ratio]
    for layer, count in shape.kinds:
        _add_layer(loads, layer, count, shape, rules, ratio)
    _spread(loads, head_bytes(shape, rules), shares(padded(shape.vocabulary) // TILE, ratio))
    return loads


def _add_layer(
    loads: list[Load],
    layer: Layer,
    count: int,
    shape: ModelShape,
    rules: Exl3Rules,
    ratio: Sequence[float],
) -> None:
    heads = shares(_attention_units(layer), ratio)
    keys = shares(_state_units(layer), ratio)
    attention, mixer = Layer(layer.attention, None, None), Layer(None, layer.state, None)
    _spread(loads, layer_bytes(attention, shape, rules.bits) * count, heads)
    _spread(loads, layer_bytes(mixer, shape, rules.bits) * count, keys)
    for matrix in layer_matrices(Layer(None, None, layer.mlp), shape):
        expert = matrix.role is Role.EXPERT and layer.mlp is not None
        units = (
            layer.mlp.experts if expert and layer.mlp else _channels(matrix.rows, matrix.columns)
        )
        _spread(loads, matrix_bytes(matrix, rules.bits) * count, shares(units, ratio))
    if layer.attention is not None and layer.attention.owns_cache:
        tokens = layer_token_bytes(layer.attention, rules) * count
        slots = slot_bytes(layer.attention, None, rules) * rules.slots * count
        if layer.attention.latent is not None:
            for load in loads:  # the latent cache is whole on every card
                load.kv_token += tokens
        else:
            _spread(loads, tokens, heads, "kv_token")
        _spread(loads, slots, heads, "state")
    if layer.state is not None:
        _spread(loads, slot_bytes(None, layer.state, rules) * rules.slots * count, keys, "state")


def _attention_units(layer: Layer) -> int:
    attention = layer.attention
    if attention is None:
        return 1
    return attention.heads if attention.latent is not None else attention.kv_heads


def _state_units(layer: Layer) -> int:
    state = layer.state
    if state is None:
        return 1
    if state.kind in (StateKind.GATED_DELTA, StateKind.KIMI_DELTA):
        return state.key_heads
    return max(1, state.value_heads)


def _channels(rows: int, columns: int) -> int:
    return max(1, padded(max(rows, columns)) // TILE)


def _spread(loads: list[Load], size: float, units: Sequence[int], part: str = "weights") -> None:
    total = sum(units) or 1
    for load, share in zip(loads, units, strict=True):
        setattr(load, part, getattr(load, part) + size * share / total)


def layer_costs(shape: ModelShape, rules: Exl3Rules) -> tuple[LayerCost, ...]:
    """Cost of each kind of layer, in the order of ``shape.kinds``."""
    found = []
    for layer, _ in shape.kinds:
        attention = layer.attention
        token = 0
        if attention is not None and attention.owns_cache:
            token = layer_token_bytes(attention, rules)
        slots = slot_bytes(attention, layer.state, rules) * rules.slots
        found.append(LayerCost(layer_bytes(layer, shape, rules.bits), token, slots))
    return tuple(found)


def split_layers(
    order: Sequence[int],
    costs: Sequence[LayerCost],
    head: int,
    tokens: int,
    room: Sequence[float],
) -> list[Load]:
    """Layers in ``order``, each card filled before the next; the head comes last."""
    loads = [Load() for _ in room]
    sizes = [c.weights + c.state + c.kv_token * tokens for c in costs]
    card, used, last = 0, 0.0, len(room) - 1
    for kind in order:
        cost = costs[kind]
        if card < last and used + sizes[kind] > room[card]:
            card, used = card + 1, 0.0
        used += sizes[kind]
        load = loads[card]
        load.weights += cost.weights
        load.kv_token += cost.kv_token
        load.state += cost.state
    if card < last and used + head > room[card]:
        card += 1
    loads[card].weights += head
    return loads

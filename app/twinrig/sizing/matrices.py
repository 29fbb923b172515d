"""Every matrix of a layer with its role: the base of weights for all engines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from twinrig.sizing.shape import Attention, Layer, Mlp, ModelShape, State, StateKind


class Role(StrEnum):
    """How a matrix is stored and shared. KV: copied when there are fewer KV heads than cards.

    SMALL stays 16 bits and is whole on every card.
    """

    LINEAR = "linear"
    KV = "kv"
    EXPERT = "expert"
    SMALL = "small"
    REPLICATED = "replicated"


@dataclass(frozen=True)
class Matrix:
    """``count`` matrices of ``rows`` inputs and ``columns`` outputs."""

    rows: int
    columns: int
    role: Role
    count: int = 1

    @property
    def parameters(self) -> int:
        """Numbers in all of them."""
        return self.rows * self.columns * self.count


def layer_matrices(layer: Layer, shape: ModelShape) -> Iterator[Matrix]:
    """All matrices of one layer; norms and biases are not counted (below 0.01 %)."""
    if layer.attention is not None:
        yield from _attention(layer.attention, shape.hidden)
    if layer.state is not None:
        yield from _state(layer.state, shape.hidden)
    if layer.mlp is not None:
        yield from _mlp(layer.mlp, shape.hidden)
    if shape.per_layer_width:
        yield Matrix(shape.hidden, shape.per_layer_width, Role.REPLICATED, 2)


def _attention(attention: Attention, hidden: int) -> Iterator[Matrix]:
    if attention.latent is not None:
        yield from _latent(attention, hidden)
        return
    if attention.borrows_weights:
        return
    width = attention.heads * attention.head_dim
    source = attention.input_width or hidden
    yield Matrix(source, width, Role.LINEAR, 2 if attention.gated else 1)
    yield Matrix(attention.heads * attention.value_dim, hidden, Role.LINEAR)
    if attention.owns_cache:
        yield Matrix(source, attention.kv_heads * attention.head_dim, Role.KV)
        if not attention.shares_values:
            yield Matrix(source, attention.kv_heads * attention.value_dim, Role.KV)


def _latent(attention: Attention, hidden: int) -> Iterator[Matrix]:
    latent = attention.latent
    assert latent is not None
    query = attention.heads * (latent.nope_dim + latent.rope_dim)
    if latent.query_rank:
        yield Matrix(hidden, latent.query_rank, Role.REPLICATED)
        yield Matrix(latent.query_rank, query, Role.LINEAR)
    else:
        yield Matrix(hidden, query, Role.LINEAR)
    yield Matrix(hidden, latent.rank + latent.rope_dim, Role.REPLICATED)
    yield Matrix(latent.rank, attention.heads * (latent.nope_dim + latent.value_dim), Role.LINEAR)
    yield Matrix(attention.heads * latent.value_dim, hidden, Role.LINEAR)
    if attention.index_dim:
        source = latent.query_rank or hidden
        yield Matrix(source, attention.index_heads * attention.index_dim, Role.REPLICATED)
        yield Matrix(hidden, attention.index_dim, Role.REPLICATED)
        yield Matrix(hidden, attention.index_heads, Role.SMALL)


def _state(state: State, hidden: int) -> Iterator[Matrix]:
    inner = state.inner
    if state.kind is StateKind.SHORT_CONV:
        yield Matrix(hidden, inner, Role.LINEAR, 3)
    elif state.kind is StateKind.MAMBA1:
        rank = -(-hidden // 16)
        yield Matrix(hidden, 2 * inner, Role.LINEAR)
        yield Matrix(inner, rank + 2 * state.key_dim, Role.LINEAR)
        yield Matrix(rank, inner, Role.LINEAR)
    elif state.kind is StateKind.MAMBA2:
        groups = 2 * state.key_heads * state.key_dim
        yield Matrix(hidden, 2 * inner + groups + state.value_heads, Role.LINEAR)
    else:
        keys = state.key_heads * state.key_dim
        yield Matrix(hidden, 2 * keys + inner, Role.LINEAR)
        yield Matrix(hidden, inner, Role.LINEAR)
        yield Matrix(hidden, state.value_heads, Role.SMALL, 2)
    yield Matrix(inner, hidden, Role.LINEAR)


def _mlp(mlp: Mlp, hidden: int) -> Iterator[Matrix]:
    for width, count, role in (
        (mlp.width, 1, Role.LINEAR),
        (mlp.shared_width, 1, Role.LINEAR),
        (mlp.expert_width, mlp.experts, Role.EXPERT),
    ):
        if width and count:
            yield Matrix(hidden, width, role, count * (mlp.matrices - 1))
            yield Matrix(width, hidden, role, count)
    if mlp.experts:
        yield Matrix(hidden, mlp.experts, Role.SMALL)

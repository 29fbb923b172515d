"""Shape of a model as far as memory goes: one record a layer, no engine in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from types import MappingProxyType

from twinrig.messages import Message


class AttentionKind(StrEnum):
    """How far a layer looks back."""

    FULL = "full"
    SLIDING = "sliding"
    CHUNKED = "chunked"


class StateKind(StrEnum):
    """Kinds of layers that keep a state of constant size instead of a cache."""

    GATED_DELTA = "gated_delta"
    KIMI_DELTA = "kimi_delta"
    MAMBA2 = "mamba2"
    MAMBA1 = "mamba1"
    SHORT_CONV = "short_conv"
    LIGHTNING = "lightning"


@dataclass(frozen=True)
class Latent:
    """Latent attention: one compressed vector and one rope key a token.

    ``query_rank`` 0: queries are made without a bottleneck.
    """

    rank: int
    rope_dim: int
    nope_dim: int = 128
    value_dim: int = 128
    query_rank: int = 0


@dataclass(frozen=True)
class Attention:
    """One attention layer. ``window`` in tokens (sliding, chunked). ``index_dim`` > 0: sparse.

    ``owns_cache`` is False for layers that use another layer's keys and values, and
    ``borrows_weights`` True for those that use another layer's weights. ``input_width`` 0: the
    hidden size.
    """

    kind: AttentionKind
    heads: int
    kv_heads: int
    head_dim: int
    value_dim: int
    window: int = 0
    latent: Latent | None = None
    index_dim: int = 0
    index_heads: int = 0
    gated: bool = False
    owns_cache: bool = True
    shares_values: bool = False
    borrows_weights: bool = False
    input_width: int = 0


@dataclass(frozen=True)
class State:
    """One layer with a recurrent state; counts are of the whole model, not of one card.

    Mamba: ``value_heads`` x ``value_dim`` is the inner size, ``key_dim`` the state size,
    ``key_heads`` the number of groups. ``state_bytes`` is that of one number of the state.
    """

    kind: StateKind
    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    kernel: int
    state_bytes: int = 2

    @property
    def inner(self) -> int:
        """Width of the values."""
        return self.value_heads * self.value_dim


@dataclass(frozen=True)
class Mlp:
    """Feed-forward part. ``matrices`` 3 with a gate, else 2. ``experts`` 0: dense."""

    width: int = 0
    matrices: int = 3
    experts: int = 0
    expert_width: int = 0
    shared_width: int = 0


@dataclass(frozen=True)
class Layer:
    """One decoder layer: attention, state or both, and a feed-forward part.

    ``mlp`` None: its size is not in the configuration (``ModelShape.unknown`` says which key).
    """

    attention: Attention | None
    state: State | None
    mlp: Mlp | None


@dataclass(frozen=True)
class Vision:
    """Encoder for images; ``parameters`` are 16 bits each and on every card.

    ``assumed``: the class has one, but the configuration does not describe it.
    """

    parameters: int
    assumed: bool = False


@dataclass(frozen=True)
class ModelShape:
    """A language model. ``unknown`` names keys without which the weights cannot be sized."""

    architecture: str
    layers: tuple[Layer, ...]
    hidden: int
    vocabulary: int
    tied: bool
    element_bytes: int = 2
    max_position: int | None = None
    draft_layers: int = 0
    per_layer_width: int = 0
    per_layer_vocabulary: int = 0
    vision: Vision | None = None
    quantization: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    unknown: tuple[str, ...] = ()
    notes: tuple[Message, ...] = ()

    @cached_property
    def kinds(self) -> tuple[tuple[Layer, int], ...]:
        """Layers that are alike, with their number."""
        return tuple(Counter(self.layers).items())

    @cached_property
    def kind_numbers(self) -> tuple[int, ...]:
        """For each layer its place in ``kinds``."""
        places = {layer: i for i, (layer, _) in enumerate(self.kinds)}
        return tuple(places[layer] for layer in self.layers)

    @cached_property
    def attentions(self) -> tuple[tuple[Attention, int], ...]:
        """Attention layers with a cache of their own that are alike, with their number."""
        found = Counter(
            x.attention for x in self.layers if x.attention is not None and x.attention.owns_cache
        )
        return tuple(found.items())

    @cached_property
    def states(self) -> tuple[tuple[State, int], ...]:
        """State layers that are alike, with their number."""
        return tuple(Counter(x.state for x in self.layers if x.state is not None).items())

    @property
    def hybrid(self) -> bool:
        """Whether some layers keep a state."""
        return bool(self.states)

    @property
    def moe(self) -> bool:
        """Whether some layers have experts."""
        return any(layer.mlp is not None and layer.mlp.experts for layer, _ in self.kinds)

    @cached_property
    def heads(self) -> int:
        """Attention heads of the widest layer, 0 without attention."""
        return max((a.heads for a, _ in self.attentions), default=0)

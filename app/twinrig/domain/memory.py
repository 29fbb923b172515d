"""Memory of the cards for one model and its settings: what is asked, what comes out.

All sizes are bytes; "per GPU" means on one card. None is always "cannot be known".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from twinrig.domain.errors import TwinrigError
from twinrig.messages import Message

GIB = 2**30
MIB = 2**20


class UnsizableError(TwinrigError):
    """A model's configuration lacks a key, or holds nonsense: its memory cannot be known."""


class EngineRefusalError(TwinrigError):
    """The engine would refuse these settings for this model; ``text`` is in its words."""


class Verdict(StrEnum):
    """TIGHT: it fits, but a browser may take what is left. UNKNOWN: no card is known."""

    FITS = "fits"
    TIGHT = "tight"
    DOES_NOT_FIT = "does_not_fit"
    UNKNOWN = "unknown"


class PartKind(StrEnum):
    """Parts of a card's memory, in the order in which they are drawn."""

    RESERVED = "reserved"
    WEIGHTS = "weights"
    KV = "kv"
    STATE = "state"
    DRAFTER = "drafter"
    ACTIVATIONS = "activations"
    RUNTIME = "runtime"
    GRAPHS = "graphs"
    HEADROOM = "headroom"


@dataclass(frozen=True)
class Card:
    """One card. ``free_bytes`` None: not measured. ``nominal_gb``: the size on its box.

    ``holders`` are programs that hold the rest; empty = cannot be told.
    """

    total_bytes: int
    free_bytes: int | None = None
    name: str = ""
    nominal_gb: float | None = None
    holders: tuple[str, ...] = ()


@dataclass(frozen=True)
class Measurement:
    """What one successful start showed, per GPU.

    ``overhead_bytes`` is what was neither weights nor KV cache of the share given to vLLM.
    """

    machine: str
    engine_id: str
    engine_version: str
    model: str
    taken_at_s: float
    weights_bytes: int | None = None
    kv_pool_bytes: int | None = None
    overhead_bytes: int | None = None
    capacity_tokens: int | None = None
    used_bytes: tuple[int, ...] = ()
    settings_key: str = ""


class SizingRules(StrEnum):
    """Whose way of using memory counts: a pool after everything else, or all at the load."""

    VLLM = "vllm"
    EXL3 = "exl3"


@dataclass(frozen=True)
class SizingSettings:
    """Settings of an estimate; None or "" leaves a setting to the engine's default.

    ``tensor_parallel`` None: layers are spread over the cards (exllamav3), or one card (vLLM).
    ``reserve_bytes`` is kept free on each card whose free memory was not measured.
    """

    rules: SizingRules = SizingRules.VLLM
    engine_id: str = "vllm"
    engine_version: str = ""
    cards: tuple[Card, ...] = ()
    tensor_parallel: int | None = None
    pipeline_parallel: int = 1
    context_tokens: int | None = None
    quantization: str = ""
    kv_dtype: str = "auto"
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    draft_tokens: int = 0
    mamba_cache_mode: str = ""
    prefix_caching: bool | None = None
    utilization: float | None = None
    kv_pool_bytes: int | None = None
    enforce_eager: bool = False
    text_only: bool = False
    hybrid_manager: bool = True
    bits_per_weight: float | None = None
    head_bits: float | None = None
    cache_mode: str = "FP16"
    max_batch_size: int | None = None
    chunk_size: int = 2048
    gpu_split: tuple[float, ...] = ()
    reserve_bytes: int = int(1.3 * GIB)
    measurement: Measurement | None = None


@dataclass(frozen=True)
class MemoryPart:
    """One part of a card's memory; ``text`` explains what it is and where the figure is from."""

    kind: PartKind
    size_bytes: int
    text: Message


@dataclass(frozen=True)
class GpuPlan:
    """Plan of one card; the parts but ``RESERVED`` are the engine's, ``HEADROOM`` is left over."""

    index: int
    total_bytes: int
    parts: tuple[MemoryPart, ...]
    name: str = ""

    def size(self, kind: PartKind) -> int:
        """Bytes of one part, 0 when the card has no such part."""
        return sum(part.size_bytes for part in self.parts if part.kind is kind)

    @property
    def used_bytes(self) -> int:
        """What the engine holds."""
        free = (PartKind.HEADROOM, PartKind.RESERVED)
        return sum(part.size_bytes for part in self.parts if part.kind not in free)

    @property
    def over_bytes(self) -> int:
        """How much more is wanted than the card has, 0 when it fits."""
        return max(0, self.used_bytes + self.size(PartKind.RESERVED) - self.total_bytes)


@dataclass(frozen=True)
class Lever:
    """A change of one setting and how many more tokens of context it gives."""

    setting: str
    value: str
    gain_tokens: int
    text: Message


@dataclass(frozen=True)
class MemoryPlan:
    """Answer of an estimate.

    ``weights_bytes``, ``kv_pool_bytes`` and ``kv_needed_bytes`` are per GPU. ``capacity_tokens``
    is what the engine's own version prints; ``legacy_capacity_tokens`` the same by the older
    definition of vLLM. ``max_context_tokens`` is the longest single request that fits.
    """

    engine_id: str
    gpus: tuple[GpuPlan, ...]
    verdict: Verdict
    summary: Message
    weights_bytes: int | None = None
    kv_needed_bytes: int | None = None
    kv_pool_bytes: int | None = None
    capacity_tokens: int | None = None
    legacy_capacity_tokens: int | None = None
    max_concurrency: float | None = None
    max_context_tokens: int | None = None
    attention_block_size: int | None = None
    max_num_seqs: int | None = None
    kv_bytes_per_token_total: int = 0
    state_bytes_per_slot_total: int = 0
    assumptions: tuple[Message, ...] = ()
    refusals: tuple[Message, ...] = ()
    calibrated: bool = False
    details: dict[str, int] = field(default_factory=dict)

    @property
    def weights_bytes_total(self) -> int:
        """Resident weights over all cards."""
        return sum(gpu.size(PartKind.WEIGHTS) for gpu in self.gpus)

    @property
    def kv_bytes_total(self) -> int:
        """Paged KV cache over all cards."""
        return sum(gpu.size(PartKind.KV) for gpu in self.gpus)

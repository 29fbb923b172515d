"""A plan for tabbyAPI with exllamav3: everything is taken in full when the model loads."""

from __future__ import annotations

from dataclasses import dataclass, replace

from twinrig.domain.memory import (
    GIB,
    Card,
    GpuPlan,
    MemoryPart,
    MemoryPlan,
    PartKind,
    SizingSettings,
    Verdict,
)
from twinrig.messages import Message, message
from twinrig.sizing import words
from twinrig.sizing.exl3_cache import slot_bytes_total, token_bytes_total
from twinrig.sizing.exl3_rules import PAGE, Exl3Rules, exl3_rules
from twinrig.sizing.exl3_split import Load, budgets, split_layers, split_tensors
from twinrig.sizing.exl3_weights import TensorTotals, drafter_bytes
from twinrig.sizing.model import note_of_unknown
from twinrig.sizing.reading import missing
from twinrig.sizing.shape import ModelShape

CONTEXT = int(0.45 * GIB)
"""CUDA context and loaded kernels, one card."""
NCCL = int(0.35 * GIB)
"""Communication buffers of tensor parallelism."""
TIGHT = GIB // 2
_MAX_SLICE = 32768


@dataclass(frozen=True)
class Exl3Parts:
    """What a plan is made of; ``loads`` are per card."""

    shape: ModelShape
    settings: SizingSettings
    rules: Exl3Rules
    loads: tuple[Load, ...]
    drafter: int
    scratch: int
    runtime: int

    @property
    def fits(self) -> bool:
        """Whether every card holds its part and its reserve."""
        return all(gpu.over_bytes == 0 for gpu in self.gpus)

    @property
    def gpus(self) -> tuple[GpuPlan, ...]:
        """The cards with their parts."""
        return tuple(_gpu(self, i, card) for i, card in enumerate(self.settings.cards))


def plan_exl3(
    shape: ModelShape, settings: SizingSettings, tensors: TensorTotals | None = None
) -> MemoryPlan:
    """Plan of a load. Raises UnsizableError when the configuration lacks a key."""
    if not settings.cards:
        raise missing("cards")
    parts = gather(shape, settings, tensors)
    most = longest_cache(shape, settings, tensors)
    gpus = parts.gpus
    verdict = _verdict(parts, gpus)
    rules = parts.rules
    copies = len(settings.cards) if _latent(shape) and settings.tensor_parallel else 1
    return MemoryPlan(
        engine_id=settings.engine_id,
        gpus=gpus,
        verdict=verdict,
        summary=words.summary(verdict, most, rules.cache_tokens),
        weights_bytes=max(gpu.size(PartKind.WEIGHTS) for gpu in gpus),
        kv_needed_bytes=max(gpu.size(PartKind.KV) for gpu in gpus),
        kv_pool_bytes=max(gpu.size(PartKind.KV) for gpu in gpus),
        capacity_tokens=rules.cache_tokens,
        max_concurrency=1.0,
        max_context_tokens=most,
        max_num_seqs=rules.slots,
        kv_bytes_per_token_total=token_bytes_total(shape, rules) * copies,
        state_bytes_per_slot_total=slot_bytes_total(shape, rules),
        assumptions=_assumptions(parts, tensors is not None),
        refusals=_refusals(parts, gpus),
    )


def gather(
    shape: ModelShape, settings: SizingSettings, tensors: TensorTotals | None = None
) -> Exl3Parts:
    """Everything a plan is computed from."""
    if shape.unknown and tensors is None:
        raise missing(shape.unknown[0])
    rules = exl3_rules(shape, settings)
    parallel = len(settings.cards) > 1 and bool(settings.tensor_parallel)
    runtime = CONTEXT + (NCCL if parallel else 0)
    scratch = _scratch(shape, settings, len(settings.cards) if parallel else 1)
    weights, cache = drafter_bytes(shape, rules)
    if tensors is not None and weights:
        weights = tensors.drafter or weights
    drafter = weights + cache
    if parallel:
        loads = split_tensors(shape, rules, budgets(settings))
    else:
        room = [b - runtime - scratch for b in _room(settings)]
        room[0] -= drafter
        loads = split_layers(shape, rules, room)
    if tensors is not None:
        loads = _measured(loads, tensors.decoder + tensors.head)
    return Exl3Parts(shape, settings, rules, tuple(loads), drafter, scratch, runtime)


def _room(settings: SizingSettings) -> list[float]:
    if settings.gpu_split:
        return [v * GIB for v in settings.gpu_split]
    return budgets(settings)


def _measured(loads: list[Load], total: int) -> list[Load]:
    """The bytes of the tensor table in the proportions of the estimate."""
    estimated = sum(load.weights for load in loads) or 1.0
    return [replace(load, weights=load.weights * total / estimated) for load in loads]


def longest_cache(
    shape: ModelShape, settings: SizingSettings, tensors: TensorTotals | None = None
) -> int | None:
    """Largest cache in tokens with which every card holds its part; 0 when none does."""
    limit = max(shape.max_position or 0, settings.context_tokens or 0) or 2**20

    def fits(pages: int) -> bool:
        asked = replace(settings, context_tokens=pages * PAGE)
        return gather(shape, asked, tensors).fits

    low, high = 0, -(-limit // PAGE)
    if not fits(1):
        return 0
    low = 1
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low * PAGE


def _scratch(shape: ModelShape, settings: SizingSettings, shares: int) -> int:
    """One matrix in 16 bits and the activations of a chunk."""
    widest = 0
    for layer, _ in shape.kinds:
        if layer.mlp is not None:
            widest = max(widest, layer.mlp.width, layer.mlp.expert_width, layer.mlp.shared_width)
    share = -(-widest // shares)
    matrix = 2 * shape.hidden * min(share, _MAX_SLICE)
    return matrix + settings.chunk_size * (shape.hidden * 4 + 4 * share)


def _gpu(parts: Exl3Parts, index: int, card: Card) -> GpuPlan:
    load = parts.loads[index]
    reserve = parts.settings.reserve_bytes
    held = reserve if card.free_bytes is None else card.total_bytes - card.free_bytes
    idle = load.weights == 0 and load.kv == 0
    sizes = {
        PartKind.RESERVED: min(held, card.total_bytes),
        PartKind.WEIGHTS: round(load.weights),
        PartKind.KV: round(load.kv),
        PartKind.STATE: round(load.state),
        PartKind.DRAFTER: parts.drafter if index == 0 else 0,
        PartKind.ACTIVATIONS: 0 if idle else parts.scratch,
        PartKind.RUNTIME: 0 if idle else parts.runtime,
        PartKind.GRAPHS: 0,
    }
    sizes[PartKind.HEADROOM] = max(0, card.total_bytes - sum(sizes.values()))
    texts = [MemoryPart(kind, size, words.part("exl3", kind)) for kind, size in sizes.items()]
    return GpuPlan(index, card.total_bytes, tuple(texts), card.name)


def _verdict(parts: Exl3Parts, gpus: tuple[GpuPlan, ...]) -> Verdict:
    if not parts.fits:
        return Verdict.DOES_NOT_FIT
    least = min(gpu.size(PartKind.HEADROOM) for gpu in gpus)
    return Verdict.TIGHT if least < TIGHT else Verdict.FITS


def _latent(shape: ModelShape) -> bool:
    return any(a.latent is not None for a, _ in shape.attentions)


def _refusals(parts: Exl3Parts, gpus: tuple[GpuPlan, ...]) -> tuple[Message, ...]:
    found = []
    if not parts.fits:
        over = max(gpus, key=lambda gpu: gpu.over_bytes)
        found.append(
            message(
                "Insufficient VRAM in split for model and cache: card {index} lacks {size} GiB.",
                index=over.index,
                size=words.gib(over.over_bytes),
            )
        )
    return tuple(found)


def _assumptions(parts: Exl3Parts, from_table: bool) -> tuple[Message, ...]:
    shape, settings, rules = parts.shape, parts.settings, parts.rules
    found = [*shape.notes, *note_of_unknown(shape)]
    if from_table:
        found.append(message("Weights: the tensor table of the model folder."))
    else:
        found.append(
            message(
                "Weights: {bits} bits on average, {head} for the head; the embedding table lies in "
                "RAM.",
                bits=rules.bits,
                head=rules.head_bits,
            )
        )
    if settings.max_batch_size is None:
        found.append(message("Batch slots: {count}, tabbyAPI's default.", count=rules.slots))
    if len(settings.cards) > 1 and not settings.gpu_split:
        found.append(
            message(
                "Without gpu_split 96 MB are kept on the first card and 512 MB on the others, so "
                "the split is uneven; equal numbers in gpu_split make it even."
            )
        )
    if parts.drafter:
        found.append(message("Drafting: 4 bits a weight and a 16-bit cache on the first card."))
    found.extend(words.cards(settings))
    return tuple(found)

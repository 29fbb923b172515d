"""A plan for tabbyAPI with exllamav3: everything is taken in full when the model loads."""

from __future__ import annotations

from dataclasses import dataclass, replace

from twinrig.domain.errors import UsageError
from twinrig.domain.memory import (
    GIB,
    Card,
    GpuPlan,
    MemoryPart,
    MemoryPlan,
    PartKind,
    SizingRules,
    SizingSettings,
    Verdict,
)
from twinrig.messages import Message, message
from twinrig.sizing import words
from twinrig.sizing.exl3_cache import slot_bytes_total, token_bytes_total
from twinrig.sizing.exl3_rules import PAGE, Exl3Rules, exl3_rules
from twinrig.sizing.exl3_split import (
    LayerCost,
    Load,
    budgets,
    layer_costs,
    split_layers,
    split_tensors,
)
from twinrig.sizing.exl3_weights import TensorTotals, drafter_bytes, head_bytes
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
class Exl3Base:
    """All of a load that does not depend on the size of the cache.

    ``even`` are the cards' shares under tensor parallelism, None when layers are spread.
    """

    shape: ModelShape
    settings: SizingSettings
    rules: Exl3Rules
    costs: tuple[LayerCost, ...]
    head: int
    room: tuple[float, ...]
    even: tuple[Load, ...] | None
    factor: float
    drafter_weights: int
    drafter_token: int
    scratch: int
    runtime: int

    def loads(self, tokens: int) -> tuple[Load, ...]:
        """What each card gets with a cache of ``tokens``."""
        if self.even is not None:
            return self.even
        first, *others = self.room
        room = [first - self.drafter(tokens), *others]
        loads = split_layers(self.shape.kind_numbers, self.costs, self.head, tokens, room)
        return tuple(replace(x, weights=x.weights * self.factor) for x in loads)

    def drafter(self, tokens: int) -> int:
        """Weights and cache of the drafting layers, all on the first card."""
        return self.drafter_weights + self.drafter_token * tokens

    def used(self, index: int, load: Load, tokens: int) -> float:
        """Bytes on one card; a card that gets no layer is not touched."""
        drafter = self.drafter(tokens) if index == 0 else 0
        if load.weights == 0:
            return drafter
        cache = load.kv_token * tokens
        return load.weights + cache + load.state + drafter + self.scratch + self.runtime

    def margin(self, tokens: int) -> float:
        """Bytes left on the fullest card; negative when it does not fit."""
        return min(
            card.total_bytes - held_bytes(self.settings, card) - self.used(i, load, tokens)
            for i, (card, load) in enumerate(
                zip(self.settings.cards, self.loads(tokens), strict=True)
            )
        )


def held_bytes(settings: SizingSettings, card: Card) -> int:
    """What others hold, or what is kept for them."""
    held = settings.reserve_bytes if card.free_bytes is None else card.total_bytes - card.free_bytes
    return min(held, card.total_bytes)


def plan_exl3(
    shape: ModelShape, settings: SizingSettings, tensors: TensorTotals | None = None
) -> MemoryPlan:
    """Plan of a load. Raises UnsizableError when the configuration lacks a key."""
    base = exl3_base(shape, settings, tensors)
    rules = base.rules
    loads = base.loads(rules.cache_tokens)
    gpus = tuple(_gpu(base, i, loads[i]) for i in range(len(loads)))
    most = longest_in(base, model_limit(shape, settings))
    copies = len(settings.cards) if _latent(shape) and base.even is not None else 1
    fits = base.margin(rules.cache_tokens) >= 0
    verdict = _verdict(gpus, fits)
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
        assumptions=_assumptions(base, tensors is not None),
        refusals=() if fits else _refusals(gpus),
    )


def exl3_base(
    shape: ModelShape, settings: SizingSettings, tensors: TensorTotals | None = None
) -> Exl3Base:
    """Everything that plan and search share. Raises UnsizableError, UsageError."""
    if not settings.cards:
        raise UsageError(
            message("There is no card to plan for."),
            message("Give the sizes of the cards, such as --gpus 12,12."),
        )
    if shape.unknown and tensors is None:
        raise missing(shape.unknown[0])
    rules = exl3_rules(shape, settings)
    parallel = len(settings.cards) > 1 and bool(settings.tensor_parallel)
    runtime = CONTEXT + (NCCL if parallel else 0)
    scratch = _scratch(shape, settings, len(settings.cards) if parallel else 1)
    weights, token = drafter_bytes(shape, rules)
    costs, head = layer_costs(shape, rules), head_bytes(shape, rules)
    factor = 1.0
    if tensors is not None:
        weights = tensors.drafter if weights and tensors.drafter else weights
        numbers = (costs[kind].weights for kind in shape.kind_numbers)
        factor = (tensors.decoder + tensors.head) / max(1, sum(numbers) + head)
    even = split_tensors(shape, rules, budgets(settings)) if parallel else None
    return Exl3Base(
        shape=shape,
        settings=settings,
        rules=rules,
        costs=costs,
        head=head,
        room=tuple(b - runtime - scratch for b in _room(settings)),
        even=tuple(replace(x, weights=x.weights * factor) for x in even) if even else None,
        factor=factor,
        drafter_weights=weights,
        drafter_token=token,
        scratch=scratch,
        runtime=runtime,
    )


def _room(settings: SizingSettings) -> list[float]:
    if settings.gpu_split:
        return [v * GIB for v in settings.gpu_split]
    return budgets(settings)


def model_limit(shape: ModelShape, settings: SizingSettings) -> int:
    """Longest cache worth searching."""
    return max(shape.max_position or 0, settings.context_tokens or 0) or 2**20


def longest_in(base: Exl3Base, limit: int) -> int:
    """Largest cache in tokens, up to ``limit``, with which every card holds its part; 0: none."""
    high = -(-limit // PAGE)
    if base.margin(PAGE) < 0:
        return 0
    if base.margin(high * PAGE) >= 0:
        return high * PAGE
    low = 1  # fits; ``high`` does not
    guess = _guess(base, high)
    for page in (guess, guess + 1):
        if low < page < high:
            low, high = (page, high) if base.margin(page * PAGE) >= 0 else (low, page)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if base.margin(middle * PAGE) >= 0 else (low, middle)
    return low * PAGE


def _guess(base: Exl3Base, high: int) -> int:
    """Where the margin is zero if it falls evenly, as it does under tensor parallelism."""
    first, last = base.margin(PAGE), base.margin(high * PAGE)
    return 1 + int((high - 1) * first / (first - last)) if first > last else 1


def _scratch(shape: ModelShape, settings: SizingSettings, shares: int) -> int:
    """One matrix in 16 bits and the activations of a chunk."""
    widest = 0
    for layer, _ in shape.kinds:
        if layer.mlp is not None:
            widest = max(widest, layer.mlp.width, layer.mlp.expert_width, layer.mlp.shared_width)
    share = -(-widest // shares)
    matrix = 2 * shape.hidden * min(share, _MAX_SLICE)
    return matrix + settings.chunk_size * (shape.hidden * 4 + 4 * share)


def _gpu(base: Exl3Base, index: int, load: Load) -> GpuPlan:
    card, tokens = base.settings.cards[index], base.rules.cache_tokens
    idle = load.weights == 0
    sizes = {
        PartKind.RESERVED: held_bytes(base.settings, card),
        PartKind.WEIGHTS: round(load.weights),
        PartKind.KV: round(load.kv_token * tokens),
        PartKind.STATE: round(load.state),
        PartKind.DRAFTER: base.drafter(tokens) if index == 0 else 0,
        PartKind.ACTIVATIONS: 0 if idle else base.scratch,
        PartKind.RUNTIME: 0 if idle else base.runtime,
        PartKind.GRAPHS: 0,
    }
    sizes[PartKind.HEADROOM] = max(0, card.total_bytes - sum(sizes.values()))
    parts = tuple(
        MemoryPart(k, size, words.part(SizingRules.EXL3, k, card)) for k, size in sizes.items()
    )
    return GpuPlan(index, card.total_bytes, parts, card.name)


def _verdict(gpus: tuple[GpuPlan, ...], fits: bool) -> Verdict:
    if not fits:
        return Verdict.DOES_NOT_FIT
    least = min(gpu.size(PartKind.HEADROOM) for gpu in gpus)
    return Verdict.TIGHT if least < TIGHT else Verdict.FITS


def _latent(shape: ModelShape) -> bool:
    return any(a.latent is not None for a, _ in shape.attentions)


def _refusals(gpus: tuple[GpuPlan, ...]) -> tuple[Message, ...]:
    worst = max(gpus, key=lambda gpu: gpu.over_bytes)
    return (
        message(
            "Insufficient VRAM in split for model and cache: card {index} lacks {size} GiB.",
            index=worst.index,
            size=words.gib(worst.over_bytes),
        ),
    )


def _assumptions(base: Exl3Base, from_table: bool) -> tuple[Message, ...]:
    shape, settings, rules = base.shape, base.settings, base.rules
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
    if base.even is not None and not settings.gpu_split:
        found.append(
            message(
                "Without gpu_split 96 MB are kept on the first card and 512 MB on the others, so "
                "the split is uneven; equal numbers in gpu_split make it even."
            )
        )
    if base.drafter_weights:
        found.append(message("Drafting: 4 bits a weight and a 16-bit cache on the first card."))
    found.extend(words.cards(settings))
    return tuple(found)

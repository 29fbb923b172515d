"""A plan for vLLM: what each card holds, what fits, and what the engine will print.

The budget of one card is ``utilisation x total``; weights and overhead come off, the rest is
the pool (``v1/worker/gpu_worker.py`` of vLLM 0.11 to 0.33).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

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
from twinrig.sizing.calibration import calibrated
from twinrig.sizing.kv_formats import resolve_format, token_bytes
from twinrig.sizing.kv_groups import Pool, PoolRules, Traffic, build_pool, longest
from twinrig.sizing.model import note_of_unknown
from twinrig.sizing.overhead import Overhead, vllm_overhead
from twinrig.sizing.parallel import check_vllm_parallel
from twinrig.sizing.shape import ModelShape
from twinrig.sizing.states import vllm_state_bytes
from twinrig.sizing.vllm_rules import VllmRules, vllm_rules
from twinrig.sizing.weights import from_files, note, quantization_of, weights_bytes

NO_LIMIT = 2**24
DEFAULT_UTILIZATION = 0.9
FREE_MARGIN = int(0.2 * GIB)
"""Kept between what is free and what vLLM may take, or its check at the start fails."""
_TIGHT_SHARE = 0.04


@dataclass(frozen=True)
class Parts:
    """All that an estimate is made of, before it is turned into a plan."""

    shape: ModelShape
    settings: SizingSettings
    rules: VllmRules
    pool: Pool
    traffic: Traffic
    context: int | None
    weights: int | None
    overhead: Overhead
    budget: int | None
    pool_bytes: int | None

    @property
    def usable(self) -> int:
        """Pool that requests can get."""
        return (self.pool_bytes or 0) - self.rules.null_block * self.pool.block_bytes

    @property
    def checked(self) -> Pool:
        """The pool as the check at the start counts it."""
        stages = self.settings.pipeline_parallel
        if stages == 1 or not self.rules.checks_whole_model:
            return self.pool
        return replace(self.pool, block_bytes=self.pool.block_bytes * stages)

    @property
    def limit(self) -> int:
        """Longest context worth searching."""
        return max(self.shape.max_position or 0, self.context or 0) or NO_LIMIT


def plan_vllm(
    shape: ModelShape, settings: SizingSettings, file_bytes: int | None = None
) -> MemoryPlan:
    """Plan of a server. Raises EngineRefusalError for cards and heads that do not go together."""
    parts = gather(shape, settings, file_bytes)
    needed = _needed(parts)
    fits = needed is None or parts.pool_bytes is None or needed <= parts.usable
    most = longest_context(parts)
    blocks = _blocks(parts)
    refusals = _refusals(parts, needed, most, blocks)
    gpus = tuple(_gpu(parts, i, card) for i, card in enumerate(_cards(settings)))
    verdict = _verdict(parts, gpus, fits and not refusals)
    return MemoryPlan(
        engine_id=settings.engine_id,
        gpus=gpus,
        verdict=verdict,
        summary=words.summary(verdict, most, parts.context),
        weights_bytes=parts.weights,
        kv_needed_bytes=needed,
        kv_pool_bytes=parts.pool_bytes,
        capacity_tokens=_capacity(parts, blocks, by_request=parts.rules.counts_requests),
        legacy_capacity_tokens=_capacity(parts, blocks, by_request=False),
        max_concurrency=_concurrency(parts, blocks),
        max_context_tokens=most,
        attention_block_size=parts.pool.attention_block if shape.hybrid else None,
        max_num_seqs=_sequences(parts, blocks),
        kv_bytes_per_token_total=_per_token(parts),
        state_bytes_per_slot_total=_per_slot(parts),
        assumptions=_assumptions(parts, file_bytes),
        refusals=refusals,
        calibrated=settings.measurement is not None,
        details={"block_bytes": parts.pool.block_bytes, "blocks": blocks or 0},
    )


def gather(shape: ModelShape, settings: SizingSettings, file_bytes: int | None) -> Parts:
    """Everything that the plan is computed from."""
    tp, pp = settings.tensor_parallel or 1, settings.pipeline_parallel
    check_vllm_parallel(shape, tp, pp)
    context = settings.context_tokens or shape.max_position
    rules = vllm_rules(settings, context)
    drafts = settings.draft_tokens
    pool = build_pool(
        shape,
        PoolRules(
            resolve_format(shape, settings.kv_dtype),
            tp,
            drafts,
            rules.window_groups,
            shape.draft_layers if drafts else 0,
        ),
    )
    if pp > 1:
        pool = replace(pool, block_bytes=-(-pool.block_bytes // pp))  # one stage
    weights = _weights(shape, settings, file_bytes)
    overhead = calibrated(vllm_overhead(shape, settings, rules), settings.measurement)
    budget = _budget(settings)
    return Parts(
        shape=shape,
        settings=settings,
        rules=rules,
        pool=pool,
        traffic=Traffic(rules.in_flight, drafts, rules.aligned),
        context=context,
        weights=weights,
        overhead=overhead,
        budget=budget,
        pool_bytes=_pool_bytes(settings, rules, weights, overhead, budget),
    )


def _weights(shape: ModelShape, settings: SizingSettings, file_bytes: int | None) -> int | None:
    tp, pp = settings.tensor_parallel or 1, settings.pipeline_parallel
    measured = settings.measurement.weights_bytes if settings.measurement else None
    if measured is not None:
        return measured
    vision = not settings.text_only
    if file_bytes is not None:
        return from_files(shape, file_bytes, tp, pp, vision=vision)
    name = quantization_of(shape, settings.quantization)
    drafting = settings.draft_tokens > 0
    return weights_bytes(shape, name, tp, pp=pp, vision=vision, drafting=drafting)


def _cards(settings: SizingSettings) -> tuple[Card, ...]:
    count = (settings.tensor_parallel or 1) * settings.pipeline_parallel
    return settings.cards[:count]


def _budget(settings: SizingSettings) -> int | None:
    """What vLLM may use of the smallest card."""
    cards = _cards(settings)
    if not cards:
        return None
    return min(int(card_utilization(settings, card) * card.total_bytes) for card in cards)


def card_utilization(settings: SizingSettings, card: Card) -> float:
    """The share that was set, else the largest whole percent that is free."""
    if settings.utilization is not None:
        return settings.utilization
    free = card.free_bytes
    if free is None:
        return max(0.0, 1 - settings.reserve_bytes / card.total_bytes)
    return max(0.0, int((free - FREE_MARGIN) / card.total_bytes * 100) / 100)


def _pool_bytes(
    settings: SizingSettings,
    rules: VllmRules,
    weights: int | None,
    overhead: Overhead,
    budget: int | None,
) -> int | None:
    if settings.kv_pool_bytes is not None:
        return max(0, settings.kv_pool_bytes)
    if budget is None or weights is None:
        return None
    counted = overhead.activations + overhead.runtime
    counted += overhead.graphs if rules.graphs_in_budget else 0
    return max(0, budget - weights - counted)


def _needed(parts: Parts) -> int | None:
    if not parts.context:
        return None
    return parts.checked.needed_bytes(parts.context, parts.traffic)


def longest_context(parts: Parts, limit: int | None = None) -> int | None:
    """Longest request that the pool holds, up to ``limit`` (None: the model's own)."""
    if parts.pool_bytes is None:
        return None
    return longest(parts.checked, parts.usable, parts.traffic, limit or parts.limit)


def _blocks(parts: Parts) -> int | None:
    if parts.pool_bytes is None or not parts.pool.block_bytes:
        return None
    return parts.pool_bytes // parts.pool.block_bytes


def _concurrency(parts: Parts, blocks: int | None) -> float | None:
    if blocks is None or not parts.context:
        return None
    return blocks / max(1, parts.pool.blocks(parts.context, parts.traffic))


def _capacity(parts: Parts, blocks: int | None, *, by_request: bool) -> int | None:
    if blocks is None:
        return None
    plain = len(parts.pool.groups) == 1 and parts.pool.groups[0][0].kind is not None
    if by_request and parts.context and not (plain and parts.context % 16):
        return int((_concurrency(parts, blocks) or 0) * parts.context)
    sizes = [b.block or parts.context or NO_LIMIT for b, _ in parts.pool.groups]
    return blocks // max(1, parts.pool.group_count) * min(sizes, default=0)


def _sequences(parts: Parts, blocks: int | None) -> int | None:
    """Largest number of running requests with which vLLM starts."""
    if not parts.shape.hybrid or blocks is None:
        return None
    return max(1, min(parts.rules.sequences, blocks))


def _refusals(
    parts: Parts, needed: int | None, most: int | None, blocks: int | None
) -> tuple[Message, ...]:
    found = []
    if parts.pool_bytes is not None and parts.pool_bytes <= 0:
        found.append(message("No available memory for the cache blocks."))
    elif needed is not None and parts.pool_bytes is not None and needed > parts.usable:
        found.append(words.needs_more(needed, parts.usable, parts.context or 0, most or 0))
    for index, card in enumerate(_cards(parts.settings)):
        asked = int(card_utilization(parts.settings, card) * card.total_bytes)
        if card.free_bytes is not None and card.free_bytes < asked:
            found.append(words.not_free(index, card.free_bytes, card.total_bytes, asked))
    if parts.settings.max_num_seqs and blocks is not None and parts.shape.hybrid:
        asked_sequences = parts.settings.max_num_seqs
        if 0 < blocks < asked_sequences:
            found.append(words.too_many_sequences(asked_sequences, blocks))
    return tuple(found)


def _gpu(parts: Parts, index: int, card: Card) -> GpuPlan:
    reserved = _reserved(parts.settings, card)
    overhead = parts.overhead
    sizes = {
        PartKind.RESERVED: reserved,
        PartKind.WEIGHTS: parts.weights or 0,
        PartKind.KV: 0,
        PartKind.STATE: 0,
        PartKind.ACTIVATIONS: overhead.activations,
        PartKind.RUNTIME: overhead.runtime,
        PartKind.GRAPHS: overhead.graphs,
    }
    state = parts.pool.state_blocks(parts.traffic) * parts.pool.block_bytes
    pool = parts.pool_bytes or 0
    sizes[PartKind.STATE] = min(pool, state)
    sizes[PartKind.KV] = pool - sizes[PartKind.STATE]
    left = card.total_bytes - sum(sizes.values())
    sizes[PartKind.HEADROOM] = max(0, left)
    return GpuPlan(
        index,
        card.total_bytes,
        tuple(
            MemoryPart(kind, size, words.part(SizingRules.VLLM, kind, card))
            for kind, size in sizes.items()
        ),
        card.name,
    )


def _reserved(settings: SizingSettings, card: Card) -> int:
    """What others hold or may take: all that is not free, else what is not given to vLLM."""
    if card.free_bytes is not None:
        return card.total_bytes - card.free_bytes
    if settings.utilization is not None:
        return min(settings.reserve_bytes, int((1 - settings.utilization) * card.total_bytes))
    return min(settings.reserve_bytes, card.total_bytes)


def _verdict(parts: Parts, gpus: tuple[GpuPlan, ...], fits: bool) -> Verdict:
    if not fits or any(gpu.over_bytes > GIB // 4 for gpu in gpus):
        return Verdict.DOES_NOT_FIT
    needed = _needed(parts)
    if parts.pool_bytes is None:
        return Verdict.UNKNOWN
    if needed is None:
        return Verdict.FITS
    left = parts.usable - needed
    return Verdict.TIGHT if left < _TIGHT_SHARE * (parts.budget or 0) else Verdict.FITS


def _per_token(parts: Parts) -> int:
    """Cache bytes of one more token, over all cards."""
    tp = parts.settings.tensor_parallel or 1
    shape = parts.shape
    kv_format = resolve_format(shape, parts.settings.kv_dtype)
    return tp * sum(token_bytes(a, shape, kv_format, tp) * n for a, n in shape.attentions)


def _per_slot(parts: Parts) -> int:
    tp, drafts = parts.settings.tensor_parallel or 1, parts.settings.draft_tokens
    return tp * sum(vllm_state_bytes(s, tp, drafts) * n for s, n in parts.shape.states)


def _assumptions(parts: Parts, file_bytes: int | None) -> tuple[Message, ...]:
    shape, settings = parts.shape, parts.settings
    quantization = quantization_of(shape, settings.quantization)
    found = [*shape.notes, *note_of_unknown(shape)]
    if settings.measurement is not None:
        found.append(words.measured(settings.measurement))
    elif not shape.unknown or file_bytes is not None:
        found.append(note(shape, quantization, file_bytes is not None))
    found.extend(words.defaults(settings, parts.rules, shape))
    found.extend(words.cards(settings))
    return tuple(found)

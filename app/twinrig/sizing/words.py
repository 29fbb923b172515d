"""Sentences of a plan."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from twinrig.domain.memory import (
    GIB,
    Card,
    Measurement,
    PartKind,
    SizingRules,
    SizingSettings,
    Verdict,
)
from twinrig.messages import Message, message
from twinrig.sizing.shape import AttentionKind, ModelShape
from twinrig.sizing.versions import parse_version
from twinrig.sizing.vllm_rules import VllmRules

_VLLM: Mapping[PartKind, Message] = MappingProxyType(
    {
        PartKind.RESERVED: message(
            "Held by the desktop, the driver and other programs, or kept free for them."
        ),
        PartKind.WEIGHTS: message("The model itself; the cards share it, copied parts included."),
        PartKind.KV: message("Pool for the conversations: keys and values of every token."),
        PartKind.STATE: message("Part of the pool that one request needs for its states."),
        PartKind.DRAFTER: message("Weights and cache of the part that drafts tokens ahead."),
        PartKind.ACTIVATIONS: message(
            "Peak of one step: grows with tokens per step and parallel requests."
        ),
        PartKind.RUNTIME: message(
            "CUDA context and kernels, and the buffers through which the cards talk."
        ),
        PartKind.GRAPHS: message("Recorded CUDA graphs; none in eager mode."),
        PartKind.HEADROOM: message("Left over."),
    }
)
_EXL3: Mapping[PartKind, Message] = MappingProxyType(
    {
        **_VLLM,
        PartKind.WEIGHTS: message(
            "Decoder and head; the table of token embeddings lies in the computer's RAM."
        ),
        PartKind.KV: message("Cache of all tokens, taken in full when the model loads."),
        PartKind.STATE: message(
            "States and windows of every batch slot, taken in full when the model loads."
        ),
        PartKind.ACTIVATIONS: message("Scratch memory: grows with the chunk size."),
    }
)

_PARTS = MappingProxyType({SizingRules.VLLM: _VLLM, SizingRules.EXL3: _EXL3})


def part(rules: SizingRules, kind: PartKind, card: Card) -> Message:
    """What a part of the memory is; of measured memory that is not free, who holds it."""
    if kind is PartKind.RESERVED and card.free_bytes is not None:
        return _held(card)
    return _PARTS[rules][kind]


def _held(card: Card) -> Message:
    if not card.holders:
        return message(
            "Held by the desktop, the driver and other programs; which ones cannot be told here."
        )
    return message(
        "Held by {programs}; what is left of it by the desktop and the driver.",
        programs=", ".join(card.holders),
    )


def gib(size_bytes: float) -> str:
    """Two decimals, as the engines print it."""
    return f"{size_bytes / GIB:.2f}"


def summary(verdict: Verdict, most: int | None, wanted: int | None) -> Message:
    """The verdict in words."""
    if most is None:
        return message("The cards are not known, so only the needs are listed.")
    if verdict is Verdict.DOES_NOT_FIT:
        if most:
            return message(
                "Does not fit. The longest context that fits: {tokens} tokens.",
                tokens=f"{most:,}",
            )
        return message("Does not fit: the weights leave no room for a conversation.")
    if verdict is Verdict.TIGHT:
        return message("Fits, but only just. Longest context: {tokens} tokens.", tokens=f"{most:,}")
    if wanted and most > wanted:
        return message(
            "Fits. There is room for {tokens} tokens in one conversation.", tokens=f"{most:,}"
        )
    return message("Fits. Longest context: {tokens} tokens.", tokens=f"{most:,}")


def needs_more(needed: int, available: int, context: int, most: int) -> Message:
    """vLLM's own refusal of a context that is too long."""
    return message(
        "To serve at least one request with the model's max seq len ({context}), {needed} GiB KV "
        "cache is needed, which is larger than the available KV cache memory ({available} GiB). "
        "Based on the available memory, the estimated maximum model length is {most}.",
        context=context,
        needed=gib(needed),
        available=gib(max(0, available)),
        most=most,
    )


def not_free(index: int, free: int, total: int, asked: int) -> Message:
    """vLLM's own refusal of a share that is not free at the start."""
    return message(
        "Free memory on device cuda:{index} ({free}/{total} GiB) on startup is less than desired "
        "GPU memory utilization ({asked} GiB).",
        index=index,
        free=gib(free),
        total=gib(total),
        asked=gib(asked),
    )


def too_many_sequences(asked: int, blocks: int) -> Message:
    """vLLM's own refusal of more running requests than states."""
    return message(
        "max_num_seqs ({asked}) exceeds available Mamba cache blocks ({blocks}).",
        asked=asked,
        blocks=blocks,
    )


def measured(found: Measurement) -> Message:
    """That a figure is measured, and where."""
    return message(
        "Overhead as measured on this machine with {engine} {version}.",
        engine=found.engine_id,
        version=found.engine_version,
    )


def defaults(settings: SizingSettings, rules: VllmRules, shape: ModelShape) -> tuple[Message, ...]:
    """Which defaults were taken for what was not stated."""
    found = []
    if parse_version(settings.engine_version) is None:
        found.append(
            message(
                "The engine's version is not known: where versions differ, the most demanding rule "
                "counts."
            )
        )
    if settings.max_num_batched_tokens is None:
        found.append(
            message(
                "Tokens per step: {count}, the engine's default for this card.",
                count=rules.batched_tokens,
            )
        )
    if settings.max_num_seqs is None:
        found.append(
            message(
                "Parallel requests: {count}, the engine's default for this card.",
                count=rules.sequences,
            )
        )
    if shape.hybrid and not settings.mamba_cache_mode and settings.prefix_caching is None:
        mode = "align" if rules.aligned else "none"
        found.append(message("State cache mode: {mode}, the default of this version.", mode=mode))
    slides = any(a.kind is not AttentionKind.FULL for a, _ in shape.attentions)
    if slides and not rules.window_groups:
        found.append(message("This version keeps the whole context of sliding layers too."))
    return tuple(found)


def cards(settings: SizingSettings) -> tuple[Message, ...]:
    """Which sizes of cards were taken, and what is kept free."""
    found = []
    nominal = [c for c in settings.cards if c.nominal_gb is not None]
    if nominal:
        found.append(
            message(
                "Real size of the cards, by a table of readings: {sizes} GiB.",
                sizes=", ".join(gib(c.total_bytes) for c in nominal),
            )
        )
    if any(c.free_bytes is None for c in settings.cards) and settings.utilization is None:
        found.append(
            message(
                "Free memory is not measured: {reserve} GiB a card are kept for Windows and the "
                "desktop.",
                reserve=gib(settings.reserve_bytes),
            )
        )
    return tuple(found)

"""Rules for a server at work, in the order in which they are asked; the first that fits speaks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from twinrig.domain.metrics import Snapshot
from twinrig.domain.quantities import duration, gib, number
from twinrig.messages import Message, message
from twinrig.services.situation import CardMeans, Situation, situation, within
from twinrig.services.verdict_words import (
    SERVER_LOG,
    Verdict,
    card_evidence,
    listed,
    plan_pool,
    plan_slots,
    plan_split,
)

STALL_S = 30.0
"""So long without a token, with requests running, is worth a word."""

WORKING_PERCENT = 25.0
RESTING_PERCENT = 8.0
SPLIT_SUM_PERCENT = 105.0
"""Loads of cards that take turns add up to no more than this (NVML's rounding included)."""
SPLIT_LEAST_PERCENT = 80.0
"""With one request one of the cards is nearly always at work."""
TOGETHER_SUM_PERCENT = 115.0
UNEVEN_PERCENT = 40.0
FULL_PERCENT = 90.0
LITTLE_POWER, MUCH_POWER = 0.55, 0.7
"""Shares of the power limit: waiting in a loop takes little, computing takes much."""

SPILL_BYTES = 512 * 1024 * 1024
ROUND_TOKENS = 1000
MOSTLY = 0.6
AT_LIMIT = 0.93
SLOW_LINK_GB_S = 4.0
MEAGRE_LINK_GB_S = 8.0
PREFILL_RATIO = 4.0
PREFILL_TPS = 200.0
FULL_CACHE = 0.95

Rule = Callable[[Situation], Verdict | None]


def judge_busy(now: Situation) -> Verdict:
    """The sentence for a stretch of steady work."""
    for rule in _RULES:
        found = rule(now)
        if found is not None:
            return found
    return _unclear(now)


def stalled(recent: Sequence[Snapshot]) -> Verdict | None:
    """Requests run, and not one token for ``STALL_S``; None while tokens flow."""
    silence: list[Snapshot] = []
    for snapshot in reversed(recent):
        speed = snapshot.throughput
        if not speed.requests_running or speed.generation_tps != 0 or speed.prompt_tps != 0:
            break
        silence.append(snapshot)
    silence.reverse()
    if len(silence) < 2 or silence[-1].taken_at_s - silence[0].taken_at_s < STALL_S:
        return None
    now = situation(within(silence, STALL_S))
    length = duration(silence[-1].taken_at_s - silence[0].taken_at_s)
    return _stall(now, length)


def _stall(now: Situation, length: Message) -> Verdict:
    evidence = card_evidence(now.cards)
    loads = [card.load for card in now.cards]
    shares = [card.power_share for card in now.cards]
    full = bool(loads) and all(load is not None and load >= FULL_PERCENT for load in loads)
    if full and all(share is not None and share < LITTLE_POWER for share in shares):
        text = message(
            "Stuck: all cards at {loads} with little power, and no token for {time}.",
            loads=listed(loads),
            time=length,
        )
        return Verdict("stuck", text, "fail", evidence, SERVER_LOG)
    if any(share is not None and share >= MUCH_POWER for share in shares):
        # vLLM counts the tokens of a prompt when all of it has been read.
        text = message("Reading a long prompt: {time} so far, cards at full power.", time=length)
        return Verdict("prefill", text, "busy", evidence)
    text = message("Requests run, but no token came for {time}. Cannot tell why.", time=length)
    return Verdict("stalled", text, "warn", evidence, SERVER_LOG, sure=False)


def _missing(now: Situation) -> Verdict | None:
    if len(now.cards) < 2:
        text = message("The server generates; fewer than two cards can be seen.")
        return Verdict("one-visible", text, "warn", card_evidence(now.cards))
    if any(card.load is None for card in now.cards):
        text = message(
            "The server generates. Cannot tell whether both cards work: "
            "the load of a card is not available."
        )
        return Verdict("load-unknown", text, "muted", card_evidence(now.cards), sure=False)
    return None


def _no_token(now: Situation) -> Verdict | None:
    if now.mute or now.generation_tps > 0 or now.prompt_tps > 0:
        return None
    evidence = card_evidence(now.cards)
    shares = [card.power_share or 0.0 for card in now.cards]
    if max(shares) >= MUCH_POWER:
        text = message(
            "Reading a prompt (load {loads}).", loads=listed([card.load for card in now.cards])
        )
        return Verdict("prefill", text, "busy", evidence)
    text = message(
        "A request runs; no token has come yet (load {loads}).",
        loads=listed([card.load for card in now.cards]),
    )
    return Verdict("no-token", text, "busy", evidence, sure=False)


def _spill(now: Situation) -> Verdict | None:
    """Windows moves video memory into system RAM instead of refusing it; all becomes slow."""
    cards = [card for card in now.cards if (card.shared_bytes or 0.0) >= SPILL_BYTES]
    if not cards:
        return _spill_somewhere(now)
    card = max(cards, key=lambda c: c.shared_bytes or 0.0)
    size = gib(card.shared_bytes or 0.0)
    tokens = _tokens_to_give_back(now, cards)
    text = message(
        "Spilling into system RAM: GPU {index} keeps {size} GiB there. "
        "Make the context smaller or close other programs.",
        index=card.index,
        size=size,
    )
    if tokens is not None:
        text = message(
            "Spilling into system RAM: GPU {index} keeps {size} GiB there. "
            "Give back about {tokens} tokens of KV cache, or close other programs.",
            index=card.index,
            size=size,
            tokens=f"{tokens:,}",
        )
    return Verdict("spill", text, "fail", card_evidence(now.cards), plan_pool(now.setup))


def _spill_somewhere(now: Situation) -> Verdict | None:
    """Windows tells how much, but not of which card: only sure when no card has told of its own."""
    size = now.unplaced_shared_bytes
    if size is None or size < SPILL_BYTES:
        return None
    if any(card.shared_bytes is not None for card in now.cards):
        return None  # then it belongs to another adapter, such as one in the processor
    text = message(
        "{size} GiB of video memory lie in system RAM; Windows does not say of which card. "
        "If replies are slow, make the context smaller or close other programs.",
        size=gib(size),
    )
    return Verdict(
        "spill-unplaced", text, "warn", card_evidence(now.cards), plan_pool(now.setup), sure=False
    )


def _tokens_to_give_back(now: Situation, cards: Sequence[CardMeans]) -> int | None:
    """The KV cache shrinks on all cards by the same tokens: the card with the most decides."""
    costs = now.setup.kv_bytes_per_token
    if not all(card.index < len(costs) and costs[card.index] > 0 for card in cards):
        return None
    tokens = max((card.shared_bytes or 0.0) / costs[card.index] for card in cards)
    return math.ceil(tokens / ROUND_TOKENS) * ROUND_TOKENS


def _hot(now: Situation) -> Verdict | None:
    card = max(now.cards, key=lambda c: c.hot_share, default=None)
    if card is None or card.hot_share < MOSTLY:
        return None
    degrees = "—" if card.temperature_c is None else number(round(card.temperature_c))
    text = message(
        "GPU {index} slows down because it is too hot ({degrees} °C).",
        index=card.index,
        degrees=degrees,
    )
    return Verdict("too-hot", text, "warn", card_evidence(now.cards))


def _brake(now: Situation) -> Verdict | None:
    card = max(now.cards, key=lambda c: c.brake_share, default=None)
    if card is None or card.brake_share < MOSTLY:
        return None
    text = message(
        "GPU {index} is slowed down by its power supply. Check its power cables.", index=card.index
    )
    return Verdict("power-brake", text, "warn", card_evidence(now.cards))


def _prefill(now: Situation) -> Verdict | None:
    reads = now.prompt_tps >= PREFILL_TPS
    if not reads or now.prompt_tps < PREFILL_RATIO * now.generation_tps:
        return None
    text = message(
        "Reading prompts: {rate} T/s (load {loads}).",
        rate=number(round(now.prompt_tps)),
        loads=listed([card.load for card in now.cards]),
    )
    return Verdict("prefill", text, "busy", card_evidence(now.cards))


def _one_card(now: Situation) -> Verdict | None:
    working = [card for card in now.cards if (card.load or 0.0) >= WORKING_PERCENT]
    resting = [card for card in now.cards if (card.load or 0.0) < RESTING_PERCENT]
    if len(working) != 1 or len(resting) != len(now.cards) - 1:
        return None
    loads = listed([card.load for card in now.cards])
    index = working[0].index
    evidence = card_evidence(now.cards)
    if _split(now) == "single":
        text = message(
            "Only GPU {index} works (load {loads}): the profile uses one card.",
            index=index,
            loads=loads,
        )
        return Verdict("one-card-setup", text, "warn", evidence, plan_split(now.setup))
    text = message(
        "Only GPU {index} works; the others are idle (load {loads}).", index=index, loads=loads
    )
    link = None if _split(now) == "tensor" else plan_split(now.setup)
    return Verdict("one-card", text, "warn", evidence, link)


def _uneven(now: Situation) -> Verdict | None:
    """Loads far apart, or both so low that the cards wait for something else."""
    loads = [card.load or 0.0 for card in now.cards]
    if min(loads) >= WORKING_PERCENT and max(loads) - min(loads) < UNEVEN_PERCENT:
        return None
    return _unclear(now)


def _layer_split(now: Situation) -> Verdict | None:
    if not now.mute and (now.running is None or now.running > 1 or now.generation_tps <= 0):
        return None  # several requests keep both halves of a layer split busy
    total = sum(card.load or 0.0 for card in now.cards)
    split = _split(now)
    if total > SPLIT_SUM_PERCENT or split == "single":
        return None
    values = {
        "loads": listed([card.load for card in now.cards]),
        "total": number(round(total)),
    }
    evidence = card_evidence(now.cards)
    if split == "layer":
        text = message("One card at a time: layer split ({loads}, together {total} %).", **values)
        return Verdict(
            "layer-split", text, "warn", evidence, plan_split(now.setup), sure=not now.mute
        )
    if split == "tensor":
        text = message(
            "Tensor parallel is on, but the loads add up to {total} % only ({loads}). "
            "Cannot tell what the cards wait for.",
            **values,
        )
        return Verdict("waiting-cards", text, "muted", evidence, sure=False)
    if total < SPLIT_LEAST_PERCENT:
        return None
    text = message(
        "One card at a time, most likely a layer split ({loads}, together {total} %).", **values
    )
    return Verdict("layer-split", text, "warn", evidence, plan_split(now.setup), sure=False)


def _layers_wait_busily(now: Situation) -> Verdict | None:
    """vLLM's stages wait for each other inside NCCL, which loads a card: seen as 100 % and 100 %.

    Two H200, pipeline of 2, one request: full loads at 45 % of the power limit, and 72 % of the
    speed of tensor parallelism (docs/hardware.md). So the setting decides here, not the sum.
    """
    if _split(now) != "layer" or now.mute or now.running is None or now.running > 1:
        return None
    if now.generation_tps <= 0 or any((c.load or 0.0) < WORKING_PERCENT for c in now.cards):
        return None
    text = message(
        "One card at a time: layer split. The card that waits counts as busy, too ({loads}).",
        loads=listed([card.load for card in now.cards]),
    )
    evidence = card_evidence(now.cards)
    return Verdict("layer-split", text, "warn", evidence, plan_split(now.setup))


def _narrow_link(now: Situation) -> Verdict | None:
    """Under tensor parallel each layer waits for the slowest link."""
    if _split(now) != "tensor":
        return None
    known = [(card.link_gb_s, card) for card in now.cards if card.link_gb_s is not None]
    if len(known) < len(now.cards):
        return None
    slowest, card = min(known, key=lambda pair: pair[0])
    fastest = max(rate for rate, _card in known)
    behind = slowest < MEAGRE_LINK_GB_S and slowest * 2 < fastest
    if slowest >= SLOW_LINK_GB_S and not behind:
        return None
    text = message(
        "Both cards work ({loads}), but GPU {index} limits them: its PCIe link is {link}.",
        loads=listed([each.load for each in now.cards]),
        index=card.index,
        link=f"{card.link_generation}.0 x{card.link_width}",
    )
    return Verdict("pcie-link", text, "warn", card_evidence(now.cards))


def _power_cap(now: Situation) -> Verdict | None:
    capped = [card for card in now.cards if _is_capped(card)]
    if not capped:
        return None
    text = message(
        "Both cards work ({loads}); the power limit holds GPU {index} back ({limit} W).",
        loads=listed([card.load for card in now.cards]),
        index=", ".join(str(card.index) for card in capped),
        limit=number(round(capped[0].power_limit_w or 0.0)),
    )
    return Verdict("power-cap", text, "ok", card_evidence(now.cards))


def _is_capped(card: CardMeans) -> bool:
    share = card.power_share
    return card.cap_share >= MOSTLY and share is not None and share >= AT_LIMIT


def _queue(now: Situation) -> Verdict | None:
    if not now.waiting:
        return None
    evidence = card_evidence(now.cards)
    if now.kv_cache_usage is not None and now.kv_cache_usage >= FULL_CACHE:
        text = message(
            "Requests wait because the KV cache is full ({percent} %). Waiting: {waiting}.",
            percent=number(round(now.kv_cache_usage * 100)),
            waiting=now.waiting,
        )
        return Verdict("cache-full", text, "warn", evidence, plan_pool(now.setup))
    slots = now.setup.max_num_seqs
    if slots is not None and now.running is not None and now.running >= slots:
        text = message(
            "All {slots} slots are taken; requests that wait: {waiting}.",
            slots=slots,
            waiting=now.waiting,
        )
        return Verdict("slots-full", text, "ok", evidence, plan_slots(now.setup))
    return None


def _together(now: Situation) -> Verdict | None:
    loads = listed([card.load for card in now.cards])
    total = sum(card.load or 0.0 for card in now.cards)
    evidence = card_evidence(now.cards)
    split = _split(now)
    single = now.running is None or now.running <= 1
    if split == "unknown" and single and total < TOGETHER_SUM_PERCENT:
        text = message(
            "Both cards work ({loads}). Cannot tell whether together or in turns.", loads=loads
        )
        return Verdict("unclear", text, "muted", evidence, sure=False)
    text = message("Both cards work together ({loads}).", loads=loads)
    if len(now.cards) > 2:
        text = message("All cards work together ({loads}).", loads=loads)
    return Verdict("together", text, "ok", evidence)


def _unclear(now: Situation) -> Verdict:
    text = message(
        "The server generates, but the loads are low or uneven ({loads}). "
        "Cannot tell why from this.",
        loads=listed([card.load for card in now.cards]),
    )
    return Verdict("unclear", text, "muted", card_evidence(now.cards), sure=False)


def _split(now: Situation) -> str:
    """ "tensor", "layer", "single" as the profile asks for; "unknown" when nobody knows."""
    tensor, layers = now.setup.tensor_parallel_size, now.setup.pipeline_parallel_size
    if (tensor or 1) > 1:
        return "tensor"
    if layers is None:
        return "unknown"  # exllamav3 spreads layers over as many cards as they need
    return "layer" if layers > 1 else "single"


_RULES: tuple[Rule, ...] = (
    _missing,
    _no_token,
    _spill,
    _hot,
    _brake,
    _prefill,
    _one_card,
    _layer_split,
    _layers_wait_busily,
    _uneven,
    _narrow_link,
    _queue,
    _power_cap,
    _together,
)

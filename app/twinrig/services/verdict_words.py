"""What a verdict is made of: the sentence, its evidence, and where to change something."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from twinrig.domain.metrics import ServerSetup
from twinrig.domain.quantities import number
from twinrig.messages import Message, message
from twinrig.services.situation import CardMeans


@dataclass(frozen=True)
class Link:
    """``place`` is a page of the panel, or a part of one ("plan/tensor_parallel_size")."""

    place: str
    text: Message


@dataclass(frozen=True)
class Verdict:
    """``id`` names the situation for tests, alarms and ``--json``; ``kind`` is ok, warn, fail,
    busy or muted; ``sure`` is False where the figures do not decide."""

    id: str
    text: Message
    kind: str
    evidence: tuple[Message, ...] = ()
    link: Link | None = None
    sure: bool = True


SERVER_LOG = Link("server/log", message("Show the log"))
CHECK_CARDS = Link("preflight", message("Check the machine"))


def plan_split(setup: ServerSetup) -> Link:
    """To the setting that says how the model is spread over the cards."""
    return Link(f"plan/{setup.split_setting}", message("Change the split"))


def plan_slots(setup: ServerSetup) -> Link:
    """To the setting of requests at the same time."""
    return Link(f"plan/{setup.slots_setting}", message("Change the parallel requests"))


def plan_pool(setup: ServerSetup) -> Link:
    """To the setting that sizes the KV cache."""
    return Link(f"plan/{setup.pool_setting}", message("Change the size of the KV cache"))


def listed(loads: Sequence[float | None]) -> str:
    """``67 % / 70 %``; a dash where a load is not available."""
    return " / ".join("—" if load is None else f"{number(round(load))} %" for load in loads)


def card_evidence(cards: Sequence[CardMeans]) -> tuple[Message, ...]:
    """One line per card with what the verdict was told from; what is unknown is left out."""
    return tuple(
        message("GPU {index}: {figures}", index=card.index, figures=_figures(card))
        for card in cards
        if _figures(card)
    )


def _figures(card: CardMeans) -> str:
    parts = []
    if card.load is not None:
        parts.append(f"{number(round(card.load))} %")
    if card.power_w is not None:
        limit = f" / {number(round(card.power_limit_w))}" if card.power_limit_w else ""
        parts.append(f"{number(round(card.power_w))}{limit} W")
    if card.temperature_c is not None:
        parts.append(f"{number(round(card.temperature_c))} °C")
    if card.link_generation is not None and card.link_width is not None:
        parts.append(f"PCIe {card.link_generation}.0 x{card.link_width}")
    return ", ".join(parts)

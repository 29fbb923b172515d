"""Which graphics card is which: Windows counts adapters by LUID, NVIDIA cards have UUIDs.

The place on the PCI bus joins both. NVML names it ``00000000:01:00.0`` (hexadecimal), Windows
gives bus, device and function as numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

_PCI = re.compile(r"(?:[0-9a-f]{4,8}:)?([0-9a-f]{2,4}):([0-9a-f]{2})\.([0-7])", re.IGNORECASE)


@dataclass(frozen=True)
class Adapter:
    """One adapter as Windows' kernel knows it."""

    luid: str
    bus: int
    device: int
    function: int


@dataclass(frozen=True)
class NvidiaCard:
    """One card as NVML knows it on the Windows side. None = the driver does not tell."""

    uuid: str
    name: str
    pci_bus_id: str | None
    display: bool | None


def luid_text(high: int, low: int) -> str:
    """As it stands in the names of the performance counters."""
    return f"0x{high & 0xFFFFFFFF:08X}_0x{low & 0xFFFFFFFF:08X}"


def pci_place(text: str) -> tuple[int, int, int] | None:
    """Bus, device and function of a PCI bus id."""
    found = _PCI.fullmatch(text.strip())
    if found is None:
        return None
    return int(found[1], 16), int(found[2], 16), int(found[3], 16)


def cards_by_luid(adapters: Iterable[Adapter], cards: Sequence[NvidiaCard]) -> Mapping[str, str]:
    """UUID by LUID, for those that can be told apart. Two cards at one place (two PCI domains),
    or two adapters at one, are left out: a wrong card would be worse than none."""
    by_place: dict[tuple[int, int, int], list[str]] = {}
    for card in cards:
        place = pci_place(card.pci_bus_id or "")
        if place is not None:
            by_place.setdefault(place, []).append(card.uuid)
    luids: dict[str, list[str]] = {}
    for adapter in adapters:
        uuids = by_place.get((adapter.bus, adapter.device, adapter.function), [])
        if len(uuids) == 1:
            luids.setdefault(uuids[0], []).append(adapter.luid)
    return {found[0]: uuid for uuid, found in luids.items() if len(found) == 1}

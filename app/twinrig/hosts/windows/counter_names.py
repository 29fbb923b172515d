"""Names of counter instances: ``pid_1234_luid_0x00000000_0x0000D1C7_phys_0`` and the like."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from twinrig.domain.windows import AdapterMemory, GpuMemoryReading, ProcessMemory

_INSTANCE = re.compile(
    r"(?:pid_(\d+)_)?luid_(0x[0-9a-f]{8})_(0x[0-9a-f]{8})_phys_(\d+)(?:#\d+)?", re.IGNORECASE
)

Counted = Iterable[tuple[str, int]]
"""Instance name and value in bytes, as the counter lists them."""


@dataclass(frozen=True)
class Instance:
    """What an instance is about. ``pid`` None: an adapter as a whole. ``part``: one of several
    GPUs that are linked to one adapter."""

    pid: int | None
    luid: str
    part: int


def parse_instance(name: str) -> Instance | None:
    """None for a name of another kind."""
    found = _INSTANCE.fullmatch(name.strip())
    if found is None:
        return None
    high, low = found[2][2:].upper(), found[3][2:].upper()
    pid = None if found[1] is None else int(found[1])
    return Instance(pid, f"0x{high}_0x{low}", int(found[4]))


@dataclass(frozen=True)
class CounterValues:
    """The four lists that one reading consists of."""

    adapter_dedicated: Counted
    adapter_shared: Counted
    process_dedicated: Counted
    process_shared: Counted


def reading(values: CounterValues, cards: Mapping[str, str]) -> GpuMemoryReading:
    """Sums over linked parts; ``cards`` are UUIDs by LUID, those not in it stay unknown."""
    dedicated, shared = _sums(values.adapter_dedicated), _sums(values.adapter_shared)
    own, moved = _sums(values.process_dedicated), _sums(values.process_shared)
    adapters = sorted({luid for pid, luid in {**dedicated, **shared} if pid is None})
    processes = sorted((pid, luid) for pid, luid in {**own, **moved} if pid is not None)
    return GpuMemoryReading(
        tuple(
            AdapterMemory(
                luid, cards.get(luid), dedicated.get((None, luid)), shared.get((None, luid))
            )
            for luid in adapters
        ),
        tuple(
            ProcessMemory(pid, luid, cards.get(luid), own.get((pid, luid)), moved.get((pid, luid)))
            for pid, luid in processes
        ),
    )


def _sums(counted: Counted) -> dict[tuple[int | None, str], int]:
    sums: dict[tuple[int | None, str], int] = {}
    for name, value in counted:
        instance = parse_instance(name)
        if instance is not None and value >= 0:
            key = instance.pid, instance.luid
            sums[key] = sums.get(key, 0) + value
    return sums

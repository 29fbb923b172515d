"""Sleep mode of the demo server: the cards are free, the process lives, requests wait."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from twinrig.hosts.demo.batch import Batch
from twinrig.hosts.demo.loading import Rig
from twinrig.hosts.demo.physics import MIB, Memory

SLEEP_S, WAKE_S = 0.6, 1.5
"""At a load scale of 1: weights go over PCIe, out of and into the RAM of the machine."""
LEFT_BYTES = 480 * MIB
"""What a process that uses CUDA at all keeps on each card."""


@dataclass
class Naps:
    """Changes what is on the cards; a second request for the same is no error, as with vLLM."""

    rig: Rig
    memory: Memory
    batch: Batch
    cards: int
    load_scale: float
    asleep: bool = False

    async def sleep(self) -> None:
        """Everything but the processes' own memory is given back."""
        self.batch.stalled = True
        await asyncio.sleep(SLEEP_S * self.load_scale)
        self.rig.occupy((LEFT_BYTES, LEFT_BYTES if self.cards > 1 else 0))
        self.asleep = True

    async def wake(self) -> None:
        """As it was before."""
        await asyncio.sleep(WAKE_S * self.load_scale)
        self.rig.occupy_all(self.memory)
        self.asleep = self.batch.stalled = False

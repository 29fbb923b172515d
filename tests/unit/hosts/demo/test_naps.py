"""The demo server asleep: its memory is gone from the cards, and comes back."""

from __future__ import annotations

import asyncio

from twinrig.hosts.demo.batch import Batch, Sequence
from twinrig.hosts.demo.loading import Rig
from twinrig.hosts.demo.naps import LEFT_BYTES, Naps
from twinrig.hosts.demo.physics import IDLE_USED_BYTES, Memory, Split

MEMORY = Memory((7 << 30, 7 << 30), (3 << 30, 3 << 30), (1 << 28, 1 << 28), 50_000)


async def test_memory_goes_and_comes_back_and_requests_wait() -> None:
    rig, batch = Rig(), Batch(Split.TENSOR, 4, 50_000, speed_scale=200.0)
    rig.occupy_all(MEMORY)
    loaded = rig.used_bytes
    naps = Naps(rig, MEMORY, batch, cards=2, load_scale=0.0)
    running = asyncio.create_task(batch.run())
    await naps.sleep()
    assert naps.asleep
    assert rig.used_bytes == tuple(idle + LEFT_BYTES for idle in IDLE_USED_BYTES)
    sequence = Sequence(4, ["a", "b"])
    batch.add(sequence)
    await asyncio.sleep(0.3)
    assert sequence.produced == 0
    await naps.wake()
    assert rig.used_bytes == loaded and not naps.asleep
    async with asyncio.timeout(10):
        while not sequence.done:
            await asyncio.sleep(0.01)
    running.cancel()

"""Real time."""

from __future__ import annotations

import asyncio
import time


class SystemClock:
    """``Clock`` of the running machine."""

    def now(self) -> float:
        """Epoch seconds."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds from an arbitrary point; never goes back."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Sleep without blocking other tasks; less than zero sleeps not at all."""
        await asyncio.sleep(max(0.0, seconds))

"""Real time."""

from __future__ import annotations

import asyncio
import sys
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


def boot_at_s() -> float | None:
    """When this computer started, epoch seconds; sleep is no start."""
    if sys.platform == "win32":
        # Python's monotonic clock counts from the start of the system there.
        return time.time() - time.monotonic()
    boottime = getattr(time, "CLOCK_BOOTTIME", None)
    return None if boottime is None else time.time() - time.clock_gettime(boottime)

"""Waiting that ends early: by a deadline of the given clock, or by another event."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from twinrig.domain.ports import Clock

T = TypeVar("T")


async def cancel(*tasks: asyncio.Future[Any]) -> None:
    """Cancel and wait until they are gone; their errors are dropped, our own cancelling is not."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def first(
    work: Coroutine[Any, Any, T], *others: Coroutine[Any, Any, object]
) -> tuple[bool, T | None]:
    """Run ``work`` until it ends, ``(True, result)``, or one of ``others`` does, ``(False, None)``.

    What did not end is cancelled. Errors of ``work`` are raised.
    """
    main = asyncio.ensure_future(work)
    rest = [asyncio.ensure_future(other) for other in others]
    try:
        await asyncio.wait([main, *rest], return_when=asyncio.FIRST_COMPLETED)
        return (True, main.result()) if main.done() else (False, None)
    finally:
        await cancel(*rest, *(() if main.done() else (main,)))


async def within(
    clock: Clock, seconds: float, work: Coroutine[Any, Any, T]
) -> tuple[bool, T | None]:
    """``first`` against a deadline."""
    return await first(work, clock.sleep(seconds))

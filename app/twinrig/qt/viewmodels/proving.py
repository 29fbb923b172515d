"""The proof that a server stays: how long it still takes, then the verdict in words."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from twinrig.domain.quantities import duration
from twinrig.domain.wsl import is_wsl
from twinrig.messages import Message, message
from twinrig.services.persistence import PROOF_S, Proof

if TYPE_CHECKING:
    from twinrig.services.workbench import Workbench

_TONES = {True: "ok", False: "fail", None: "warn"}


@dataclass(frozen=True)
class ProofView:
    """``tone`` is that of an icon; ``fraction`` 0 to 1 while it goes on, None at the end."""

    tone: str
    headline: Message
    lines: tuple[Message, ...] = ()
    fraction: float | None = None


def waiting_view(left_s: float, wait_s: float = PROOF_S, *, wsl: bool = False) -> ProofView:
    """While nothing is touched."""
    hint = (
        message(
            "You may close terminals and use other programs meanwhile. Do not open WSL "
            "yourself: that would keep it up."
        )
        if wsl
        else message("You may close terminals and use other programs meanwhile.")
    )
    return ProofView(
        "busy",
        message("Leaving the server alone for {time} more…", time=duration(left_s)),
        (hint,),
        fraction=min(1.0, max(0.0, 1.0 - left_s / wait_s)) if wait_s > 0 else 1.0,
    )


def verdict_view(proof: Proof) -> ProofView:
    """At the end."""
    next_step = () if proof.next_step is None else (proof.next_step,)
    return ProofView(_TONES[proof.kept], proof.text, (*proof.shown, *proof.untried, *next_step))


async def proof_stream(
    workbench: Workbench, profile_id: str, wait_s: float = PROOF_S
) -> AsyncIterator[ProofView]:
    """Views until the verdict, which comes last. Raises ConflictError when it is not ready."""
    wsl = is_wsl(workbench.target)
    left: asyncio.Queue[float] = asyncio.Queue()
    work = asyncio.ensure_future(workbench.persistence().run(profile_id, left.put_nowait, wait_s))
    try:
        while not work.done():
            following = asyncio.ensure_future(left.get())
            await asyncio.wait([work, following], return_when=asyncio.FIRST_COMPLETED)
            if following.done():
                yield waiting_view(following.result(), wait_s, wsl=wsl)
            else:
                following.cancel()
        yield verdict_view(work.result())
    finally:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)

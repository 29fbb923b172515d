"""A client for the demo rig, so that its live view has something to show. Never for real ones."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from twinrig.cli.terminal import Terminal
from twinrig.domain.errors import TwinrigError
from twinrig.domain.supervision import ServerRecord
from twinrig.messages import message
from twinrig.services.workbench import Workbench

PAUSE_S = 2.0


@asynccontextmanager
async def demo_client(
    terminal: Terminal, bench: Workbench, record: ServerRecord
) -> AsyncIterator[None]:
    """Asks for one reply after another while the body runs; does nothing on a real target."""
    if not bench.demo:
        yield
        return
    terminal.say(message("A demo client asks for text, so that there is something to see."))
    task = asyncio.ensure_future(_chat(bench, record))
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def _chat(bench: Workbench, record: ServerRecord) -> None:
    profile = await asyncio.to_thread(bench.profiles.load, record.profile_id)
    name = profile.network.key_name
    token = await bench.secrets.get(name) if name else None
    body = {
        "model": record.model_id,
        "messages": [{"role": "user", "content": "Tell me about two graphics cards."}],
        "max_tokens": 400,
        "stream": True,
    }
    while True:
        with contextlib.suppress(TwinrigError):  # the view tells how the server is
            events = bench.http.stream_events(
                record.base_url + "/v1/chat/completions", body, timeout_s=60.0, token=token
            )
            async for _ in events:
                pass
        await bench.clock.sleep(PAUSE_S)

"""A port for a new profile that no other program of this computer uses."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import replace
from typing import TYPE_CHECKING

from twinrig.domain.profile import Profile

if TYPE_CHECKING:
    from twinrig.services.workbench import Workbench

PORTS_TRIED = 50


async def with_free_port(bench: Workbench, draft: Profile) -> Profile:
    """The draft on its own port, or the next one that nobody uses.

    The port of the target's own server counts as free: the two never run together. Elsewhere
    than on this computer nothing is tried; preflight tells.
    """
    if bench.target not in ("local", "demo"):
        return draft
    record = await bench.controller.active_record()
    own = record.base_url.rpartition(":")[2] if record is not None else ""
    port = await asyncio.to_thread(_first_free, draft.network.port, own)
    return replace(draft, network=replace(draft.network, port=port))


def _first_free(wanted: int, own: str) -> int:
    for port in range(wanted, min(wanted + PORTS_TRIED, 65536)):
        if str(port) == own or not in_use(port):
            return port
    return wanted  # preflight tells


def in_use(port: int) -> bool:
    """Whether a program listens on this computer's own address."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return True
    return False

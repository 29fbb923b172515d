"""How much video memory came back when the cards were freed: before against after."""

from __future__ import annotations

from twinrig.domain.metrics import Snapshot
from twinrig.domain.server import ANSWERING_STATES, ServerState

_LOADS = frozenset({ServerState.STARTING, ServerState.LOADING})
LEAST_BYTES = 256 * 1024 * 1024
"""Less than that is what programs take and give back all the time."""


class FreedMemory:
    """Fed by one stream of snapshots. Other programs' changes meanwhile count in: it is an
    observation of the cards, not of the server."""

    def __init__(self) -> None:
        self._held_bytes: int | None = None
        self.freed_bytes: int | None = None

    def take(self, snapshot: Snapshot) -> None:
        """``freed_bytes`` None: nothing was freed, or it is not known how much."""
        used = used_bytes(snapshot)
        state = snapshot.server.state if snapshot.server else ServerState.STOPPED
        if state in ANSWERING_STATES:
            self._held_bytes, self.freed_bytes = used or self._held_bytes, None
        elif state in _LOADS:
            self._held_bytes = self.freed_bytes = None
        elif state not in (ServerState.SLEEPING, ServerState.STOPPED):
            return
        elif self._held_bytes is not None and used is not None:
            freed = self._held_bytes - used
            self.freed_bytes = freed if freed >= LEAST_BYTES else None


def used_bytes(snapshot: Snapshot) -> int | None:
    """Memory in use on all cards; None when one of them does not tell."""
    values = [sample.memory_used_bytes for sample in snapshot.samples if not sample.stale]
    if not values or len(values) < len(snapshot.gpus):
        return None
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None

"""States of a server, and which may follow which. One table, used by everybody."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType


class ServerState(StrEnum):
    """STARTING: process launched, nothing heard. LOADING: a load phase was seen.

    DEGRADED: lives but does not answer as it should. BACKOFF: waits before a restart.
    SLEEPING: lives, but has given the memory of the cards back on purpose.
    FAILED: gave up; the reason is in the record.
    """

    STOPPED = "stopped"
    STARTING = "starting"
    LOADING = "loading"
    READY = "ready"
    DEGRADED = "degraded"
    BACKOFF = "backoff"
    SLEEPING = "sleeping"
    STOPPING = "stopping"
    FAILED = "failed"


_S = ServerState
TRANSITIONS: Mapping[ServerState, frozenset[ServerState]] = MappingProxyType(
    {
        _S.STOPPED: frozenset({_S.STARTING, _S.FAILED}),
        _S.STARTING: frozenset({_S.LOADING, _S.READY, _S.BACKOFF, _S.STOPPING, _S.FAILED}),
        _S.LOADING: frozenset({_S.READY, _S.BACKOFF, _S.STOPPING, _S.FAILED}),
        _S.READY: frozenset({_S.DEGRADED, _S.SLEEPING, _S.BACKOFF, _S.STOPPING, _S.FAILED}),
        _S.DEGRADED: frozenset({_S.READY, _S.SLEEPING, _S.BACKOFF, _S.STOPPING, _S.FAILED}),
        _S.BACKOFF: frozenset({_S.STARTING, _S.STOPPED, _S.FAILED}),
        _S.SLEEPING: frozenset({_S.LOADING, _S.BACKOFF, _S.STOPPING, _S.FAILED}),
        _S.STOPPING: frozenset({_S.STOPPED, _S.STARTING, _S.FAILED}),
        _S.FAILED: frozenset({_S.STARTING, _S.STOPPED}),
    }
)

ACTIVE_STATES = frozenset(
    {_S.STARTING, _S.LOADING, _S.READY, _S.DEGRADED, _S.BACKOFF, _S.SLEEPING, _S.STOPPING}
)
"""States in which a supervisor is at work."""

ANSWERING_STATES = frozenset({_S.READY, _S.DEGRADED})
"""States in which clients get replies."""


def may_follow(current: ServerState, following: ServerState) -> bool:
    """Whether the table allows ``current`` -> ``following``; staying is always allowed."""
    return current == following or following in TRANSITIONS[current]


class Phase(StrEnum):
    """Load phases in the order in which they happen; engines map their log lines to them."""

    LAUNCH = "launch"
    IMPORT = "import"
    CONFIG = "config"
    WORKERS = "workers"
    WEIGHTS = "weights"
    COMPILE = "compile"
    MEMORY = "memory"
    GRAPHS = "graphs"
    LISTEN = "listen"
    PROBE = "probe"
    SERVE = "serve"
    STOP = "stop"

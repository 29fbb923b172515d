"""What the supervisor is built from; the composition root supplies it."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from twinrig.domain.launch import Endpoint, LaunchSpec
from twinrig.domain.ports import (
    Clock,
    ExitStatus,
    HttpClient,
    Lock,
    MachineWatch,
    ServerLauncher,
)
from twinrig.domain.profile import Profile
from twinrig.domain.supervision import Failure, StateLayout
from twinrig.engines.base import Engine
from twinrig.supervisor.port import is_refused, port_in_use
from twinrig.supervisor.timing import Timing

LOCK_NAME = "supervisor"


def _never(_failure: Failure) -> bool:
    return False


async def nothing_between(_endpoint: Endpoint) -> bool:
    """A server that refuses does not listen."""
    return False


async def no_look(_age_s: float) -> None:
    """Nothing stands beside the log."""


def new_run_id() -> str:
    """A run id that no other run has."""
    return uuid.uuid4().hex


@dataclass(frozen=True)
class SupervisorParts:
    """Ports and rules. ``prepare`` turns a profile into what to launch; its errors are final.

    ``explain`` turns the lines of a run and its exit into a cause; ``log_line_no`` of its answer
    is the 1-based index into these lines. ``look`` runs before it, with the seconds since the
    launch, and may gather what stands beside the log. ``boot_at_s``: when this computer started,
    epoch seconds. ``is_permanent``: a restart cannot cure
    this failure. ``machine`` tells of sleep; None where that harms nothing.
    ``cut_off``: whether a server that refuses here listens on its own side all the same.
    ``proven`` is told when the profile that was prepared last has given its first reply.
    """

    layout: StateLayout
    load_profile: Callable[[str], Profile]
    prepare: Callable[[Profile], Awaitable[LaunchSpec]]
    engine_for: Callable[[Profile], Engine]
    launcher: ServerLauncher
    http: HttpClient
    clock: Clock
    lock: Lock
    explain: Callable[[Sequence[str], ExitStatus], Failure]
    is_permanent: Callable[[Failure], bool] = _never
    port_in_use: Callable[[Endpoint], Awaitable[bool]] = port_in_use
    is_refused: Callable[[Endpoint], Awaitable[bool]] = is_refused
    cut_off: Callable[[Endpoint], Awaitable[bool]] = nothing_between
    look: Callable[[float], Awaitable[None]] = no_look
    boot_at_s: Callable[[], float | None] = lambda: None
    machine: MachineWatch | None = None
    proven: Callable[[], None] = lambda: None
    make_run_id: Callable[[], str] = new_run_id
    timing: Timing = field(default_factory=Timing)

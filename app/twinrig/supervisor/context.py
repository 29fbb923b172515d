"""What all parts of one supervisor share."""

from __future__ import annotations

from dataclasses import dataclass

from twinrig.domain.supervision import StateLayout
from twinrig.supervisor.intent import Intent
from twinrig.supervisor.log_writer import LogWriter
from twinrig.supervisor.own_log import OwnLog
from twinrig.supervisor.parts import SupervisorParts
from twinrig.supervisor.record_store import RecordStore
from twinrig.supervisor.stop import Sweeper


@dataclass(frozen=True)
class Context:
    """Built once per ``supervise`` call."""

    profile_id: str
    parts: SupervisorParts
    layout: StateLayout
    log: OwnLog
    store: RecordStore
    intent: Intent
    writer: LogWriter
    sweeper: Sweeper


def build_context(profile_id: str, parts: SupervisorParts) -> Context:
    """Wire the parts; starts the log writer's thread."""
    layout = parts.layout
    log = OwnLog(layout.supervisor_log(profile_id), parts.clock)
    store = RecordStore(
        layout.state(profile_id), profile_id, parts.clock, log, parts.timing.heartbeat_s
    )
    return Context(
        profile_id,
        parts,
        layout,
        log,
        store,
        Intent(layout.desired(profile_id), log),
        LogWriter(layout.log(profile_id)),
        Sweeper(parts.launcher, parts.clock, parts.timing, log),
    )

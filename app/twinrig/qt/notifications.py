"""When to disturb the user: the server got ready or failed, or something needs action.

Once a minute per kind at most; an alarm once per episode (``services.alarms``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from twinrig.domain.metrics import Snapshot
from twinrig.domain.server import ServerState
from twinrig.domain.supervision import ServerRecord
from twinrig.messages import Message, message
from twinrig.services.alarms import Alarms
from twinrig.services.verdict_words import Verdict

PAUSE_S = 60.0


@dataclass(frozen=True)
class Notice:
    """One notification. ``kind`` is "ready", "failed" or the kind of an alarm."""

    kind: str
    title: Message
    text: Message


class Notices:
    """Watches snapshots. What was already so when the panel came is no news."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._last_state: ServerState | None = None
        self._seen = False
        self._told_at_s: dict[str, float] = {}
        self._alarms = Alarms()

    def take(self, snapshot: Snapshot, judged: Verdict | None = None) -> Notice | None:
        """A notice when this snapshot is worth one."""
        notice = self._news(snapshot)
        alarm = self._alarms.take(snapshot, judged) if judged is not None else None
        if notice is None and alarm is not None:
            return Notice(alarm.kind, alarm.title, alarm.text)
        return notice

    def _news(self, snapshot: Snapshot) -> Notice | None:
        record = snapshot.server
        state = record.state if record else ServerState.STOPPED
        changed = self._seen and state is not self._last_state
        recovered = self._last_state is ServerState.DEGRADED
        self._last_state, self._seen = state, True
        if not changed or record is None:
            return None
        if state is ServerState.READY and not recovered:
            name = record.model_id or record.profile_id
            text = message("{model} answers at {url}", model=name, url=f"{record.base_url}/v1")
            return self._allow(Notice("ready", message("The server is ready"), text))
        if state in (ServerState.FAILED, ServerState.BACKOFF):
            return self._allow(_trouble(record))
        return None

    def _allow(self, notice: Notice) -> Notice | None:
        now_s = self._monotonic()
        last_s = self._told_at_s.get(notice.kind)
        if last_s is not None and now_s - last_s < PAUSE_S:
            return None
        self._told_at_s[notice.kind] = now_s
        return notice


def _trouble(record: ServerRecord) -> Notice:
    reason = record.failure.text if record.failure else message("Open Twinrig to see the log.")
    if record.state is ServerState.BACKOFF:
        return Notice("failed", message("The server ended and is started again"), reason)
    return Notice("failed", message("The server failed"), reason)

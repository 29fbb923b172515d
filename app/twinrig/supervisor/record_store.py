"""The record as others see it: one place that changes the state, writes it, keeps it fresh."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from twinrig.domain.ports import Clock
from twinrig.domain.server import ServerState, may_follow
from twinrig.domain.supervision import ServerRecord
from twinrig.files import write_atomic
from twinrig.supervisor.own_log import OwnLog


class RecordStore:
    """Owns ``state.json``. After the first write a full disk delays a write, it never stops us."""

    def __init__(
        self, path: Path, profile_id: str, clock: Clock, log: OwnLog, heartbeat_s: float
    ) -> None:
        self._path = path
        self._clock = clock
        self._log = log
        self._heartbeat_s = heartbeat_s
        self._written_at = -1.0
        self._dirty = False
        self._complained = False
        self.record = ServerRecord(
            profile_id=profile_id,
            target="",
            engine_id="",
            run_id="",
            state=ServerState.STOPPED,
            updated_at_s=clock.now(),
            supervisor_pid=os.getpid(),
        )

    def write_first(self, **changes: Any) -> None:
        """Prove that the record can be kept at all; the first state follows nothing.

        Raises OSError.
        """
        self._change(changes)
        self._write()

    def enter(self, state: ServerState, **changes: Any) -> None:
        """The only way to change the state; one that may not follow is a bug."""
        before = self.record.state
        assert may_follow(before, state), f"{before} -> {state} is not in the table"
        if before != state:
            self._log.say(f"{before} -> {state}")
        self.update(state=state, **changes)

    def update(self, **changes: Any) -> None:
        """Change and write now."""
        self._change(changes)
        self._try_write()

    def mark(self, **changes: Any) -> None:
        """Change; written by the next ``tick``. For what changes many times a second."""
        if any(getattr(self.record, name) != value for name, value in changes.items()):
            self._change(changes)
            self._dirty = True

    def tick(self) -> None:
        """Write what was marked, and the heartbeat when it is due."""
        if self._dirty or self._clock.monotonic() - self._written_at >= self._heartbeat_s:
            self._try_write()

    def _change(self, changes: dict[str, Any]) -> None:
        self.record = replace(self.record, **changes)

    def _try_write(self) -> None:
        try:
            self._write()
        except OSError as error:
            self._dirty = True
            if not self._complained:
                self._log.say(f"state.json cannot be written: {error}")
            self._complained = True

    def _write(self) -> None:
        self.record = replace(self.record, updated_at_s=self._clock.now())
        write_atomic(self._path, self.record.to_json().encode())
        self._written_at = self._clock.monotonic()
        self._dirty = self._complained = False

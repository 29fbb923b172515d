"""What a benchmark has put aside, kept on disk: when it is cut off, the next start puts it back."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from twinrig.domain.errors import DamagedFileError, TwinrigError
from twinrig.domain.server import ACTIVE_STATES, ServerState
from twinrig.domain.supervision import DesiredState
from twinrig.files import read_small, write_atomic
from twinrig.messages import Message, message
from twinrig.services.server_files import ServerFiles
from twinrig.services.workbench import Workbench

REQUESTED_BY = "benchmark"
LOCK_NAME = "benchmark"
"""Held as long as a benchmark is at work on the target."""
STOP_TIMEOUT_S = 180.0
SCHEMA_VERSION = 1


@dataclass(frozen=True)
class BenchNote:
    """The file. It is there while servers stand otherwise than the user has left them."""

    path: Path

    @classmethod
    def of(cls, bench: Workbench) -> BenchNote:
        """That of a target."""
        return cls(bench.layout.root / "benchmark.json")

    def before(self) -> str | None:
        """Profile whose server ran, "" for none; None when nothing is put aside."""
        try:
            data = json.loads(read_small(self.path))
            known = data["schema_version"] == SCHEMA_VERSION
            return str(data["before"]) if known else None
        except (OSError, ValueError, LookupError, TypeError, RecursionError):
            return None

    def write(self, before: str) -> None:
        """Before the first server is touched. Raises OSError."""
        document = {"schema_version": SCHEMA_VERSION, "before": before}
        write_atomic(self.path, json.dumps(document).encode())

    def remove(self) -> None:
        """Everything is as it was."""
        self.path.unlink(missing_ok=True)


async def put_back_after_cut(bench: Workbench) -> Message | None:
    """Put back what a benchmark that was cut off has left behind, and say so.

    None when there is nothing to put back: no benchmark was cut off, one is at work now, or the
    user has started or stopped a server since.
    """
    note = BenchNote.of(bench)
    if note.before() is None:
        return None
    lock = bench.open_lock()
    if not lock.acquire(LOCK_NAME):
        return None
    try:
        return await put_back_cut_off(bench)
    finally:
        lock.release()


async def put_back_cut_off(bench: Workbench) -> Message | None:
    """As ``put_back_after_cut``, for whoever holds the lock."""
    note = BenchNote.of(bench)
    before = note.before()
    if before is None:
        return None
    told = None
    try:
        if _last_asked_by(bench) == REQUESTED_BY:
            told = await _put_back(bench, before)
    except TwinrigError as error:
        told = message(
            "A measurement was cut off. What ran before it could not be put back: {reason}",
            reason=error.text,
        )
    note.remove()
    return told


async def _put_back(bench: Workbench, before: str) -> Message:
    controller = bench.controller
    status = await controller.active()
    record = status.record if status is not None else None
    running = record.profile_id if record is not None and record.state in ACTIVE_STATES else ""
    if running and running != before:
        await controller.stop(running, REQUESTED_BY)
        rest = frozenset({ServerState.STOPPED, ServerState.FAILED})
        await controller.wait_for(running, rest, STOP_TIMEOUT_S)
    if before and running != before:
        await controller.start(before, REQUESTED_BY)
        return message(
            "A measurement was cut off. The server of {profile}, which ran before it, is started "
            "again with its own settings.",
            profile=before,
        )
    if running != before:
        return message(
            "A measurement was cut off. The server of {profile}, which it had started, is stopped.",
            profile=running,
        )
    return message("A measurement was cut off. The servers are as they were before it.")


def _last_asked_by(bench: Workbench) -> str:
    """Who has asked for a server last; "" = nobody."""
    files = ServerFiles(bench.layout)
    wishes: list[DesiredState] = []
    for profile_id in files.profile_ids():
        try:
            wish = files.desired(profile_id)
        except DamagedFileError:
            continue  # told by the status of that profile
        if wish is not None:
            wishes.append(wish)
    newest = max(wishes, key=lambda wish: wish.requested_at_s, default=None)
    return newest.requested_by if newest is not None else ""

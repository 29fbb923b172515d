"""Which processes belong to a run, also after they have overwritten their environment.

As run with vLLM 0.32: ``kill -9`` of the API process leaves EngineCore and Workers behind as
children of init, with retitled command lines and a wiped environment. What stays is the session
the launcher made for the run, and what was written down while everything lived. The kernel does
not give a session's number away while a member lives, so one proven member proves the session.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from twinrig.files import read_small, write_atomic
from twinrig.hosts.local.proc_table import ProcEntry, descendants

_RUN_ID = re.compile(r"[A-Za-z0-9_.-]{1,100}")


@dataclass(frozen=True)
class RunLedger:
    """Processes of one run as last seen: pid -> start time in ticks, valid for one boot."""

    run_id: str
    boot_id: str
    members: Mapping[int, int] = field(default_factory=dict)

    def to_json(self) -> str:
        """One JSON object."""
        members = {str(pid): start for pid, start in sorted(self.members.items())}
        return json.dumps({"run_id": self.run_id, "boot_id": self.boot_id, "members": members})


def ledger_path(folder: Path, run_id: str) -> Path | None:
    """File of a run; None for a run id that is not one of ours (it could name any file)."""
    return folder / f"run-{run_id}.json" if _RUN_ID.fullmatch(run_id) else None


def load_ledger(folder: Path, run_id: str, boot_id: str) -> RunLedger:
    """What was written down; empty when nothing was, when damaged, or of another boot."""
    empty = RunLedger(run_id, boot_id)
    path = ledger_path(folder, run_id)
    if path is None:
        return empty
    try:
        data = json.loads(read_small(path))
        if data["boot_id"] != boot_id or data["run_id"] != run_id:
            return empty
        return RunLedger(run_id, boot_id, {int(k): int(v) for k, v in data["members"].items()})
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return empty


def save_ledger(folder: Path, ledger: RunLedger) -> None:
    """Write it down; a disk that is full costs the record, never the run."""
    path = ledger_path(folder, ledger.run_id)
    if path is not None:
        with contextlib.suppress(OSError):
            write_atomic(path, ledger.to_json().encode(), mode=0o600)


def drop_ledger(folder: Path, run_id: str) -> None:
    """Nothing of the run is left."""
    path = ledger_path(folder, run_id)
    if path is not None:
        with contextlib.suppress(OSError):
            path.unlink()


def members_of(
    ledger: RunLedger,
    table: Mapping[int, ProcEntry],
    run_id_of: Callable[[ProcEntry], str | None],
    own_pid: int | None = None,
) -> set[int]:
    """Pids of ``table`` that belong to the run.

    Proven are those that carry the run id and those written down with the same start time;
    with them come their sessions and their descendants. Never this process, its ancestors or
    its session.
    """
    own = table.get(os.getpid() if own_pid is None else own_pid)
    proven = {
        entry.pid
        for entry in table.values()
        if ledger.members.get(entry.pid) == entry.start_ticks or run_id_of(entry) == ledger.run_id
    }
    sessions = {table[pid].session for pid in proven} - {0, own.session if own else 0}
    with_sessions = proven | {e.pid for e in table.values() if e.session in sessions}
    return descendants(table, with_sessions) - _ancestors(table, own)


def _ancestors(table: Mapping[int, ProcEntry], own: ProcEntry | None) -> set[int]:
    found = {0, 1}
    while own is not None and own.pid not in found:
        found.add(own.pid)
        own = table.get(own.parent_pid)
    return found

"""Undo journal: one JSON object a line, appended and synced before the machine is touched.

A line tells an event of an entry: ``begin``, ``step`` (what undo needs, written before the step
is applied), ``done`` (the step was applied), ``end`` and ``undone``. A crash between two lines
leaves an entry that is still open; undo can take it back.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from twinrig.domain.checks import Finding, Severity
from twinrig.domain.errors import ConflictError, HostError
from twinrig.files import FileTooLargeError, read_small
from twinrig.messages import Message, message

SCHEMA_VERSION = 1
MAX_JOURNAL_BYTES = 64 * 1024 * 1024


class Outcome(StrEnum):
    """OPEN: still at work, or cut off by a crash. ROLLED_BACK: failed, nothing is left of it."""

    OPEN = "open"
    APPLIED = "applied"
    ROLLED_BACK = "rolled-back"


@dataclass(frozen=True)
class AppliedStep:
    """A step and what undo needs. ``text`` is what the preview showed; ``done`` False: it was
    recorded, but nobody can say whether it was applied."""

    kind: str
    text: str
    data: Mapping[str, Any]
    done: bool = False


@dataclass(frozen=True)
class JournalEntry:
    """One applied fix; times are epoch seconds. ``plan`` holds all its steps as ``plan_codec``
    writes them; empty in entries of older versions."""

    id: str
    at_s: float
    target: str
    fix_id: str
    title: Message
    finding: Finding
    steps: tuple[AppliedStep, ...] = ()
    undone_at_s: float | None = None
    outcome: Outcome = Outcome.OPEN
    proven: bool = False
    plan: tuple[Mapping[str, Any], ...] = ()

    @property
    def can_undo(self) -> bool:
        """Whether something of it may still be in place."""
        return self.undone_at_s is None and self.outcome is not Outcome.ROLLED_BACK

    @property
    def interrupted(self) -> bool:
        """Whether it is at work, or was cut off by a crash."""
        return self.undone_at_s is None and self.outcome is Outcome.OPEN


@dataclass
class _Reading:
    entries: dict[str, JournalEntry] = field(default_factory=dict)
    damaged_lines: list[int] = field(default_factory=list)
    newer_lines: list[int] = field(default_factory=list)
    fault: Message | None = None


class Journal:
    """The journal of one target. Lines that cannot be read stay in the file and are reported."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def entries(self) -> tuple[JournalEntry, ...]:
        """What can be read, oldest first."""
        return tuple(self._read().entries.values())

    def entry(self, entry_id: str) -> JournalEntry | None:
        """One entry."""
        return self._read().entries.get(entry_id)

    def problem(self) -> Message | None:
        """Why not everything could be read; None when all is well."""
        reading = self._read()
        if reading.fault is not None:
            return reading.fault
        if reading.newer_lines:
            return message(
                "{path} holds entries of a newer Twinrig; first in line {line}. "
                "They are kept, but not shown.",
                path=str(self._path),
                line=reading.newer_lines[0],
            )
        if reading.damaged_lines:
            return message(
                "Damaged lines in {path}: {count}, the first is line {line}. They are kept.",
                path=str(self._path),
                count=len(reading.damaged_lines),
                line=reading.damaged_lines[0],
            )
        return None

    def begin(self, entry: JournalEntry) -> None:
        """Write the head of an entry, before its first step. Raises HostError, ConflictError."""
        self._write({"event": "begin", **_head_to_json(entry)}, entry.id)

    def record_step(self, entry_id: str, step: AppliedStep) -> None:
        """Write what undo of the next step needs, before it is applied."""
        data = {"kind": step.kind, "text": step.text, "data": dict(step.data)}
        self._write({"event": "step", **data}, entry_id)

    def confirm_step(self, entry_id: str, index: int) -> None:
        """The step with this index was applied."""
        self._write({"event": "done", "index": index}, entry_id)

    def finish(self, entry_id: str, outcome: Outcome, *, proven: bool = False) -> None:
        """How it went."""
        self._write({"event": "end", "outcome": outcome.value, "proven": proven}, entry_id)

    def mark_undone(self, entry_id: str, at_s: float) -> None:
        """Everything of this entry was taken back."""
        self._write({"event": "undone", "at_s": at_s}, entry_id)

    def append(self, entry: JournalEntry) -> None:
        """Write a whole entry at once."""
        self.begin(entry)
        for index, step in enumerate(entry.steps):
            self.record_step(entry.id, step)
            if step.done:
                self.confirm_step(entry.id, index)
        if entry.outcome is not Outcome.OPEN:
            self.finish(entry.id, entry.outcome, proven=entry.proven)
        if entry.undone_at_s is not None:
            self.mark_undone(entry.id, entry.undone_at_s)

    def _write(self, event: Mapping[str, Any], entry_id: str) -> None:
        record = {"schema_version": SCHEMA_VERSION, "id": entry_id, **event}
        line = json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("ab+") as handle:
                size = handle.seek(0, os.SEEK_END)
                if size + len(line) > MAX_JOURNAL_BYTES:
                    raise ConflictError(
                        message("The journal {path} is full.", path=str(self._path)),
                        message("Move the file away; a new one is begun."),
                    )
                # A crash may have cut the last line: never glue a new one to it.
                handle.write(line if _ends_a_line(handle, size) else b"\n" + line)
                handle.flush()
                os.fsync(handle.fileno())
        except OSError as error:
            raise HostError(
                message(
                    "The journal {path} cannot be written: {reason}.",
                    path=str(self._path),
                    reason=error.strerror or str(error),
                ),
                message("Without it nothing is changed. Check free space and permissions."),
            ) from error

    def _read(self) -> _Reading:
        reading = _Reading()
        try:
            data = read_small(self._path, MAX_JOURNAL_BYTES)
        except FileNotFoundError:
            return reading
        except FileTooLargeError:
            reading.fault = message(
                "The journal {path} is larger than {limit} MiB and was not read.",
                path=str(self._path),
                limit=MAX_JOURNAL_BYTES // 1024**2,
            )
            return reading
        except OSError as error:
            reading.fault = message(
                "The journal {path} cannot be read: {reason}.",
                path=str(self._path),
                reason=error.strerror or str(error),
            )
            return reading
        for number, line in enumerate(data.split(b"\n"), start=1):
            if line.strip():
                _read_line(reading, number, line)
        return reading


def _ends_a_line(handle: Any, size: int) -> bool:
    if size == 0:
        return True
    handle.seek(size - 1)
    return bool(handle.read(1) == b"\n")


def _read_line(reading: _Reading, number: int, line: bytes) -> None:
    try:
        event = json.loads(line)
        version = event["schema_version"]
        if isinstance(version, int) and version > SCHEMA_VERSION:
            reading.newer_lines.append(number)
            return
        _take(reading.entries, event)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError):
        reading.damaged_lines.append(number)


def _take(entries: dict[str, JournalEntry], event: Mapping[str, Any]) -> None:
    kind, entry_id = event["event"], str(event["id"])
    if kind == "begin":
        entries[entry_id] = _head_from_json(entry_id, event)
        return
    entry = entries[entry_id]
    if kind == "step":
        data = dict(event["data"])
        step = AppliedStep(str(event["kind"]), str(event["text"]), data)
        entry = replace(entry, steps=(*entry.steps, step))
    elif kind == "done":
        steps = list(entry.steps)
        steps[event["index"]] = replace(steps[event["index"]], done=True)
        entry = replace(entry, steps=tuple(steps))
    elif kind == "end":
        outcome = Outcome(event["outcome"])
        entry = replace(entry, outcome=outcome, proven=bool(event["proven"]))
    elif kind == "undone":
        entry = replace(entry, undone_at_s=float(event["at_s"]))
    else:
        raise ValueError(f"unknown event {kind!r}")
    entries[entry_id] = entry


def _head_to_json(entry: JournalEntry) -> dict[str, Any]:
    finding = entry.finding
    return {
        "at_s": entry.at_s,
        "target": entry.target,
        "fix_id": entry.fix_id,
        "title": entry.title.to_json(),
        "finding": {
            "id": finding.id,
            "params": [list(pair) for pair in finding.params],
            "severity": finding.severity.value,
            "fixes": list(finding.fixes),
            "check_id": finding.check_id,
        },
        "plan": [dict(step) for step in entry.plan],
    }


def _head_from_json(entry_id: str, data: Mapping[str, Any]) -> JournalEntry:
    finding = data["finding"]
    return JournalEntry(
        id=entry_id,
        at_s=float(data["at_s"]),
        target=str(data["target"]),
        fix_id=str(data["fix_id"]),
        title=Message.from_json(data["title"]),
        finding=Finding(
            str(finding["id"]),
            tuple((str(name), str(value)) for name, value in finding["params"]),
            Severity(finding["severity"]),
            tuple(str(fix) for fix in finding["fixes"]),
            str(finding.get("check_id", "")),
        ),
        plan=tuple(dict(step) for step in data.get("plan", [])),
    )

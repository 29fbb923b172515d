"""What supervisor and panel tell each other: desired state and record, as JSON files.

The panel writes ``desired.json`` and reads ``state.json``; the supervisor does the reverse.
Neither ever needs the other to be alive.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from twinrig.domain.errors import DamagedFileError, NewerSchemaError
from twinrig.domain.server import Phase, ServerState
from twinrig.messages import Message, message

RECORD_SCHEMA = 1

HEARTBEAT_LIMIT_S = 30.0
"""After so long without a heartbeat the supervisor's word counts no more (contract)."""


class Desired(StrEnum):
    """What the user wants of a server. SLEEPING: running, with the cards free."""

    RUNNING = "running"
    SLEEPING = "sleeping"
    STOPPED = "stopped"


@dataclass(frozen=True)
class DesiredState:
    """``request_id`` is new for each request, so that "start again" after FAILED is seen."""

    desired: Desired
    request_id: str
    requested_by: str
    requested_at_s: float
    schema_version: int = RECORD_SCHEMA

    def to_json(self) -> str:
        """One JSON object."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str | bytes, path: str) -> DesiredState:
        """Raises DamagedFileError / NewerSchemaError naming ``path``."""
        data = _load(text, path)
        try:
            return cls(
                Desired(data["desired"]),
                str(data["request_id"]),
                str(data["requested_by"]),
                _finite(data["requested_at_s"]),
            )
        except (KeyError, ValueError, TypeError, OverflowError) as error:
            raise _damaged(path) from error


@dataclass(frozen=True)
class Candidate:
    """Another cause that would explain the log, for "not this?"; fields as in ``Failure``."""

    finding_id: str
    text: Message
    next_step: Message
    confidence: str = ""
    root_cause_line: str = ""
    log_line_no: int | None = None
    params: tuple[tuple[str, str], ...] = ()
    fixes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Failure:
    """Why a server failed. ``finding_id`` is of the failure catalogue, "" when unknown.

    ``log_line_no`` is 1-based in the log file of that run. ``permanent``: a restart cannot
    cure it. ``params`` and ``fixes`` are those of the finding, for whoever offers a fix.
    ``why``: what the cause was told from. ``others``: next candidates, best first. Where the
    cause is not known, ``fixes`` are what makes the next start tell more.
    """

    text: Message
    next_step: Message
    finding_id: str = ""
    confidence: str = ""
    root_cause_line: str = ""
    log_line_no: int | None = None
    permanent: bool = False
    params: tuple[tuple[str, str], ...] = ()
    fixes: tuple[str, ...] = ()
    why: Message | None = None
    others: tuple[Candidate, ...] = ()


@dataclass(frozen=True)
class PhaseTime:
    """A phase that began (epoch seconds) and, when known, how long it took last time."""

    phase: Phase
    started_at_s: float
    expected_s: float | None = None
    progress: float | None = None


@dataclass(frozen=True)
class ServerRecord:
    """Everything the supervisor knows; times are epoch seconds, None = not yet or unknown.

    ``updated_at_s`` is a heartbeat: older than 30 s with a dead ``supervisor_pid`` means that
    the supervisor is gone. ``probe_*_tokens`` are the supervisor's own, to be subtracted.
    ``dropped_log_lines`` could not be written to the log (disk full). ``log_counters`` are those
    of ``EngineMetrics`` for an engine that tells its work in the log only. ``can_sleep``: it can
    free the cards without ending; ``sleep_fault`` is why it did not when it was asked.
    ``back_after_reboot``: it was brought up again by itself since the computer started.
    """

    profile_id: str
    target: str
    engine_id: str
    run_id: str
    state: ServerState
    updated_at_s: float
    supervisor_pid: int
    request_id: str = ""
    server_pid: int | None = None
    started_at_s: float | None = None
    ready_at_s: float | None = None
    phases: tuple[PhaseTime, ...] = ()
    base_url: str = ""
    metrics_url: str = ""
    model_id: str = ""
    log_path: str = ""
    restarts: int = 0
    quick_failures: int = 0
    next_restart_at_s: float | None = None
    last_exit: str = ""
    failure: Failure | None = None
    degraded_reason: Message | None = None
    probe_prompt_tokens: int = 0
    probe_generation_tokens: int = 0
    environment_mismatch: tuple[str, ...] = ()
    shared_memory: tuple[str, ...] = field(default=())
    dropped_log_lines: int = 0
    log_counters: Mapping[str, float] = field(default_factory=dict)
    can_sleep: bool = False
    sleep_fault: Message | None = None
    boot_at_s: float | None = None
    back_after_reboot: bool = False
    schema_version: int = RECORD_SCHEMA

    def to_json(self) -> str:
        """One JSON object with nested objects for phases, failure and messages."""
        data = asdict(replace(self, failure=None, degraded_reason=None, sleep_fault=None))
        if self.failure is not None:
            data["failure"] = {
                **_told(self.failure),
                "why": None if self.failure.why is None else self.failure.why.to_json(),
                "others": [_told(other) for other in self.failure.others],
            }
        for name in _MESSAGES:
            text = getattr(self, name)
            if text is not None:
                data[name] = text.to_json()
        return json.dumps(data, indent=1)

    @classmethod
    def from_json(cls, text: str | bytes, path: str) -> ServerRecord:
        """Raises DamagedFileError / NewerSchemaError naming ``path``; unknown keys are ignored."""
        data = _load(text, path)
        known = {f.name for f in fields(cls)}
        values = {k: v for k, v in data.items() if k in known}
        try:
            values["state"] = ServerState(values["state"])
            values["phases"] = tuple(
                PhaseTime(
                    Phase(p["phase"]),
                    _finite(p["started_at_s"]),
                    _optional(p.get("expected_s")),
                    _optional(p.get("progress")),
                )
                for p in values.get("phases", ())
            )
            values["failure"] = _failure(values.get("failure"))
            for name in _MESSAGES:
                text_json = values.get(name)
                values[name] = None if text_json is None else Message.from_json(text_json)
            for name in ("can_sleep", "back_after_reboot"):
                values[name] = values.get(name) is True
            for name in ("environment_mismatch", "shared_memory"):
                values[name] = tuple(str(v) for v in values.get(name, ()))
            for name in _COUNTS:
                values[name] = int(values.get(name, 0))
            for name in _OPTIONAL_TIMES:
                values[name] = _optional(values.get(name))
            counters = values.get("log_counters") or {}
            values["log_counters"] = {str(k): _finite(v) for k, v in counters.items()}
            pid = values.get("server_pid")
            values["server_pid"] = None if pid is None else int(pid)
            values["updated_at_s"] = _finite(values["updated_at_s"])
            _require_texts(values)
            return cls(**values)
        except (KeyError, ValueError, TypeError, AttributeError, OverflowError) as error:
            raise _damaged(path) from error


def is_silent(record: ServerRecord, now_s: float) -> bool:
    """Whether the supervisor should have reported, and has not."""
    done = record.state in (ServerState.STOPPED, ServerState.FAILED)
    return not done and now_s - record.updated_at_s > HEARTBEAT_LIMIT_S


_MESSAGES = ("degraded_reason", "sleep_fault")
_COUNTS = (
    "supervisor_pid",
    "restarts",
    "quick_failures",
    "dropped_log_lines",
    "probe_prompt_tokens",
    "probe_generation_tokens",
)
_OPTIONAL_TIMES = ("started_at_s", "ready_at_s", "next_restart_at_s", "boot_at_s")
_TEXTS = ("profile_id", "target", "engine_id", "run_id", "request_id", "base_url", "metrics_url")
_MORE_TEXTS = ("model_id", "log_path", "last_exit")


def _finite(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError("not a finite number")
    return number


def _optional(value: Any) -> float | None:
    return None if value is None else _finite(value)


def _require_texts(values: Mapping[str, Any]) -> None:
    for name in (*_TEXTS, *_MORE_TEXTS):
        if not isinstance(values.get(name, ""), str):
            raise TypeError(f"{name} is not text")


def _told(cause: Failure | Candidate) -> dict[str, Any]:
    data = {f.name: getattr(cause, f.name) for f in fields(cause)}
    return {**data, "text": cause.text.to_json(), "next_step": cause.next_step.to_json()}


def _failure(data: Mapping[str, Any] | None) -> Failure | None:
    if data is None:
        return None
    why = data.get("why")
    return Failure(
        **_cause(data),
        permanent=bool(data.get("permanent", False)),
        why=None if why is None else Message.from_json(why),
        others=tuple(Candidate(**_cause(other)) for other in data.get("others") or ()),
    )


def _cause(data: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "text": Message.from_json(data["text"]),
        "next_step": Message.from_json(data["next_step"]),
        "finding_id": str(data.get("finding_id", "")),
        "confidence": str(data.get("confidence", "")),
        "root_cause_line": str(data.get("root_cause_line", "")),
        "log_line_no": data.get("log_line_no"),
        "params": tuple((str(name), str(value)) for name, value in data.get("params") or ()),
        "fixes": tuple(str(fix) for fix in data.get("fixes") or ()),
    }


def _load(text: str | bytes, path: str) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except (ValueError, UnicodeDecodeError, RecursionError) as error:
        raise _damaged(path) from error
    if not isinstance(data, dict):
        raise _damaged(path)
    version = data.get("schema_version")
    if isinstance(version, int) and version > RECORD_SCHEMA:
        raise NewerSchemaError(
            message(
                "{path} was written by a newer Twinrig (version {version}).",
                path=path,
                version=version,
            ),
            message("Update Twinrig, or move the file away to start afresh; it was not changed."),
        )
    return data


def _damaged(path: str) -> DamagedFileError:
    return DamagedFileError(
        message("{path} is damaged and cannot be read.", path=path),
        message("Move the file away to start afresh; it was not changed."),
    )


@dataclass(frozen=True)
class StateLayout:
    """Where the files of one target's servers are; ``root`` is the target's state folder."""

    root: Path

    def folder(self, profile_id: str) -> Path:
        """Folder of one profile's runs."""
        return self.root / "servers" / profile_id

    def desired(self, profile_id: str) -> Path:
        """Written by panel and CLI."""
        return self.folder(profile_id) / "desired.json"

    def state(self, profile_id: str) -> Path:
        """Written by the supervisor."""
        return self.folder(profile_id) / "state.json"

    def log(self, profile_id: str) -> Path:
        """Output of the server; older parts are ``server.log.1`` ..."""
        return self.folder(profile_id) / "server.log"

    def supervisor_log(self, profile_id: str) -> Path:
        """What the supervisor itself did, a line each."""
        return self.folder(profile_id) / "supervisor.log"

    def last_good(self, profile_id: str) -> Path:
        """Profile of the last start that was proven by a reply."""
        return self.folder(profile_id) / "last-good.yaml"

    def timings(self, profile_id: str) -> Path:
        """Phase durations of the last successful start."""
        return self.folder(profile_id) / "timings.json"

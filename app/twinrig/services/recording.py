"""Snapshots in a file, one JSON object a line, to be shown again somewhere else.

The first line names the format. A line that was cut off by a crash is left out, not an error.
Paths of the machine are not recorded: recordings are made to be shown to others.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any, TextIO, TypeVar

from twinrig.domain.errors import DamagedFileError, NewerSchemaError, UsageError
from twinrig.domain.gpu import GpuInfo, GpuSample
from twinrig.domain.metrics import Ended, ServerSetup, Snapshot, Throughput
from twinrig.domain.ports import Clock
from twinrig.domain.supervision import ServerRecord
from twinrig.messages import message

FORMAT = 1
_KEY = "twinrig_recording"
LONGEST_PAUSE_S = 5.0
LONGEST_LINE = 1024 * 1024

T = TypeVar("T")


def encode(snapshot: Snapshot) -> str:
    """One line without its end."""
    server = snapshot.server
    data = {
        "taken_at_s": snapshot.taken_at_s,
        "demo": snapshot.demo,
        "gpus": [asdict(info) for info in snapshot.gpus],
        "samples": [asdict(sample) for sample in snapshot.samples],
        "server": None if server is None else json.loads(replace(server, log_path="").to_json()),
        "throughput": asdict(snapshot.throughput),
        "gpu_error": snapshot.gpu_error,
        "gpu_next_step": snapshot.gpu_next_step,
        "setup": None if snapshot.setup is None else asdict(snapshot.setup),
        "unplaced_shared_bytes": snapshot.unplaced_shared_bytes,
    }
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))


def decode(line: str) -> Snapshot:
    """Inverse of ``encode``. Raises ValueError for anything else; unknown keys are ignored."""
    try:
        data = json.loads(line)
        server, setup = data["server"], data.get("setup")
        return Snapshot(
            taken_at_s=float(data["taken_at_s"]),
            demo=bool(data["demo"]),
            gpus=tuple(_filled(GpuInfo, info) for info in data["gpus"]),
            samples=tuple(_filled(GpuSample, sample) for sample in data["samples"]),
            server=None if server is None else ServerRecord.from_json(json.dumps(server), "-"),
            throughput=_throughput(data["throughput"]),
            gpu_error=str(data.get("gpu_error", "")),
            gpu_next_step=str(data.get("gpu_next_step", "")),
            setup=None if setup is None else _filled(ServerSetup, setup),
            unplaced_shared_bytes=data.get("unplaced_shared_bytes"),
        )
    except (KeyError, TypeError, AttributeError, RecursionError, DamagedFileError) as error:
        raise ValueError("not a recorded snapshot") from error


class Recorder:
    """Appends to a recording; a new or empty file gets its first line. Close it when done."""

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        try:
            if self._path.exists() and self._path.stat().st_size:
                _check_head(self._path)
            self._out: TextIO = self._path.open("a", encoding="utf-8", newline="\n")
            if not self._out.tell():
                self._write(json.dumps({_KEY: FORMAT}))
        except OSError as error:
            raise _unwritable(self._path, error) from error

    def add(self, snapshot: Snapshot) -> None:
        """Write one line at once. Raises UsageError when the disk is full."""
        try:
            self._write(encode(snapshot))
        except OSError as error:
            raise _unwritable(self._path, error) from error

    def close(self) -> None:
        self._out.close()

    def _write(self, line: str) -> None:
        self._out.write(line + "\n")
        self._out.flush()


def recorded(path: Path) -> Iterator[Snapshot]:
    """Snapshots of a recording, oldest first; damaged lines are left out.

    Raises UsageError (no such file), DamagedFileError (no recording), NewerSchemaError.
    """
    _check_head(path)
    with path.open(encoding="utf-8", errors="replace") as source:
        source.readline(LONGEST_LINE)
        while line := source.readline(LONGEST_LINE):
            try:
                yield decode(line)
            except ValueError:
                continue


class Replay:
    """Stands in for a Monitor: the recorded snapshots in the recorded pace, then the end.

    ``speed`` 2.0 is twice as fast; it may be changed from any thread while it plays. Long pauses
    are shortened to ``LONGEST_PAUSE_S``. Every snapshot is marked as recorded.
    """

    def __init__(self, path: Path, clock: Clock, speed: float = 1.0) -> None:
        self._path = path
        self._clock = clock
        self.speed = speed

    async def snapshots(self) -> AsyncIterator[Snapshot]:
        """Raises as ``recorded``; DamagedFileError also when not one snapshot is in it."""
        last_s: float | None = None
        for snapshot in recorded(self._path):
            if last_s is not None:
                pause_s = min(max(snapshot.taken_at_s - last_s, 0.0), LONGEST_PAUSE_S)
                await self._clock.sleep(pause_s / self.speed)
            last_s = snapshot.taken_at_s
            yield replace(snapshot, recorded=True)
        if last_s is None:
            raise _damaged(self._path)


def _filled(kind: type[T], data: Mapping[str, Any]) -> T:
    names = {f.name for f in fields(kind)}  # type: ignore[arg-type]
    values = {k: tuple(v) if isinstance(v, list) else v for k, v in data.items() if k in names}
    return kind(**values)


def _throughput(data: Mapping[str, Any]) -> Throughput:
    ended = data.get("ended")
    found = _filled(Throughput, data)
    return replace(found, ended=None if ended is None else _filled(Ended, ended))


def _check_head(path: Path) -> None:
    try:
        with path.open(encoding="utf-8", errors="replace") as source:
            head = source.readline(LONGEST_LINE)
    except OSError as error:
        raise UsageError(
            message(
                "{path} cannot be read: {reason}.", path=str(path), reason=error.strerror or ""
            ),
            message("Name a file that was written by twinrig watch --record."),
        ) from error
    try:
        data = json.loads(head)
        version = data[_KEY]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _damaged(path) from error
    if not isinstance(version, int) or version > FORMAT:
        raise NewerSchemaError(
            message("{path} was written by a newer Twinrig.", path=str(path)),
            message("Update Twinrig to show it."),
        )


def _damaged(path: Path) -> DamagedFileError:
    return DamagedFileError(
        message("{path} is not a recording of Twinrig.", path=str(path)),
        message("Name a file that was written by twinrig watch --record."),
    )


def _unwritable(path: Path, error: OSError) -> UsageError:
    return UsageError(
        message("{path} cannot be written: {reason}.", path=str(path), reason=error.strerror or ""),
        message("Choose another file name."),
    )

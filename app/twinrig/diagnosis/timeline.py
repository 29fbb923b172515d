"""One timeline of log, kernel and Windows events, merged by time.

Engines print no year (vLLM: ``09-12 21:04:38``); the kernel counts seconds since its start unless
``dmesg -T`` was used. What has no comparable time stays behind its neighbour of the same source.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

_FULL = re.compile(r"(\d{4})-(\d\d)-(\d\d)[ T](\d\d):(\d\d):(\d\d)")
_SHORT = re.compile(r"\b(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)\b")
_KERNEL = re.compile(r"\[(?:\w{3} )?(\w{3}) +(\d+) (\d\d):(\d\d):(\d\d) (\d{4})\]")
_MONTHS = dict(
    zip(
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"],
        range(1, 13),
        strict=True,
    )
)
_DECISIVE = re.compile(r"dxgkio_|[Oo]ut of memory|oom-kill|EXT4-fs error|NVRM: Xid|Killed process")
MAX_MOMENTS = 200

Clock = tuple[int, int, int, int, int]
"""Month, day, hour, minute, second: what all sources have in common."""


@dataclass(frozen=True)
class Moment:
    """``source`` is "log", "kernel" or "windows"; ``at`` "" = its time is not comparable."""

    at: str
    source: str
    what: str
    line_no: int | None = None


class Marked(Protocol):
    """A marker's place."""

    @property
    def name(self) -> str: ...
    @property
    def line_no(self) -> int | None: ...
    @property
    def line(self) -> str: ...


class Found(Protocol):
    """A finding's place."""

    @property
    def line_no(self) -> int | None: ...
    @property
    def line(self) -> str: ...


def clock_of(line: str) -> Clock | None:
    """Time of a line, without year and zone; None when it has none."""
    head = line[:160]
    if found := _FULL.search(head):
        return _clock([int(part) for part in found.groups()[1:]])
    if found := _KERNEL.search(head):
        month = _MONTHS.get(found[1])
        rest = [int(found[i]) for i in (2, 3, 4, 5)]
        return _clock([month, *rest]) if month else None
    if found := _SHORT.search(head):
        return _clock([int(part) for part in found.groups()])
    return None


def _clock(parts: Sequence[int]) -> Clock:
    month, day, hour, minute, second = parts
    return month, day, hour, minute, second


def timeline(
    markers: Sequence[Marked], findings: Sequence[Found], kernel: str = "", windows: str = ""
) -> tuple[Moment, ...]:
    """Markers, findings, and decisive lines of the kernel and of Windows, oldest first."""
    log = sorted(
        ((m.line_no, m.line) for m in [*markers, *findings] if m.line_no is not None),
        key=lambda item: item[0],
    )
    unique = dict(log)
    sources: list[list[tuple[Clock | None, Moment]]] = [
        [_moment("log", line, number) for number, line in unique.items()],
        [_moment("kernel", line) for line in kernel.splitlines() if _DECISIVE.search(line)],
        [_moment("windows", line) for line in windows.splitlines() if line.strip()],
    ]
    return tuple(merge(sources)[:MAX_MOMENTS])


def merge(sources: Sequence[Sequence[tuple[Clock | None, Moment]]]) -> list[Moment]:
    """Merge by time; the order within a source is kept, whatever its clock says."""
    rows: list[tuple[Clock, int, int, Moment]] = []
    for source_no, source in enumerate(sources):
        latest: Clock = (0, 0, 0, 0, 0)
        known = [clock for clock, _ in source if clock is not None]
        if not known and source_no:
            latest = (99, 0, 0, 0, 0)
        for place, (clock, moment) in enumerate(source):
            latest = max(latest, clock) if clock is not None else latest
            rows.append((latest, source_no, place, moment))
    rows.sort(key=lambda row: row[:3])
    return [row[3] for row in rows]


def _moment(source: str, line: str, number: int | None = None) -> tuple[Clock | None, Moment]:
    clock = clock_of(line)
    at = "{:02}-{:02} {:02}:{:02}:{:02}".format(*clock) if clock else ""
    return clock, Moment(at, source, line.rpartition("\r")[2].strip()[:300], number)

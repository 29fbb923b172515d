"""Reads ``/proc``: who runs, whose child, in which session, since when.

A process is identified by pid *and* start time (field 22 of ``stat``, clock ticks since boot),
since the kernel gives pids out again.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from twinrig.domain.ports import ProcessInfo

PROC = Path("/proc")
SHARED_MEMORY = Path("/dev/shm")
RUN_ID_VARIABLE = "TWINRIG_RUN_ID"
_MAPPED = re.compile(rb"(/dev/shm/[^\n]*)$", re.MULTILINE)
_DELETED = " (deleted)"


@dataclass(frozen=True)
class ProcEntry:
    """One line of the process table; ``start_ticks`` is in clock ticks since boot."""

    pid: int
    parent_pid: int
    session: int
    start_ticks: int
    name: str


def parse_stat(text: str) -> ProcEntry | None:
    """``/proc/PID/stat``; None for a zombie, which is dead, and for anything else than a stat.

    The name stands in parentheses and may itself hold parentheses and blanks.
    """
    head, opened, rest = text.partition("(")
    name, closed, tail = rest.rpartition(")")
    fields = tail.split()
    if not (opened and closed) or len(fields) < 20 or fields[0] in ("Z", "X", "x"):
        return None
    try:
        return ProcEntry(int(head), int(fields[1]), int(fields[3]), int(fields[19]), name)
    except ValueError:
        return None


def read_entry(pid: int, proc: Path = PROC) -> ProcEntry | None:
    """One live process, None when it is gone or a zombie."""
    try:
        return parse_stat((proc / str(pid) / "stat").read_text("utf-8", "replace"))
    except OSError:
        return None


def read_table(proc: Path = PROC) -> dict[int, ProcEntry]:
    """All live processes by pid."""
    table: dict[int, ProcEntry] = {}
    for folder in proc.iterdir():
        if folder.name.isdigit() and (entry := read_entry(int(folder.name), proc)) is not None:
            table[entry.pid] = entry
    return table


def read_environ(pid: int, proc: Path = PROC) -> dict[str, str] | None:
    """Environment the process was started with; None when it cannot be read.

    A process that retitles itself (``setproctitle``, as vLLM's EngineCore and Workers do)
    overwrites this area: entries may be missing.
    """
    try:
        data = (proc / str(pid) / "environ").read_bytes()
    except OSError:
        return None
    environ: dict[str, str] = {}
    for entry in data.split(b"\0"):
        name, equals, value = entry.decode("utf-8", "surrogateescape").partition("=")
        if equals and name:
            environ[name] = value
    return environ


def read_title(entry: ProcEntry, proc: Path = PROC) -> str:
    """Command line as shown by ``ps``, else the short name."""
    try:
        data = (proc / str(entry.pid) / "cmdline").read_bytes()
    except OSError:
        data = b""
    return data.replace(b"\0", b" ").decode("utf-8", "replace").strip() or entry.name


def process_info(entry: ProcEntry, proc: Path = PROC) -> ProcessInfo:
    """The port's view of one process."""
    environ = read_environ(entry.pid, proc) or {}
    return ProcessInfo(
        entry.pid, entry.parent_pid, read_title(entry, proc), environ.get(RUN_ID_VARIABLE)
    )


def boot_id(proc: Path = PROC) -> str:
    """Changes with each boot; "" when unknown. Pids of another boot mean nothing."""
    try:
        return (proc / "sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""


def descendants(table: Mapping[int, ProcEntry], roots: Collection[int]) -> set[int]:
    """``roots`` that live, and all their children, grandchildren ..."""
    children: dict[int, list[int]] = {}
    for entry in table.values():
        children.setdefault(entry.parent_pid, []).append(entry.pid)
    found: set[int] = set()
    waiting = [pid for pid in roots if pid in table]
    while waiting:
        pid = waiting.pop()
        if pid not in found:
            found.add(pid)
            waiting.extend(children.get(pid, ()))
    return found


def shared_memory_of(pid: int, proc: Path = PROC) -> set[str]:
    """Files below ``/dev/shm`` that a process has mapped or open; removed ones do not count."""
    folder = proc / str(pid)
    names: set[str] = set()
    try:
        maps = (folder / "maps").read_bytes()
        names.update(m.decode("utf-8", "surrogateescape") for m in _MAPPED.findall(maps))
    except OSError:
        pass
    try:
        links = list((folder / "fd").iterdir())
    except OSError:
        links = []
    for link in links:
        try:
            target = str(link.readlink())
        except OSError:
            continue
        if target.startswith(f"{SHARED_MEMORY}/"):
            names.add(target)
    return {name for name in names if not name.endswith(_DELETED)}

"""Reads what the scripts of ``linux_scripts`` answer. Pure."""

from __future__ import annotations

from twinrig.domain.ports import FolderEntry, ProcessInfo

_STAT_FIELDS = 4


def parse_entries(data: bytes) -> tuple[FolderEntry, ...]:
    """Entries by name out of ``LIST_FOLDER``; what leads nowhere is there without a size."""
    listed, _, rest = data.partition(b"\0\0")
    names = [_text(name) for name in listed.split(b"\0") if name]
    fields = rest.split(b"\0")
    kinds = {
        _text(fields[at + 2]).removeprefix("./"): (fields[at], fields[at + 1])
        for at in range(0, len(fields) - 2, 3)
    }
    return tuple(sorted((_entry(name, kinds.get(name)) for name in names), key=lambda e: e.name))


def _entry(name: str, found: tuple[bytes, bytes] | None) -> FolderEntry:
    if found is None or not found[1].isdigit():
        return FolderEntry(name, False)
    is_dir = found[0] == b"directory"
    return FolderEntry(name, is_dir, None if is_dir else int(found[1]))


def parse_processes(data: bytes, run_id_variable: str) -> tuple[ProcessInfo, ...]:
    """Live processes by pid out of ``PROCESSES``; a zombie is none."""
    stats, _, words = data.partition(b"----\n")
    titles: dict[int, list[str]] = {}
    run_ids: dict[int, str] = {}
    for record in words.split(b"\0"):
        file, _, word = record.partition(b":")
        pid, _, name = file.partition(b"/")
        if not pid.isdigit():
            continue
        if name == b"cmdline":
            titles.setdefault(int(pid), []).append(_shown(word))
        elif word.startswith(f"{run_id_variable}=".encode()):
            run_ids[int(pid)] = _text(word.partition(b"=")[2])
    found = []
    for line in stats.splitlines():
        stat = _stat(line)
        if stat is not None:
            pid_number, parent, short = stat
            title = " ".join(titles.get(pid_number, ())).strip() or short
            found.append(ProcessInfo(pid_number, parent, title, run_ids.get(pid_number)))
    return tuple(sorted(found, key=lambda p: p.pid))


def _stat(line: bytes) -> tuple[int, int, str] | None:
    """Pid, parent and short name. The name is in parentheses and may itself hold them."""
    _, _, content = line.partition(b":")
    head, _, rest = content.partition(b"(")
    name, _, tail = rest.rpartition(b")")
    fields = tail.split()
    if len(fields) < _STAT_FIELDS or fields[0] in (b"Z", b"X", b"x"):
        return None
    try:
        return int(head), int(fields[1]), _shown(name)
    except ValueError:
        return None


def _text(data: bytes) -> str:
    """As Python names files: bytes that are no UTF-8 come back unchanged."""
    return data.decode("utf-8", "surrogateescape")


def _shown(data: bytes) -> str:
    return data.decode("utf-8", "replace")

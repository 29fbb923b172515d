"""Reads what the scripts of ``linux_scripts`` answer. Pure."""

from __future__ import annotations

from twinrig.domain.ports import FolderEntry, Glimpse, ProcessInfo

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


def parse_glimpse(data: bytes) -> Glimpse | None:
    """Out of ``GLANCE``; None when it is not whole, as when a file changed meanwhile."""
    fields = _Fields(data)
    try:
        home = _text(fields.take())
        folders: dict[str, list[FolderEntry]] = {}
        while folder := fields.take():
            name, kind, size = _text(fields.take()), fields.take(), fields.take()
            found = None if kind == b"l" else (b"directory" if kind == b"d" else kind, size)
            folders.setdefault(_text(folder), []).append(_entry(name, found))
        files: dict[str, bytes | None] = {}
        sizes = []
        while path := fields.take():
            size = fields.take()
            files[_text(path)] = None
            if size.isdigit():
                sizes.append((_text(path), int(size)))
        for name, length in sizes:
            files[name] = fields.take_bytes(length)
    except ValueError:
        return None
    if fields.left or not home.startswith("/"):
        return None
    listed = {f: tuple(sorted(e, key=lambda one: one.name)) for f, e in folders.items()}
    return Glimpse(home, listed, files)


class _Fields:
    """What stands before each NUL, in turn. Raises ValueError at the end."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def left(self) -> bool:
        return self._at < len(self._data)

    def take(self) -> bytes:
        end = self._data.index(b"\0", self._at)
        field, self._at = self._data[self._at : end], end + 1
        return field

    def take_bytes(self, count: int) -> bytes:
        if self._at + count > len(self._data):
            raise ValueError("cut off")
        self._at += count
        return self._data[self._at - count : self._at]


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

"""Editing of ini text in place: only the asked lines change; comments, order, line ends stay.

The dialect is that of WSL's own reader (microsoft/WSL, shared configfile): sections and keys
without regard to case, ``#`` comments, of equal keys the first counts, a key before any section
counts nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_SECTION = re.compile(r"\s*\[([^\[\]]*)\]\s*(#.*)?")
_ENTRY = re.compile(r"(\s*)([A-Za-z0-9_.-]+)(\s*=\s*)(.*?)(\s*(?:(?<=\s)#.*)?)")
_BOM = "\ufeff"

Wanted = Mapping[tuple[str, str], str | None]
"""Value by (section, key); None = there shall be no such key."""


@dataclass(frozen=True)
class IniEntry:
    """One ``key = value``. ``section`` and ``key`` as written; "" = before any section."""

    section: str
    key: str
    value: str
    line_no: int


@dataclass(frozen=True)
class IniFile:
    """What a reader finds. ``broken`` are numbers of lines that are none of the known kinds."""

    entries: tuple[IniEntry, ...]
    broken: tuple[int, ...]

    def value(self, section: str, key: str) -> str | None:
        """The value that counts: the first one."""
        wanted = section.lower(), key.lower()
        same = (e.value for e in self.entries if (e.section.lower(), e.key.lower()) == wanted)
        return next(same, None)

    def duplicates(self) -> tuple[IniEntry, ...]:
        """Entries that count nothing because an earlier one has the same key."""
        seen: set[tuple[str, str]] = set()
        later = []
        for entry in self.entries:
            name = entry.section.lower(), entry.key.lower()
            if name in seen:
                later.append(entry)
            seen.add(name)
        return tuple(later)


def read_ini(text: str) -> IniFile:
    """Entries and broken lines; a byte order mark is skipped."""
    entries: list[IniEntry] = []
    broken: list[int] = []
    section = ""
    for number, line in enumerate(_split(text.removeprefix(_BOM)), 1):
        body = line.rstrip("\r\n")
        if not body.strip() or body.lstrip().startswith("#"):
            continue
        if found := _SECTION.fullmatch(body):
            section = found[1].strip()
        elif entry := _ENTRY.fullmatch(body):
            entries.append(IniEntry(section, entry[2], entry[4].strip(), number))
        else:
            broken.append(number)
    return IniFile(tuple(entries), tuple(broken))


def edit_ini(text: str, wanted: Wanted, *, newline: str = "\n") -> str:
    """The text with these values. ``newline`` is for a text that has no line end yet."""
    mark = _BOM if text.startswith(_BOM) else ""
    lines = _split(text.removeprefix(_BOM))
    crlf = sum(line.endswith("\r\n") for line in lines)
    ends = sum(line.endswith("\n") for line in lines)
    end = newline if not ends else "\r\n" if crlf * 2 > ends else "\n"
    for (section, key), value in wanted.items():
        _apply(lines, section, key, value, end)
    return mark + "".join(lines)


def _split(text: str) -> list[str]:
    # Not splitlines(): a form feed or U+2028 in a comment is no line end for WSL.
    return [line for line in re.split(r"(?<=\n)", text) if line]


def _apply(lines: list[str], section: str, key: str, value: str | None, end: str) -> None:
    at = _places(lines, section, key)
    if value is None:
        for index in reversed(at):
            del lines[index]
        return
    if at:
        lines[at[0]] = _with_value(lines[at[0]], value)
        return
    place = _end_of_section(lines, section)
    new = f"{key}={value}{end}"
    if place is None:
        _end_last_line(lines, end)
        if lines and lines[-1].strip():
            lines.append(end)
        lines += [f"[{section}]{end}", new]
        return
    if place == len(lines):
        _end_last_line(lines, end)
    lines.insert(place, new)


def _end_last_line(lines: list[str], end: str) -> None:
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += end


def _places(lines: list[str], section: str, key: str) -> list[int]:
    """Indices of all lines that hold this key, the one that counts first."""
    found, current = [], ""
    for index, line in enumerate(lines):
        body = line.rstrip("\r\n")
        if body.lstrip().startswith("#"):
            continue
        if head := _SECTION.fullmatch(body):
            current = head[1].strip()
        elif entry := _ENTRY.fullmatch(body):
            same = (current.lower(), entry[2].lower()) == (section.lower(), key.lower())
            found += [index] if same else []
    return found


def _with_value(line: str, value: str) -> str:
    body = line.rstrip("\r\n")
    entry = _ENTRY.fullmatch(body)
    assert entry is not None
    if entry[4].strip() == value:
        return line
    return f"{entry[1]}{entry[2]}{entry[3]}{value}{entry[5]}{line[len(body) :]}"


def _end_of_section(lines: list[str], section: str) -> int | None:
    """Where a new key of the section goes: after its last entry. Comments below that belong to
    the next section as often as not."""
    found: int | None = None
    inside = False
    for index, line in enumerate(lines):
        body = line.rstrip("\r\n")
        head = None if body.lstrip().startswith("#") else _SECTION.fullmatch(body)
        if head:
            if inside:
                return found
            inside = head[1].strip().lower() == section.lower()
        if inside and body.strip() and not body.lstrip().startswith("#"):
            found = index + 1
    return found

"""What ``.wslconfig`` and ``/etc/wsl.conf`` mean: encodings, sizes, values that WSL can read.

Rules of microsoft/WSL (configfile, WslCoreConfig) as read in 2026. Keys that are not listed here
are never called a fault: a newer WSL may know them.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from twinrig.domain.ini_text import IniEntry, IniFile, read_ini

_SIZE = re.compile(r"(\d+)(B|[KMGT]B?)?")
_UNIT_BYTES = {"": 1, "B": 1, "K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4}
_NUMBER = re.compile(r"-?(0[xX][0-9a-fA-F]+|\d+)")
_BOOLEANS = frozenset({"true", "false", "0", "1"})

KEY_KINDS: Mapping[tuple[str, str], str] = MappingProxyType(
    {
        **dict.fromkeys([("wsl2", "memory"), ("wsl2", "swap"), ("wsl2", "defaultvhdsize")], "size"),
        **dict.fromkeys(
            [
                ("wsl2", "processors"),
                ("wsl2", "vmidletimeout"),
                ("general", "instanceidletimeout"),
                ("wsl2", "kernelboottimeout"),
                ("wsl2", "distributionstarttimeout"),
            ],
            "number",
        ),
        **dict.fromkeys(
            [
                ("wsl2", "localhostforwarding"),
                ("wsl2", "gpusupport"),
                ("wsl2", "dnstunneling"),
                ("wsl2", "firewall"),
                ("wsl2", "autoproxy"),
                ("wsl2", "guiapplications"),
                ("wsl2", "nestedvirtualization"),
                ("experimental", "sparsevhd"),
                ("experimental", "hostaddressloopback"),
            ],
            "switch",
        ),
    }
)
"""Kind of value by (section, key) in small letters."""

NETWORKING_MODES = frozenset({"none", "nat", "bridged", "mirrored", "virtioproxy", "consomme"})


@dataclass(frozen=True)
class ConfigFile:
    """A configuration file as it is on disk. ``encoding`` gives the same bytes back; a byte
    order mark stays in ``text``. ``exists`` False: no such file, ``sha256`` is "" then."""

    path: str
    exists: bool
    sha256: str
    encoding: str
    text: str

    @classmethod
    def of(cls, path: str, data: bytes | None) -> ConfigFile:
        """From its bytes; None = there is no such file."""
        if data is None:
            return cls(path, False, "", "utf-8", "")
        encoding = _encoding(data)
        return cls(path, True, hashlib.sha256(data).hexdigest(), encoding, data.decode(encoding))

    def to_json(self) -> str:
        """One line of JSON."""
        return json.dumps(vars(self), ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> ConfigFile:
        """Inverse of ``to_json``. Raises ValueError for anything else."""
        data = json.loads(text)
        if not isinstance(data, dict) or set(data) != {f for f in cls.__dataclass_fields__}:
            raise ValueError("not a configuration file")
        if not isinstance(data["exists"], bool) or not isinstance(data["text"], str):
            raise ValueError("not a configuration file")
        path, sha256, encoding = (str(data[name]) for name in ("path", "sha256", "encoding"))
        return cls(path, data["exists"], sha256, encoding, data["text"])

    def ini(self) -> IniFile:
        """Its entries."""
        return read_ini(self.text)


def _encoding(data: bytes) -> str:
    """As WSL reads it: UTF-8 with or without a mark, UTF-16 with one. What is none of these is
    taken byte by byte, so that lines that are not asked for keep their bytes."""
    if data.startswith(b"\xff\xfe"):
        candidates: tuple[str, ...] = ("utf-16-le", "utf-8")
    elif data.startswith(b"\xfe\xff"):
        candidates = ("utf-16-be", "utf-8")
    else:
        candidates = ("utf-8",)
    for encoding in candidates:
        try:
            if data.decode(encoding).encode(encoding) == data:
                return encoding
        except UnicodeError:
            continue
    return "latin-1"


def size_bytes(text: str) -> int | None:
    """A size such as ``8GB``; None when WSL cannot read it (small letters, a blank between)."""
    found = _SIZE.fullmatch(text)
    if found is None:
        return None
    return int(found[1]) * _UNIT_BYTES[(found[2] or "")[:1] or "B"]


def number(text: str) -> int | None:
    """An integer, hexadecimal with ``0x``; None for anything else."""
    if not _NUMBER.fullmatch(text):
        return None
    return int(text, 16 if "x" in text.lower() else 10)


def switch(text: str | None, default: bool) -> bool:
    """A boolean; what WSL cannot read counts as not written."""
    if text is None or text.lower() not in _BOOLEANS:
        return default
    return text.lower() in ("true", "1")


def networking_mode(config: IniFile) -> str:
    """In small letters; ``nat`` when nothing else, or nothing known, is written."""
    written = config.value("wsl2", "networkingMode") or config.value(
        "experimental", "networkingMode"
    )
    mode = (written or "nat").lower()
    return mode if mode in NETWORKING_MODES else "nat"


def idle_timeout_ms(config: IniFile, section: str, key: str, default: int) -> int:
    """A time-out; negative = never."""
    written = number(config.value(section, key) or "")
    return default if written is None else written


def unreadable_entries(config: IniFile) -> tuple[IniEntry, ...]:
    """Entries that count nothing: no section above them, or a value that WSL cannot read."""
    return tuple(entry for entry in config.entries if not entry.section or _is_faulty(entry))


def _is_faulty(entry: IniEntry) -> bool:
    name = entry.section.lower(), entry.key.lower()
    if name[1] == "networkingmode" and name[0] in ("wsl2", "experimental"):
        return entry.value.lower() not in NETWORKING_MODES
    kind = KEY_KINDS.get(name)
    if kind == "size":
        return size_bytes(entry.value) is None
    if kind == "number":
        return number(entry.value) is None
    return kind == "switch" and entry.value.lower() not in _BOOLEANS

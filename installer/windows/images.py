"""What the head of a Windows program file tells: its machine, and whether it is signed."""

from __future__ import annotations

import struct
from collections.abc import Mapping

MACHINE_X64 = 0x8664
SUFFIXES = (".exe", ".dll", ".pyd")
_PE32_PLUS = 0x20B
_DIRECTORIES = 112
"""Offset of the data directories in a 64-bit optional header."""
_SECURITY = 4


def machine_of(image: bytes) -> int:
    """Machine word of a PE image; 0 when it is none."""
    at = _pe_header(image)
    return int(struct.unpack_from("<H", image, at + 4)[0]) if at else 0


def is_signed(image: bytes) -> bool:
    """Whether a 64-bit PE image carries a signature; the signature itself is not checked."""
    at = _pe_header(image)
    optional = at + 24
    entry = optional + _DIRECTORIES + 8 * _SECURITY
    if not at or len(image) < entry + 8:
        return False
    if struct.unpack_from("<H", image, optional)[0] != _PE32_PLUS:
        return False
    offset, size = struct.unpack_from("<II", image, entry)
    return bool(size > 8 and offset + size <= len(image))


def unsigned(files: Mapping[str, bytes]) -> list[str]:
    """Names of program files that Windows would not know the maker of."""
    return sorted(
        name
        for name, data in files.items()
        if name.lower().endswith(SUFFIXES) and not is_signed(data)
    )


def _pe_header(image: bytes) -> int:
    """Offset of the PE header; 0 when there is none."""
    if len(image) < 0x40 or image[:2] != b"MZ":
        return 0
    (offset,) = struct.unpack_from("<I", image, 0x3C)
    fits = len(image) >= offset + 24 and image[offset : offset + 4] == b"PE\0\0"
    return int(offset) if fits else 0

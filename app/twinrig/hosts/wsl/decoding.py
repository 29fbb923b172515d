"""Text that Windows programs write themselves: UTF-16LE, UTF-8 or the console's code page.

``wsl.exe`` writes UTF-16LE without a mark unless ``WSL_UTF8=1`` (old ones always), other programs
the OEM code page. Linux output never comes through here: it is framed and stays bytes.
"""

from __future__ import annotations

import re

_BOM_16, _BOM_8 = b"\xff\xfe", b"\xef\xbb\xbf"
_NUL_SHARE = 0.3
_LINE_END_16 = b"\r\0\n\0"
_FOREIGN_LINES = re.compile(rb"(?:[^\0\n]*\n(?!\0))*")
_SYMBOL = re.compile(r"\b(?:Wslg?|Bash)(?:/[A-Za-z0-9]+)*/([A-Z][A-Z0-9_]+|0x[0-9A-Fa-f]+)")
# Blocks of the scripts that Windows speaks; a code page read as UTF-16 falls outside at once.
_PLAUSIBLE = re.compile(
    r"[\t\r\n\x20-\x7e\u00a0-\u04ff\u2010-\u2122\u3000-\u30ff\u4e00-\u9fff"
    r"\uac00-\ud7a3\uff01-\uffee]*"
)


def decode_own(data: bytes, oem: str = "cp437") -> str:
    """Text with LF line ends and without NUL. ``oem`` is the code page when nothing else fits.

    One stream may hold both: lines of ``wsl.exe`` in UTF-16 among lines of Linux in UTF-8.
    """
    return _decode(data, oem).replace("\0", "").replace("\r\n", "\n")


def _decode(data: bytes, oem: str) -> str:
    if data.startswith(_BOM_16):
        return data[2:].decode("utf-16-le", "replace")
    if data.startswith(_BOM_8):
        return data[3:].decode("utf-8", "replace")
    if _LINE_END_16 in data:
        return _decode_lines(data, oem)
    high = data[1::2]
    if high and high.count(0) >= _NUL_SHARE * len(high):
        return data.decode("utf-16-le", "replace")
    return _without_marks(data, oem)


def _decode_lines(data: bytes, oem: str) -> str:
    *lines, rest = data.split(_LINE_END_16)
    text = ""
    for line in lines:
        foreign = _FOREIGN_LINES.match(line)
        size = foreign.end() if foreign else 0
        text += _without_marks(line[:size], oem)
        text += line[size:].decode("utf-16-le", "replace") + "\n"
    return text + (_decode(rest, oem) if rest else "")


def _without_marks(data: bytes, oem: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        pass
    wide = data.decode("utf-16-le", "replace")
    if len(data) % 2 == 0 and _PLAUSIBLE.fullmatch(wide):
        return wide
    return data.decode(oem, "replace")


def error_symbol(text: str) -> str:
    """``WSL_E_...`` or ``0x...`` out of an error's path, which is never translated; "" without."""
    found = _SYMBOL.findall(text)
    return found[-1] if found else ""

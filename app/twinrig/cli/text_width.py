"""Columns that line up in a terminal, where a Japanese character takes two cells."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

_STYLE = re.compile(r"(\x1b\[[0-9;]*m)")
# JIS X 4051: what may not begin a line, and what may not end one.
_NOT_FIRST = frozenset(
    "、。，．・：；？！」』）］｝】〕〉》〜…‥ーゝゞ々ぁぃぅぇぉっゃゅょゎァィゥェォッャュョヮヵヶ%％"
)
_NOT_LAST = frozenset("「『（［｛【〔〈《")


def width(text: str) -> int:
    """Cells that ``text`` takes: wide characters two; combining marks and colours none."""
    return sum(_cell(character) for character in _STYLE.sub("", text))


def _cell(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Cc", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def pad(text: str, cells: int) -> str:
    """``text`` with spaces up to ``cells``; never shortened."""
    return text + " " * max(0, cells - width(text))


def clip(text: str, cells: int) -> str:
    """``text`` shortened to ``cells`` with an ellipsis where it was longer."""
    if width(text) <= cells:
        return text
    if cells <= 0:
        return ""
    kept, used = [], 0
    for part in _STYLE.split(text):
        if _STYLE.fullmatch(part):
            kept.append(part)  # also those behind the cut: a colour must end
            continue
        for character in part:
            used += _cell(character)
            if used >= cells:
                break
            kept.append(character)
    return "".join(kept) + "…"


def wrap(text: str, cells: int, indent: str = "") -> list[str]:
    """Lines of at most ``cells`` with ``indent``; breaks at spaces, and within wide text."""
    lines: list[str] = []
    line = indent
    for word in _words(text):
        if width(line) + width(word.rstrip()) > cells and line.strip():
            lines.append(line.rstrip())
            line = indent
        line += word if line.strip() else word.lstrip()
    if line.strip() or not lines:
        lines.append(line.rstrip())
    return lines


def _words(text: str) -> list[str]:
    """Pieces that no line may be broken inside; a space belongs to the piece before it."""
    words: list[str] = []
    for character in text:
        if words and _belongs(words[-1], character):
            words[-1] += character
        else:
            words.append(character)
    return words


def _belongs(word: str, character: str) -> bool:
    """Whether ``character`` may not begin a line after ``word``."""
    last = word[-1]
    if last == " ":
        return False
    if character == " " or character in _NOT_FIRST or last in _NOT_LAST:
        return True
    if _cell(character) == 0:
        return True
    return _cell(last) != 2 and _cell(character) != 2


def table(rows: Sequence[Sequence[str]], gap: str = "  ") -> list[str]:
    """Rows as lines with aligned columns; the last column is not padded."""
    if not rows:
        return []
    columns = max(len(row) for row in rows)
    widths = [max(width(r[i]) for r in rows if i < len(r)) for i in range(columns)]
    return [
        gap.join(
            pad(cell, widths[i]) if i < len(row) - 1 else cell for i, cell in enumerate(row)
        ).rstrip()
        for row in rows
    ]

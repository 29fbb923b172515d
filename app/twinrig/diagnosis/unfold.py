"""Puts lines together again that a console folded at 80 columns.

tabbyAPI (rich) folds when its output is no terminal: continuation lines have no prefix and no
indentation; a word that does not fit is cut hard (failure catalogue 1.4). Terminals and the
``fold`` program cut at column 80 without looking at words.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from twinrig.diagnosis.normalise import cleaned, starts_record, without_transport

WIDTH = 80
LEAST = WIDTH // 2
"""A line that a word did not fit on is at least so long."""
MAX_PARTS = 60
_TOLERATED = 0.03
_OWN_LINE = re.compile(
    r"(?:\w+\.){0,8}\w*(?:Error|Exception|Warning)\b|Traceback |  File \"|[$>#] "
)


@dataclass(frozen=True)
class Unfolded:
    """``texts[i]`` begins in the physical line ``numbers[i]``.

    ``alternatives`` hold the other reading of a text that was cut exactly at the margin, where
    nobody can tell whether a space stood there.
    """

    texts: list[str]
    numbers: Sequence[int]
    alternatives: dict[int, str] = field(default_factory=dict)


def logical_lines(raw: Sequence[str], first_no: int) -> Unfolded:
    """Lines of a block as the programs wrote them: clean, unfolded, without foreign prefixes.

    Folding happens before journald and docker (a program that folds) or after it (a terminal).
    """
    outer = unfold(cleaned(raw), first_no)
    texts = without_transport(outer.texts)
    if texts is outer.texts:
        return outer
    inner = unfold(texts, 0)
    numbers = [outer.numbers[index] for index in inner.numbers]
    place = {index: at for at, index in enumerate(inner.numbers)}
    changed = {place[i] for i in outer.alternatives if i in place} - set(inner.alternatives)
    bare = without_transport([outer.alternatives[inner.numbers[at]] for at in sorted(changed)])
    alternatives = {**dict(zip(sorted(changed), bare, strict=True)), **inner.alternatives}
    return Unfolded(inner.texts, numbers, alternatives)


def folds(lines: Sequence[str]) -> set[int]:
    """Which lines may be the rest of the line above; none where nothing looks folded.

    That is when (nearly) nothing is wider than 80 columns, and something reaches the margin.
    """
    wide = sum(map((WIDTH + 1).__lt__, map(len, lines)))
    if wide > len(lines) * _TOLERATED:
        return set()
    found = {
        at
        for at, (line, following) in enumerate(pairwise(lines), 1)
        if len(line) >= LEAST and _reaches_margin(line, following)
    }
    if len(found) > 1 or any(starts_record(lines[at - 1]) for at in found):
        return found
    return set()


def unfold(lines: Sequence[str], first_no: int) -> Unfolded:
    """Logical lines of a block whose first physical line has the number ``first_no``."""
    continuing = folds(lines)
    if not continuing:
        return Unfolded(list(lines), range(first_no, first_no + len(lines)))
    texts: list[str] = []
    numbers: list[int] = []
    alternatives: dict[int, str] = {}
    parts = 0
    for offset, line in enumerate(lines):
        if offset in continuing and parts < MAX_PARTS:
            previous = lines[offset - 1]
            parts += 1
            last = len(texts) - 1
            tight = len(previous) >= WIDTH
            spaced = alternatives.get(last, texts[last])
            if tight or last in alternatives:
                alternatives[last] = f"{spaced} {line.lstrip()}"
            texts[last] += line if tight or previous[-1] == " " else f" {line.lstrip()}"
        else:
            parts = 0
            texts.append(line)
            numbers.append(first_no + offset)
    return Unfolded(texts, numbers, alternatives)


def _reaches_margin(line: str, following: str) -> bool:
    """Whether ``following`` may be the rest of ``line``."""
    width = len(line)
    if not LEAST <= width <= WIDTH + 1 or not following.strip():
        return False
    if width < WIDTH:
        if following[0] == " ":
            return False
        if width + 1 + len(following.split(None, 1)[0]) <= WIDTH:
            return False
    return not (starts_record(following) or _OWN_LINE.match(following))

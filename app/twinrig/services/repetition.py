"""Tells a reply that repeats itself for ever from one that merely repeats words. Pure."""

from __future__ import annotations

from dataclasses import dataclass

TAIL_CHARACTERS = 4000
LEAST_REPEATS = 4
LEAST_CHARACTERS = 120
LEAST_RULE_CHARACTERS = 600
"""Lines of dashes, spaces and dots are drawn on purpose; only very long ones are a loop."""


@dataclass(frozen=True)
class Loop:
    """The text ends with ``unit``, over and over."""

    unit: str
    repeats: int


def find_loop(text: str) -> Loop | None:
    """The loop in which a reply ends, None when it does not.

    Looked at is the end of the text: a loop never ends by itself. The unit is the shortest that
    explains it, found with the border table of the reversed text (Knuth, Morris, Pratt): O(n).
    """
    tail = text.rstrip()[-TAIL_CHARACTERS:]
    borders = _borders(tail[::-1])
    best: Loop | None = None
    for length in range(len(tail), LEAST_CHARACTERS - 1, -1):
        period = length - borders[length - 1]
        repeats = length // period
        if repeats < LEAST_REPEATS:
            continue
        unit = tail[len(tail) - period :]
        if _is_rule(unit) and length < LEAST_RULE_CHARACTERS:
            continue
        best = Loop(unit, repeats)
        break
    return best


def _borders(text: str) -> list[int]:
    """For each prefix the length of its longest proper prefix that is also its suffix."""
    table = [0] * len(text)
    length = 0
    for index in range(1, len(text)):
        while length and text[index] != text[length]:
            length = table[length - 1]
        length += text[index] == text[length]
        table[index] = length
    return table


def _is_rule(unit: str) -> bool:
    return not any(character.isalnum() for character in unit)

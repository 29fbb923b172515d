"""Conditions of a rule on facts: each holds, does not hold, or cannot be told."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

_TRUE = frozenset({"true", "1", "yes", "on"})
_NUMBER = re.compile(r"-?\d+(?:\.\d+)*")
OPERATORS = ("is", "contains", "matches", "below", "at_least", "is_true", "is_false", "given")


class Verdict(Enum):
    """Outcome of a condition."""

    HOLDS = "holds"
    FAILS = "fails"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Condition:
    """``fact`` compared with ``value`` by ``operator``. ``required``: not knowing it fails.

    Versions and numbers alike compare by their parts: 0.9 < 0.10, 2.7 < 2.7.3.
    """

    fact: str
    operator: str
    value: str = ""
    required: bool = False

    def judge(self, facts: Mapping[str, str]) -> Verdict:
        """Never raises; a fact that cannot be compared counts as not known."""
        given = facts.get(self.fact)
        if given is None or given == "":
            failed = self.required or self.operator == "given"
            return Verdict.FAILS if failed else Verdict.UNKNOWN
        holds = self._compare(given)
        if holds is None:
            return Verdict.FAILS if self.required else Verdict.UNKNOWN
        return Verdict.HOLDS if holds else Verdict.FAILS

    def _compare(self, given: str) -> bool | None:
        text = given.strip().lower()
        if self.operator == "given":
            return True
        if self.operator in ("is_true", "is_false"):
            return (text in _TRUE) is (self.operator == "is_true")
        if self.operator == "is":
            return text == self.value.lower()
        if self.operator == "contains":
            return self.value.lower() in text
        if self.operator == "matches":
            return re.search(self.value, given) is not None
        left, right = parts(given), parts(self.value)
        if left is None or right is None:
            return None
        return left < right if self.operator == "below" else left >= right


def parts(text: str) -> tuple[int, ...] | None:
    """``1.4.2+cu128`` -> (1, 4, 2); None when it begins with no number."""
    found = _NUMBER.match(text.strip())
    return tuple(int(part) for part in found[0].split(".")) if found else None


def judge_all(conditions: Sequence[Condition], facts: Mapping[str, str]) -> Verdict:
    """FAILS if one fails, else UNKNOWN if one cannot be told, else HOLDS."""
    verdicts = {condition.judge(facts) for condition in conditions}
    for verdict in (Verdict.FAILS, Verdict.UNKNOWN):
        if verdict in verdicts:
            return verdict
    return Verdict.HOLDS

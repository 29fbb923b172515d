"""Failure rules as data: the form of ``resources/rules/*.yaml`` and its check.

A rule says what identifies a failure (``match``, tried only on lines that hold one of its
``needles``), what must or must not stand elsewhere, how sure that is, and what to do. Faults
in a rule file are faults of this program: they raise ``RulesError``.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from twinrig.diagnosis.derived import DERIVATIONS

SCHEMA_VERSION = 1
CONFIDENCES = ("high", "medium", "low")
TIERS = ("native", "library", "worker", "memory", "process", "stall", "exit")
"""Order of decision (failure catalogue 2): a match of an earlier tier beats all later ones."""


class RulesError(ValueError):
    """A rule file is malformed; the text names file, rule and field."""


@dataclass(frozen=True)
class Rule:
    """One kind of failure.

    ``id`` is of the failure catalogue when ``catalogued``. ``match`` groups become parameters
    of ``text`` and ``next_step``. ``after`` and ``before`` name markers that the log has, or has
    not, shown above the line; ``near`` and ``not_near`` are looked for in the lines above it;
    ``absent`` texts anywhere in the log rule it out; ``exit`` is searched in the exit status;
    ``repeats`` hits are needed. Lines of level INFO are looked at only when ``info`` is set.
    """

    id: str
    tier: str
    needles: tuple[str, ...]
    match: re.Pattern[str] | None
    text: str
    next_step: str
    confidence: str
    permanent: bool
    fixes: tuple[str, ...] = ()
    catalogued: bool = True
    excludes: re.Pattern[str] | None = None
    near: re.Pattern[str] | None = None
    not_near: re.Pattern[str] | None = None
    absent: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    exit: re.Pattern[str] | None = None
    derive: tuple[str, ...] = ()
    repeats: int = 1
    info: bool = False

    @property
    def rank(self) -> int:
        """Smaller is decided earlier."""
        return TIERS.index(self.tier)

    @property
    def may_warn(self) -> bool:
        """Broken libraries are told as warnings; what a worker merely warns of, it survived."""
        return self.tier in ("native", "library")


@dataclass(frozen=True)
class Rules:
    """All rules of one engine, with its wrapper lines, harmless lines and progress markers."""

    rules: tuple[Rule, ...]
    wrappers: tuple[str, ...]
    harmless: tuple[str, ...]
    markers: Mapping[str, str]


_FIELDS = frozenset(
    {"id", "tier", "needles", "match", "text", "next_step", "confidence", "permanent", "fixes"}
    | {"catalogued", "excludes", "near", "not_near", "absent", "after", "before", "exit"}
    | {"derive", "repeats", "info"}
)


def load_rules(text: str, source: str = "rules") -> Rules:
    """Parse and check one rule file. Raises RulesError."""
    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise RulesError(f"{source}: not valid YAML: {error}") from error
    if not isinstance(data, dict) or not isinstance(data.get("rules"), list):
        raise RulesError(f"{source}: needs a mapping with a list named rules")
    if data.get("schema_version") != SCHEMA_VERSION:
        raise RulesError(f"{source}: schema_version must be {SCHEMA_VERSION}")
    markers = data.get("markers")
    if not isinstance(markers, dict) or not all(isinstance(v, str) and v for v in markers.values()):
        raise RulesError(f"{source}: markers must map names to texts")
    if "ready" not in markers:
        raise RulesError(f"{source}: markers must tell when the server is ready")
    rules = tuple(
        _rule(row, f"{source}: rule {number}", frozenset(markers))
        for number, row in enumerate(data["rules"], 1)
    )
    keys = Counter((rule.id, rule.tier, rule.needles) for rule in rules)
    if twice := [key[0] for key, count in keys.items() if count > 1]:
        raise RulesError(f"{source}: given twice: {', '.join(twice)}")
    return Rules(
        rules,
        _texts(data, "wrappers", source),
        _texts(data, "harmless", source),
        dict(markers),
    )


def _rule(row: object, where: str, markers: frozenset[str]) -> Rule:
    if not isinstance(row, dict):
        raise RulesError(f"{where}: must be a mapping")
    where = f"{where} ({row.get('id', 'no id')})"
    if unknown := set(row) - _FIELDS:
        raise RulesError(f"{where}: unknown fields {sorted(map(str, unknown))}")
    rule = Rule(
        id=_text(row, "id", where),
        tier=_text(row, "tier", where),
        needles=_texts(row, "needles", where),
        match=_pattern(row, "match", where),
        text=_text(row, "text", where),
        next_step=_text(row, "next_step", where),
        confidence=_text(row, "confidence", where),
        permanent=_flag(row, "permanent", where),
        fixes=_texts(row, "fixes", where),
        catalogued=_flag(row, "catalogued", where, default=True),
        excludes=_pattern(row, "excludes", where),
        near=_pattern(row, "near", where),
        not_near=_pattern(row, "not_near", where),
        absent=_texts(row, "absent", where),
        after=_texts(row, "after", where),
        before=_texts(row, "before", where),
        exit=_pattern(row, "exit", where),
        derive=_texts(row, "derive", where),
        repeats=_count(row, where),
        info=_flag(row, "info", where, default=False),
    )
    _check(rule, where, markers)
    return rule


def _check(rule: Rule, where: str, markers: frozenset[str]) -> None:
    if rule.tier not in TIERS:
        raise RulesError(f"{where}: tier must be one of {', '.join(TIERS)}")
    if rule.confidence not in CONFIDENCES:
        raise RulesError(f"{where}: confidence must be one of {', '.join(CONFIDENCES)}")
    if not rule.needles and rule.exit is None:
        raise RulesError(f"{where}: needs needles or an exit pattern")
    if unknown := {*rule.after, *rule.before} - markers:
        raise RulesError(f"{where}: no such markers: {sorted(unknown)}")
    if unknown := set(rule.derive) - set(DERIVATIONS):
        raise RulesError(f"{where}: no such derivations: {sorted(unknown)}")
    given = set(rule.match.groupindex) if rule.match else set()
    given |= {DERIVATIONS[name].gives for name in rule.derive}
    for text in (rule.text, rule.next_step):
        if lost := _placeholders(text, where) - given:
            raise RulesError(f"{where}: texts name {sorted(lost)}, which nothing captures")


def _placeholders(text: str, where: str) -> set[str]:
    try:
        return {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}
    except ValueError as error:
        raise RulesError(f"{where}: braces in a text: {error}") from error


def _text(row: Mapping[str, Any], name: str, where: str) -> str:
    value = row.get(name)
    if not isinstance(value, str) or not value.strip():
        raise RulesError(f"{where}: {name} must be text")
    return value


def _texts(row: Mapping[str, Any], name: str, where: str) -> tuple[str, ...]:
    value = row.get(name, [])
    value = [value] if isinstance(value, str) else value
    if not isinstance(value, Sequence) or not all(isinstance(v, str) and v for v in value):
        raise RulesError(f"{where}: {name} must be a text or a list of texts")
    return tuple(value)


def _flag(row: Mapping[str, Any], name: str, where: str, *, default: bool | None = None) -> bool:
    value = row.get(name, default)
    if not isinstance(value, bool):
        raise RulesError(f"{where}: {name} must be true or false")
    return value


def _count(row: Mapping[str, Any], where: str) -> int:
    value = row.get("repeats", 1)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise RulesError(f"{where}: repeats must be a whole number above zero")
    return value


def _pattern(row: Mapping[str, Any], name: str, where: str) -> re.Pattern[str] | None:
    value = row.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or not value:
        raise RulesError(f"{where}: {name} must be a regular expression")
    try:
        return re.compile(value)
    except re.error as error:
        raise RulesError(f"{where}: {name}: {error}") from error

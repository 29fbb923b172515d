"""Which phrases a scan looks for, and who wants to hear of them; computed once a rule set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from twinrig.diagnosis import watches
from twinrig.diagnosis.crashes import ASYNCHRONOUS
from twinrig.diagnosis.facts import ENVIRONMENT_NEEDLES, FACT_PATTERNS, FactPattern
from twinrig.diagnosis.root_cause import HINTS
from twinrig.diagnosis.rules import Kind, Rules, Signature


@dataclass(frozen=True)
class Needle:
    """``key`` is the longest piece without a space; what the set of words is asked for.

    ``inner`` are its words that have a space on both sides: each stands alone where it occurs.
    """

    text: str
    key: str
    inner: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Interest:
    """Who wants to see a line with one phrase."""

    markers: tuple[str, ...]
    facts: tuple[FactPattern, ...]
    environment: bool
    watched: bool
    harmless: bool
    signatures: tuple[tuple[Kind, Signature], ...]
    root: bool
    """It may be an exception's own line."""


@dataclass(frozen=True)
class Index:
    """Phrase -> those who want the lines that hold it. ``phrases`` are asked for presence only."""

    needles: tuple[Needle, ...]
    interests: Mapping[str, Interest]
    facts: Mapping[str, list[FactPattern]]
    phrases: frozenset[str]
    passing: frozenset[str]
    """Wanted for facts or as a hint at an exception only: not looked at once these are known."""


_COMMON = frozenset(
    {
        *("available", "version", "connect", "tokenizer", "return", "Failed"),
        *("failed", "Loading", "waiting", "architecture", "resource", "maximum"),
        *("process", "platform", "request", "engine", "backend", "memory"),
        *("found", "error", "weights", "parallel", "call", "Starting"),
        *("installed", "instead", "failure", "timeout", "environment", "parameters"),
        *("library", "processes", "application", "using", "with", "server"),
        *("model", "from", "requests", "completions", "safetensors"),
    }
)
"""Words that ordinary lines are full of; another word of a phrase is asked for if it has one."""


def _key(phrase: str) -> str:
    return max(phrase.split(), key=lambda word: (word not in _COMMON, len(word)))


def _inner(phrase: str) -> frozenset[str]:
    """Words that no other character can stand beside; the first and the last may be parts."""
    words = phrase.split()
    return frozenset(words[not phrase[:1].isspace() : len(words) - (not phrase[-1:].isspace())])


@lru_cache(maxsize=4)
def index_of(rules: Rules) -> Index:
    """The index of a rule set."""
    signatures: dict[str, list[tuple[Kind, Signature]]] = {}
    markers: dict[str, list[str]] = {}
    facts: dict[str, list[FactPattern]] = {}
    phrases: set[str] = set()
    for kind in rules.kinds:
        for signature in kind.signatures:
            for needle in signature.needles:
                signatures.setdefault(needle, []).append((kind, signature))
            phrases.update(signature.present)
            phrases.update(signature.absent)
    for name, texts in rules.markers.items():
        for text in texts:
            markers.setdefault(text, []).append(name)
    for pattern in FACT_PATTERNS:
        facts.setdefault(pattern.needle, []).append(pattern)
    wanted = {*signatures, *markers, *facts, *phrases, *ENVIRONMENT_NEEDLES}
    wanted |= {*watches.NEEDLES, *HINTS, *rules.harmless, ASYNCHRONOUS}
    kept = {*signatures, *markers, *watches.NEEDLES, *rules.harmless, ASYNCHRONOUS}
    needles = tuple(Needle(t, _key(t), _inner(t)) for t in sorted(wanted))
    interests = {
        text: Interest(
            tuple(markers.get(text, ())),
            tuple(facts.get(text, ())),
            text in ENVIRONMENT_NEEDLES,
            text in watches.NEEDLES,
            text in rules.harmless,
            tuple(signatures.get(text, ())),
            text == ASYNCHRONOUS or text in HINTS,
        )
        for text in wanted
    }
    return Index(needles, interests, facts, frozenset(phrases), frozenset(wanted - kept))

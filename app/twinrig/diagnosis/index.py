"""Which phrases a scan looks for, and who wants to hear of them; computed once a rule set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from twinrig.diagnosis import watches
from twinrig.diagnosis.crashes import ASYNCHRONOUS
from twinrig.diagnosis.facts import ENVIRONMENT_NEEDLES, FACT_PATTERNS, FactPattern
from twinrig.diagnosis.root_cause import HINTS, REFUSED
from twinrig.diagnosis.rules import Kind, Rules, Signature


@dataclass(frozen=True, slots=True)
class Interest:
    """Who wants to see a line with one phrase, or with several."""

    markers: tuple[str, ...]
    facts: tuple[FactPattern, ...]
    environment: bool
    watched: bool
    harmless: bool
    signatures: tuple[tuple[Kind, Signature], ...]
    root: bool
    """It may be an exception's own line."""
    refused: bool
    """It tells that a request was answered as a bad one."""


def merged(interests: Sequence[Interest]) -> Interest:
    """Everybody who wants to see a line with all these phrases, each once."""
    signatures = {id(s): (kind, s) for i in interests for kind, s in i.signatures}
    return Interest(
        tuple(dict.fromkeys(name for i in interests for name in i.markers)),
        tuple(dict.fromkeys(pattern for i in interests for pattern in i.facts)),
        any(i.environment for i in interests),
        any(i.watched for i in interests),
        any(i.harmless for i in interests),
        tuple(signatures.values()),
        any(i.root for i in interests),
        any(i.refused for i in interests),
    )


@dataclass(frozen=True)
class Index:
    """Phrase -> those who want the lines that hold it. ``phrases`` are asked for presence only."""

    needles: tuple[str, ...]
    interests: Mapping[str, Interest]
    facts: Mapping[str, list[FactPattern]]
    phrases: frozenset[str]
    passing: frozenset[str]
    """Wanted for facts or as a hint at an exception only: not looked at once these are known."""


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
    wanted |= {*watches.NEEDLES, *HINTS, *rules.harmless, ASYNCHRONOUS, *REFUSED}
    kept = {*signatures, *markers, *watches.NEEDLES, *rules.harmless, ASYNCHRONOUS, *REFUSED}
    interests = {
        text: Interest(
            tuple(markers.get(text, ())),
            tuple(facts.get(text, ())),
            text in ENVIRONMENT_NEEDLES,
            text in watches.NEEDLES,
            text in rules.harmless,
            tuple(signatures.get(text, ())),
            text == ASYNCHRONOUS or text in HINTS,
            text in REFUSED,
        )
        for text in wanted
    }
    return Index(
        tuple(sorted(wanted)), interests, facts, frozenset(phrases), frozenset(wanted - kept)
    )

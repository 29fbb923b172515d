"""Failure rules as data: what ``resources/rules/*.yaml`` say, one ``Kind`` per failure.

A kind holds texts, fixes and look-alikes; its signatures say what identifies it. The form of
the files and its check stand in ``rule_files``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from twinrig.diagnosis.conditions import Condition

CONFIDENCES = ("high", "medium", "low")
TIERS = (
    *("native", "library", "worker", "memory", "process", "windows"),
    *("stall", "request", "exit"),
)
"""Order of decision (failure catalogue 2): a match of an earlier tier beats all later ones."""

READY = "ready"
STOPPED = "stopped"
STARTED = "started"


@dataclass(frozen=True)
class Signature:
    """One way in which a kind shows itself.

    ``match`` is tried on lines that hold one of ``needles``; its groups become parameters of
    the texts. ``after`` and ``before`` name markers that this run of the server has, or has not,
    shown above the line; ``near`` and ``not_near`` are looked for in the traceback above it;
    ``present`` (one of them) and ``absent`` (none of them) are phrases anywhere in the log;
    ``when`` are conditions on facts; ``exit`` is searched in the exit status; ``repeats`` hits
    are needed. ``observed`` names an observation that takes the place of a line. Lines of level
    INFO or WARNING are looked at only when ``info`` or ``warning`` is set. ``survives``: it
    counts although the server became ready afterwards; ``after_stop``: also after a wanted stop.
    """

    tier: str
    confidence: str
    needles: tuple[str, ...] = ()
    match: re.Pattern[str] | None = None
    excludes: re.Pattern[str] | None = None
    near: re.Pattern[str] | None = None
    not_near: re.Pattern[str] | None = None
    present: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    when: tuple[Condition, ...] = ()
    exit: re.Pattern[str] | None = None
    observed: str = ""
    derive: tuple[str, ...] = ()
    repeats: int = 1
    info: bool = False
    warning: bool = False
    survives: bool = False
    after_stop: bool = False
    text: str = ""
    next_step: str = ""
    fixes: tuple[str, ...] = ()
    permanent: bool | None = None

    @property
    def rank(self) -> int:
        """Smaller is decided earlier."""
        return TIERS.index(self.tier)


@dataclass(frozen=True)
class Variant:
    """Other fixes of a kind when the conditions hold; the first variant that holds is taken."""

    when: tuple[Condition, ...]
    fixes: tuple[str, ...]
    next_step: str = ""


@dataclass(frozen=True)
class Kind:
    """One kind of failure; ``id`` is of the failure catalogue when ``catalogued``.

    ``ceiling`` bounds the confidence of all signatures. ``unless`` are ids that, when they hold
    too, explain the same lines better. ``permanent``: a restart cannot cure it.
    """

    id: str
    text: str
    next_step: str
    ceiling: str
    permanent: bool
    fixes: tuple[str, ...]
    signatures: tuple[Signature, ...]
    unless: tuple[str, ...] = ()
    variants: tuple[Variant, ...] = ()
    catalogued: bool = True
    source: str = ""

    def confidence(self, signature: Signature) -> str:
        """That of the signature, bounded by the kind's ceiling."""
        return max(self.ceiling, signature.confidence, key=CONFIDENCES.index)


@dataclass(frozen=True, eq=False)
class Rules:
    """All kinds, with wrapper lines, harmless lines and progress markers (name -> phrases).

    Equal only to itself, so that what is computed from it can be kept.
    """

    kinds: tuple[Kind, ...]
    wrappers: tuple[str, ...]
    harmless: tuple[str, ...]
    markers: Mapping[str, tuple[str, ...]]
    faults: tuple[str, ...] = field(default=())

    def kind(self, kind_id: str) -> Kind | None:
        """The kind of that id."""
        return next((kind for kind in self.kinds if kind.id == kind_id), None)

"""Preflight checks: read-only questions with a pure judgement."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from twinrig.domain.install import EngineInstall
from twinrig.domain.profile import Profile
from twinrig.messages import Message


class Status(StrEnum):
    """ERROR = could not tell (never offers a fix); SKIP = a prerequisite is missing."""

    PASS = "pass"
    WARN = "warn"
    FAIL = "fail"
    SKIP = "skip"
    ERROR = "error"


class Severity(StrEnum):
    """How much a finding matters: BLOCKING keeps a server from starting."""

    BLOCKING = "blocking"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True)
class Finding:
    """The joint between preflight, diagnosis and fixes. Equal ids and params = the same row.

    Ids are those of the failure catalogue where one exists; ``fixes`` are fix ids, best first.
    ``check_id`` is the check that found it, "" for one that a log told.
    """

    id: str
    params: tuple[tuple[str, str], ...] = ()
    severity: Severity = field(default=Severity.BLOCKING, compare=False)
    fixes: tuple[str, ...] = field(default=(), compare=False)
    check_id: str = field(default="", compare=False)

    def param(self, name: str, default: str = "") -> str:
        """Value of one parameter."""
        return dict(self.params).get(name, default)


@dataclass(frozen=True)
class Evidence:
    """What was asked and the decisive lines of the answer, as they came."""

    source: str
    text: str


@dataclass(frozen=True)
class ProbeOutput:
    """Answer of one probe. ``returncode`` None = it did not run or timed out."""

    name: str
    returncode: int | None
    stdout: str
    stderr: str = ""
    timed_out: bool = False

    @property
    def missing_program(self) -> bool:
        """The program that the probe asks is not installed (the shell's 127)."""
        return self.returncode == 127


@dataclass(frozen=True)
class Facts:
    """What judgements may look at: probe answers, the profile and the engine found for it.

    ``install_error`` is set when the search for the engine failed: then None says nothing.
    """

    probes: Mapping[str, ProbeOutput]
    profile: Profile | None = None
    install: EngineInstall | None = None
    install_error: Message | None = None

    def probe(self, name: str) -> ProbeOutput:
        """The named answer; a missing one reads as "did not run"."""
        return self.probes.get(name) or ProbeOutput(name, None, "")


@dataclass(frozen=True)
class CheckResult:
    """Outcome of one check. ``next_step`` is guidance where no fix exists."""

    check_id: str
    status: Status
    summary: Message
    finding: Finding | None = None
    evidence: tuple[Evidence, ...] = ()
    duration_s: float = 0.0
    next_step: Message | None = None


class Cost(StrEnum):
    """CHEAP checks share one call; SLOW ones run only when asked or before a start."""

    CHEAP = "cheap"
    SLOW = "slow"


@dataclass(frozen=True)
class Check:
    """One question. ``probes`` name entries of the probe script, or of ``domain.windows`` for the
    Windows side; ``judge`` is pure. ``optional`` are asked too where they can be.

    ``requires`` are check ids that must PASS or WARN first. ``title`` is a marked sentence.
    ``findings`` are the ids it may find: a fix is proven by the checks that name its finding.
    ``engines`` are those it is about; empty = all.
    """

    id: str
    title: str
    probes: tuple[str, ...]
    judge: Callable[[Facts], CheckResult]
    requires: tuple[str, ...] = ()
    timeout_s: float = 10.0
    cost: Cost = Cost.CHEAP
    needs_profile: bool = False
    findings: tuple[str, ...] = ()
    engines: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()

"""The NCCL experiment: which environment makes the cards talk, proven by real collectives.

The empty environment comes first. When it passes, nothing is changed: what is not needed is not
set. Else every candidate is tried, each in processes of its own, and of those that pass the
fastest is chosen; the smaller one wins where speeds are alike. Leaving out one variable after the
other then tells which of them decide.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from twinrig.checks.nccl_facts import machine_versions
from twinrig.domain import fingerprint
from twinrig.domain.checks import Facts, Finding
from twinrig.domain.collective import CollectiveReport, step_plans
from twinrig.domain.errors import HostError, UsageError
from twinrig.domain.fixes import Fix, FixPlan, FixStep, ProfileStep
from twinrig.domain.install import EngineInstall
from twinrig.domain.profile import Profile
from twinrig.messages import Message, message
from twinrig.services.collective import CollectiveRequest, request_for
from twinrig.services.nccl_candidates import (
    EMPTY,
    PRESENT,
    Candidate,
    CandidateTable,
    candidates_for,
    trial_env,
)

FIX_ID = "nccl-experiment"
ALIKE = 0.10
"""Speeds that differ by less than this share are the same: one run measures no better."""

_STEP_S = 15.0


class Runner(Protocol):
    """What is needed of ``CollectiveProgram``."""

    async def run(self, request: CollectiveRequest) -> CollectiveReport:
        """Raises HostError when there is no report."""
        ...


class FactSource(Protocol):
    """``Preflight.facts``: versions for the fingerprint."""

    async def __call__(self, profile: Profile | None, names: Sequence[str]) -> Facts:
        """Raises HostError."""
        ...


@dataclass(frozen=True)
class Trial:
    """One environment and what came of it. ``report`` None: it gave no answer, see ``error``."""

    candidate: Candidate
    report: CollectiveReport | None
    duration_s: float
    error: Message | None = None
    without: str = ""

    @property
    def passed(self) -> bool:
        """All ranks, all sizes, all values."""
        return self.report is not None and self.report.passed

    @property
    def mbps(self) -> float | None:
        """Bus bandwidth of the largest all-reduce."""
        return None if self.report is None else self.report.speed_mbps


@dataclass(frozen=True)
class ExperimentResult:
    """``chosen`` None: nothing is to be changed (``needed`` False) or nothing helped.

    ``decisive``: variables without which the chosen environment fails; empty when each of them
    alone can be spared.
    """

    trials: tuple[Trial, ...]
    chosen: Trial | None = None
    decisive: tuple[str, ...] = ()
    eliminations: tuple[Trial, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def needed(self) -> bool:
        """Whether the cards cannot talk without help."""
        return not any(t.passed for t in self.trials if t.candidate.id in (EMPTY, PRESENT))

    @property
    def text(self) -> Message:
        """The verdict in words."""
        if any(trial.passed for trial in self.trials if trial.candidate.id == EMPTY):
            return message("The cards talk without any special setting. Nothing needs changing.")
        if self.chosen is None and not self.needed:
            return message("The cards talk with what the profile sets. Nothing needs changing.")
        if self.chosen is None:
            return message("With none of the known settings the cards could talk to each other.")
        return message(
            "The cards talk with the settings {id}. Decisive: {names}",
            id=self.chosen.candidate.id,
            names=", ".join(self.decisive) or "-",
        )


@dataclass(frozen=True)
class Progress:
    """Before each trial: what is tried, and how many at most are still to come with it."""

    candidate: Candidate
    without: str
    number: int
    at_most: int


class NcclExperiment:
    """Tries the candidates of one engine on one target. Cancel it at any time."""

    def __init__(
        self,
        runner: Runner,
        tables: Mapping[str, CandidateTable],
        *,
        extra_env: Mapping[str, str] | None = None,
        base: CollectiveRequest | None = None,
        facts: FactSource | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._runner = runner
        self._tables = tables
        self._extra = dict(extra_env or {})
        self._base = base
        self._facts = facts
        self._monotonic = monotonic

    async def run(
        self,
        engine_id: str,
        profile: Profile | None,
        install: EngineInstall | None,
        *,
        on_progress: Callable[[Progress], None] = lambda progress: None,
        on_trial: Callable[[Trial], None] = lambda trial: None,
        every: bool = False,
    ) -> ExperimentResult:
        """Changes nothing. ``every`` tries all candidates for their figures, also when none is
        needed. Raises UsageError for an engine without candidates, HostError when there is no
        Python to run it on."""
        table = self._table(engine_id)
        base = self._base or request_for(profile, install)
        candidates = candidates_for(table, profile)
        trials: list[Trial] = []
        for number, candidate in enumerate(candidates, 1):
            if not every and any(t.passed for t in trials if t.candidate.id in (EMPTY, PRESENT)):
                break
            on_progress(Progress(candidate, "", number, len(candidates)))
            trials.append(await self._try(base, table, profile, candidate))
            on_trial(trials[-1])
            if candidate.id == EMPTY and trials[-1].report is None:
                raise HostError(trials[-1].error or message("The check gave no answer."))
        versions = {**await self._machine(), **_versions(trials, engine_id, install)}
        result = ExperimentResult(tuple(trials), versions=versions)
        chosen = best_of(trials) if result.needed else None
        if chosen is None:
            return result
        tried = await self._eliminate(base, table, profile, chosen, on_progress, on_trial)
        decisive = tuple(trial.without for trial in tried if not trial.passed)
        return replace(result, chosen=chosen, decisive=decisive, eliminations=tried)

    def plan(
        self, result: ExperimentResult, profile: Profile, ptrace: Fix | None, facts: Facts
    ) -> FixPlan | None:
        """The change that makes the chosen environment last; None when nothing is to be done.

        ``ptrace`` is the fix for the kernel's limit, used where the candidate needs it;
        ``facts`` answer its probes and those that tell versions.
        """
        if result.chosen is None:
            return None
        candidate, table = result.chosen.candidate, self._table(profile.engine.id)
        drop = [name for name in profile.env if table.managed(name) and name not in candidate.env]
        env: dict[str, str | None] = {name: None for name in drop}
        known = self._settings(profile, candidate)
        step = ProfileStep(profile.id, known, {**env, **candidate.env}, _reason(result))
        title = message("Let the cards talk: NCCL settings {id}", id=candidate.id)
        before, needs_root = _kernel_steps(candidate, ptrace, facts)
        return FixPlan(
            FIX_ID,
            title,
            (*before, step),
            risk=message("Traffic between the cards may go through main memory: a little slower."),
            needs_root=needs_root,
            needs_restart=True,
        )

    async def _machine(self) -> Mapping[str, str]:
        """Driver and kernel; nothing when they cannot be told."""
        if self._facts is None:
            return {}
        try:
            facts = await self._facts(None, ("system", "gpu", "driver"))
        except HostError:
            return {}
        return machine_versions(facts)

    def _settings(self, profile: Profile, candidate: Candidate) -> dict[str, object]:
        return {n: v for n, v in candidate.settings.items() if profile.settings.get(n) != v}

    def _table(self, engine_id: str) -> CandidateTable:
        table = self._tables.get(engine_id)
        if table is None:
            raise UsageError(
                message("There are no NCCL settings to try for {engine}.", engine=engine_id),
                message("Engines: {names}", names=", ".join(sorted(self._tables))),
            )
        return table

    async def _try(
        self,
        base: CollectiveRequest,
        table: CandidateTable,
        profile: Profile | None,
        candidate: Candidate,
        *,
        without: str = "",
        quick: bool = False,
    ) -> Trial:
        wanted = {name: value for name, value in candidate.env.items() if name != without}
        env = {**trial_env(table, profile, wanted), **self._extra}
        request = replace(
            base,
            env=env,
            steps=step_plans(quick=True) if quick else base.steps,
            peers=base.peers and candidate.id == EMPTY,
            step_s=min(base.step_s, _STEP_S),
        )
        began = self._monotonic()
        try:
            report = await self._runner.run(request)
        except HostError as error:
            spent = self._monotonic() - began
            return Trial(candidate, None, spent, error.text, without)
        return Trial(candidate, report, self._monotonic() - began, without=without)

    async def _eliminate(
        self,
        base: CollectiveRequest,
        table: CandidateTable,
        profile: Profile | None,
        chosen: Trial,
        on_progress: Callable[[Progress], None],
        on_trial: Callable[[Trial], None],
    ) -> tuple[Trial, ...]:
        candidate = chosen.candidate
        tried: list[Trial] = []
        for number, name in enumerate(candidate.env, 1):
            on_progress(Progress(candidate, name, number, len(candidate.env)))
            tried.append(await self._try(base, table, profile, candidate, without=name, quick=True))
            on_trial(tried[-1])
        return tuple(tried)


def best_of(trials: list[Trial]) -> Trial | None:
    """The fastest that passed; among those about as fast the smallest, then the first."""
    proven = [trial for trial in trials if trial.passed]
    if not proven:
        return None
    fastest = max(trial.mbps or 0.0 for trial in proven)
    alike = [t for t in proven if (t.mbps or 0.0) >= fastest * (1 - ALIKE)]
    return min(alike, key=lambda trial: trial.candidate.size)


def _versions(
    trials: list[Trial], engine_id: str, install: EngineInstall | None
) -> Mapping[str, str]:
    reports = [trial.report for trial in trials if trial.report is not None]
    return {
        "torch": next((r.torch_version for r in reports if r.torch_version), ""),
        "nccl": next((r.nccl_version for r in reports if r.nccl_version), ""),
        engine_id: install.version if install else "",
    }


def _reason(result: ExperimentResult) -> str:
    """English, like every reason in a profile's file; the versions stand at its end."""
    chosen = result.chosen
    assert chosen is not None
    words = [f"NCCL experiment, settings {chosen.candidate.id}: all values right"]
    if chosen.mbps:
        words.append(f"{chosen.mbps:.0f} MB/s")
    if result.decisive:
        words.append("decisive: " + " ".join(result.decisive))
    return f"{', '.join(words)} {fingerprint.to_text(result.versions)}"


def _kernel_steps(
    candidate: Candidate, ptrace: Fix | None, facts: Facts
) -> tuple[tuple[FixStep, ...], bool]:
    if not candidate.needs_ptrace or ptrace is None:
        return (), False
    try:
        plan = ptrace.plan(Finding(FIX_ID), facts)
    except UsageError:
        return (), False
    return (plan.steps, plan.needs_root) if isinstance(plan, FixPlan) else ((), False)

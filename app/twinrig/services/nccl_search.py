"""The NCCL experiment as a stream: what is tried, what came of it, and the fix at its end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from twinrig.domain.fixes import FixPlan
from twinrig.domain.install import EngineInstall
from twinrig.domain.profile import Profile
from twinrig.fixes.sysctl_ptrace import SysctlPtrace
from twinrig.messages import N_, Message, message
from twinrig.services.engine_comparison import Comparison, compare_engines
from twinrig.services.nccl_candidates import EMPTY, PRESENT, Candidate
from twinrig.services.nccl_experiment import ExperimentResult, NcclExperiment, Progress, Trial
from twinrig.services.workbench import Workbench

REASONS: Mapping[str, str] = MappingProxyType(
    {
        "NCCL_P2P_DISABLE": N_(
            "Direct copies between the cards do not work here; data must go through main memory."
        ),
        "NCCL_IB_DISABLE": N_("NCCL must not look for InfiniBand network cards."),
        "NCCL_CUMEM_ENABLE": N_(
            "CUDA's virtual memory cannot be shared here; NCCL must use its older way."
        ),
        "NCCL_CUMEM_HOST_ENABLE": N_(
            "NCCL must keep its buffers in main memory away from CUDA's virtual memory."
        ),
        "NCCL_SOCKET_IFNAME": N_("The processes must meet over the loopback interface."),
        "NCCL_SHM_DISABLE": N_("Shared memory must stay allowed."),
        "PYTORCH_CUDA_ALLOC_CONF": N_("torch's allocator must hand out memory in another way."),
        "PYTORCH_ALLOC_CONF": N_("torch's allocator must hand out memory in another way."),
        "VLLM_WORKER_MULTIPROC_METHOD": N_("Workers must be started afresh instead of forked."),
    }
)


@dataclass(frozen=True)
class NcclFound:
    """The end. ``plan`` None: nothing needs changing, or nothing helped; ``other`` then tells
    whether another engine of this machine can do it."""

    result: ExperimentResult
    plan: FixPlan | None
    other: Comparison | None = None

    def sentences(self) -> tuple[Message, ...]:
        """The verdict, and why, in words."""
        why = dict.fromkeys(REASONS.get(name, "") for name in self.result.decisive)
        reasons = [Message(text) for text in why if text]
        other = [] if self.other is None else [self.other.text, *self.other.differences]
        return (self.result.text, *reasons, *other)


def name_of(candidate: Candidate) -> Message | str:
    """Its id, or words for the two that every engine has."""
    words = {EMPTY: message("no setting"), PRESENT: message("the profile's own settings")}
    return words.get(candidate.id, candidate.id)


def trial_text(trial: Trial) -> Message:
    """One line of the protocol: passed with its speed, or how it failed."""
    name = name_of(trial.candidate)
    if trial.without:
        passed = message("{id} without {name}: works", id=name, name=trial.without)
        failed = message("{id} without {name}: does not work", id=name, name=trial.without)
        return passed if trial.passed else failed
    if trial.passed and trial.mbps:
        return message("{id}: works, {mbps} MB/s", id=name, mbps=f"{trial.mbps:.0f}")
    if trial.passed:
        return message("{id}: works", id=name)
    ended = trial.report.ended if trial.report is not None else ""
    words = {
        "hang": message("{id}: the cards wait for each other and nothing arrives", id=name),
        "crash": message("{id}: a process died", id=name),
    }
    return words.get(ended, message("{id}: does not work", id=name))


def progress_text(progress: Progress) -> Message:
    """What is tried now, with the settings."""
    if progress.without:
        return message(
            "Trying {id} without {name} ({number} of {count})",
            id=progress.candidate.id,
            name=progress.without,
            number=progress.number,
            count=progress.at_most,
        )
    settings = " ".join(f"{n}={v}" for n, v in progress.candidate.env.items())
    where = {"number": progress.number, "count": progress.at_most}
    name = name_of(progress.candidate)
    if not settings:
        return message("Trying {id} ({number} of {count})", id=name, **where)
    return message(
        "Trying {id} ({number} of {count}): {settings}", id=name, settings=settings, **where
    )


async def search_nccl(
    bench: Workbench, profile: Profile, experiment: NcclExperiment | None = None
) -> AsyncIterator[Progress | Trial | NcclFound]:
    """Changes nothing. Close it at any time: the running trial is ended and leaves nothing.

    Raises UsageError for an engine without candidates, HostError without a Python to run on.
    """
    found = await bench.installs.find(profile.engine.id, profile.engine.environment)
    install = found[0] if found else None
    trying = experiment or NcclExperiment(
        bench.collective, bench.candidates, facts=bench.preflight.facts
    )
    queue: asyncio.Queue[Progress | Trial | None] = asyncio.Queue()
    work = asyncio.ensure_future(_run(trying, profile, install, queue))
    try:
        while (item := await queue.get()) is not None:
            yield item
        result = await work
    finally:
        work.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(work, return_exceptions=True)
    ptrace = SysctlPtrace()
    facts = await bench.preflight.facts(profile, ptrace.probes)
    plan = trying.plan(result, profile, ptrace, facts)
    other = None
    if result.needed and result.chosen is None:
        other = await compare_engines(bench, profile, result.trials[0].report)
    yield NcclFound(result, plan, other)


async def _run(
    experiment: NcclExperiment,
    profile: Profile,
    install: EngineInstall | None,
    queue: asyncio.Queue[Progress | Trial | None],
) -> ExperimentResult:
    try:
        return await experiment.run(
            profile.engine.id,
            profile,
            install,
            on_progress=queue.put_nowait,
            on_trial=queue.put_nowait,
        )
    finally:
        queue.put_nowait(None)

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fixtures.fixer_rig import Rig
from fixtures.standard_machine import INSTALL, PROFILE, facts, profile_with
from twinrig import assets
from twinrig.domain import fingerprint
from twinrig.domain.checks import Facts, Finding
from twinrig.domain.collective import CollectiveReport, RankFacts, StepOutcome, StepPlan
from twinrig.domain.errors import HostError, UsageError
from twinrig.domain.fixes import CommandStep, ProfileStep, WriteFileStep
from twinrig.domain.profile import EnvEntry, Profile
from twinrig.fixes.sysctl_ptrace import SysctlPtrace
from twinrig.messages import message
from twinrig.services.collective import CollectiveRequest
from twinrig.services.nccl_candidates import (
    EMPTY,
    PRESENT,
    Candidate,
    CandidateTable,
    candidates_for,
    load_candidates,
    trial_env,
)
from twinrig.services.nccl_experiment import (
    FIX_ID,
    ExperimentResult,
    NcclExperiment,
    Progress,
    Trial,
    best_of,
)

TABLES = load_candidates(assets.read_text("nccl/candidates.yaml"))
P2P, IB, CUMEM = "NCCL_P2P_DISABLE", "NCCL_IB_DISABLE", "NCCL_CUMEM_ENABLE"


def report(passes: bool, mbps: float = 5000.0) -> CollectiveReport:
    plan = StepPlan("all_reduce", "float16", 64 << 20)
    status = "ok" if passes else "error"
    step = StepOutcome(plan, status, seconds=plan.size_bytes / (mbps * 1e6))
    ranks = tuple(RankFacts(r, torch="2.13.0", nccl="2.28.9", exit_code=0) for r in (0, 1))
    return CollectiveReport(2, "nccl", "complete" if passes else "failed", ranks, (step,))


class Machine:
    """Cards that talk only with ``required`` set; ``speed`` tells MB/s of an environment."""

    def __init__(
        self,
        required: Mapping[str, str] | None = None,
        speed: Callable[[Mapping[str, str]], float] = lambda env: 5000.0,
        impossible: bool = False,
    ) -> None:
        self.required = dict(required or {})
        self.speed = speed
        self.impossible = impossible
        self.requests: list[CollectiveRequest] = []

    async def run(self, request: CollectiveRequest) -> CollectiveReport:
        self.requests.append(request)
        held = all(request.env.get(name) == value for name, value in self.required.items())
        return report(held and not self.impossible, self.speed(request.env))


async def experiment(
    machine: Machine, profile: Profile | None = PROFILE, engine: str = "vllm", **how: bool
) -> ExperimentResult:
    return await NcclExperiment(machine, TABLES).run(engine, profile, INSTALL, **how)


# --- which candidate


async def test_machine_that_needs_nothing_is_tried_once_and_left_alone() -> None:
    machine = Machine()
    result = await experiment(machine)

    assert [trial.candidate.id for trial in result.trials] == [EMPTY]
    assert not result.needed and result.chosen is None and result.decisive == ()
    assert machine.requests[0].env == {}
    assert str(result.text).startswith("The cards talk without any special setting")


async def test_second_users_machine_needs_cumem_off_and_is_told_so() -> None:
    result = await experiment(Machine({P2P: "1", CUMEM: "0"}))

    assert result.needed and result.chosen is not None
    assert result.chosen.candidate.id == "V2"
    assert result.decisive == (P2P, CUMEM)
    assert [trial.without for trial in result.eliminations] == [P2P, IB, CUMEM]
    assert dict(result.versions) == {"torch": "2.13.0", "nccl": "2.28.9", "vllm": INSTALL.version}


async def test_profile_that_works_already_is_left_alone() -> None:
    profile = profile_with(env={CUMEM: "0", "VLLM_USE_V1": "1"})
    machine = Machine({CUMEM: "0"})
    result = await experiment(machine, profile)

    assert [trial.candidate.id for trial in result.trials] == [EMPTY, PRESENT]
    assert not result.needed and result.chosen is None
    assert machine.requests[0].env == {"VLLM_USE_V1": "1"}
    assert machine.requests[1].env == {"VLLM_USE_V1": "1", CUMEM: "0"}
    assert "what the profile sets" in str(result.text)


async def test_fastest_of_those_that_pass_is_chosen_when_it_is_really_faster() -> None:
    def speed(env: Mapping[str, str]) -> float:
        return 9000.0 if "NCCL_CUMEM_HOST_ENABLE" in env else 5000.0

    result = await experiment(Machine({P2P: "1"}, speed))
    assert result.chosen is not None and result.chosen.candidate.id == "V4"


async def test_speeds_that_differ_by_noise_leave_the_smaller_one() -> None:
    def speed(env: Mapping[str, str]) -> float:
        return 5000.0 + 100 * len(env)

    result = await experiment(Machine({P2P: "1"}, speed))
    assert result.chosen is not None and result.chosen.candidate.id == "V1"


async def test_case_that_no_candidate_cures() -> None:
    machine = Machine(impossible=True)
    result = await experiment(machine)

    assert [t.candidate.id for t in result.trials] == [EMPTY, "V1", "V2", "V3", "V4"]
    assert result.needed and result.chosen is None
    assert "none of the known settings" in str(result.text)


async def test_every_candidate_is_measured_on_request_and_nothing_is_chosen() -> None:
    result = await experiment(Machine(), every=True)

    assert len(result.trials) == 5 and all(trial.passed for trial in result.trials)
    assert not result.needed and result.chosen is None


async def test_exllamav3_has_candidates_of_its_own() -> None:
    profile = replace(PROFILE, engine=replace(PROFILE.engine, id="tabbyapi"))
    needs = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True", P2P: "1"}
    result = await experiment(Machine(needs), profile, "tabbyapi")

    assert result.chosen is not None and result.chosen.candidate.id == "E2"
    assert result.decisive == (P2P, "PYTORCH_CUDA_ALLOC_CONF")


async def test_engine_without_candidates_is_refused() -> None:
    with pytest.raises(UsageError, match="llama"):
        await experiment(Machine(), engine="llama")


KNOWN = sorted({p for t in TABLES.values() for c in t.candidates for p in c.env.items()})
FOREIGN = [(P2P, "0"), (CUMEM, "1"), ("NCCL_SHM_DISABLE", "1"), ("NCCL_SOCKET_IFNAME", "eth0")]
PAIRS = st.lists(st.sampled_from([*KNOWN, *FOREIGN]), max_size=4).map(dict)


@settings(deadline=None, max_examples=250)
@given(required=PAIRS, engine=st.sampled_from(list(TABLES)))
def test_found_if_and_only_if_one_covers_what_is_required(
    required: dict[str, str], engine: str
) -> None:
    profile = replace(PROFILE, engine=replace(PROFILE.engine, id=engine))
    result = asyncio.run(experiment(Machine(required), profile, engine))
    covering = [c for c in TABLES[engine].candidates if required.items() <= c.env.items()]

    assert result.needed == bool(required)
    assert (result.chosen is not None) == bool(required and covering)
    if result.chosen is not None:
        assert result.chosen.candidate in covering
        assert set(result.decisive) == set(required)


# --- what is told, cancelled, broken


async def test_progress_names_what_is_tried() -> None:
    told: list[Progress] = []
    trials: list[Trial] = []
    await NcclExperiment(Machine({P2P: "1"}), TABLES).run(
        "vllm", PROFILE, INSTALL, on_progress=told.append, on_trial=trials.append
    )

    assert [(p.candidate.id, p.without) for p in told] == [
        (EMPTY, ""),
        ("V1", ""),
        ("V2", ""),
        ("V3", ""),
        ("V4", ""),
        ("V1", P2P),
        ("V1", IB),
    ]
    assert [p.number for p in told[:5]] == [1, 2, 3, 4, 5] and told[0].at_most == 5
    assert [trial.passed for trial in trials] == [False, True, True, True, True, False, True]


async def test_cancel_reaches_the_running_trial() -> None:
    class Slow(Machine):
        cancelled = False

        async def run(self, request: CollectiveRequest) -> CollectiveReport:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.cancelled = True
                raise
            raise AssertionError

    machine = Slow()
    task = asyncio.ensure_future(experiment(machine))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert machine.cancelled


async def test_first_trial_without_an_answer_ends_it() -> None:
    class Mute(Machine):
        async def run(self, request: CollectiveRequest) -> CollectiveReport:
            raise HostError(message("no Python"))

    with pytest.raises(HostError, match="no Python"):
        await experiment(Mute())


async def test_later_trial_without_an_answer_is_one_that_failed() -> None:
    class Shaky(Machine):
        async def run(self, request: CollectiveRequest) -> CollectiveReport:
            if request.env.get(P2P) and CUMEM not in request.env:
                raise HostError(message("gone"))
            return await super().run(request)

    result = await experiment(Shaky({P2P: "1"}))
    v1 = result.trials[1]
    assert not v1.passed and v1.report is None and str(v1.error) == "gone"
    assert result.chosen is not None and result.chosen.candidate.id == "V2"


async def test_extra_variables_reach_every_trial() -> None:
    machine = Machine({P2P: "1"})
    await NcclExperiment(machine, TABLES, extra_env={"X": "y"}).run("vllm", PROFILE, INSTALL)

    assert {request.env["X"] for request in machine.requests} == {"y"}


async def test_peer_copies_are_made_once() -> None:
    machine = Machine({P2P: "1"})
    await experiment(machine)

    assert [request.peers for request in machine.requests] == [True] + [False] * 6


# --- what is kept


async def test_plan_sets_what_was_proven_and_removes_the_rest() -> None:
    profile = profile_with(env={"NCCL_SHM_DISABLE": "1", "NCCL_DEBUG": "WARN", "OTHER": "x"})
    experiment_ = NcclExperiment(Machine({P2P: "1", CUMEM: "0"}), TABLES)
    result = await experiment_.run("vllm", profile, INSTALL)
    plan = experiment_.plan(result, profile, SysctlPtrace(), facts())

    assert plan is not None and plan.fix_id == FIX_ID and plan.needs_restart
    (step,) = plan.steps
    assert isinstance(step, ProfileStep)
    assert step.env == {"NCCL_SHM_DISABLE": None, P2P: "1", IB: "1", CUMEM: "0"}
    assert "decisive: NCCL_P2P_DISABLE NCCL_CUMEM_ENABLE" in step.reason
    assert fingerprint.from_text(step.reason) == {
        "torch": "2.13.0",
        "nccl": "2.28.9",
        "vllm": INSTALL.version,
    }


async def test_nothing_is_planned_when_nothing_is_needed() -> None:
    experiment_ = NcclExperiment(Machine(), TABLES)
    result = await experiment_.run("vllm", PROFILE, INSTALL)
    assert experiment_.plan(result, PROFILE, None, facts()) is None


async def test_candidate_that_needs_ptrace_brings_the_kernels_setting_along() -> None:
    profile = replace(PROFILE, engine=replace(PROFILE.engine, id="tabbyapi"))
    experiment_ = NcclExperiment(
        Machine({"PYTORCH_ALLOC_CONF": "expandable_segments:True"}), TABLES
    )
    result = await experiment_.run("tabbyapi", profile, INSTALL)
    plan = experiment_.plan(result, profile, SysctlPtrace(), facts())

    assert plan is not None and plan.needs_root
    assert [type(step) for step in plan.steps] == [WriteFileStep, CommandStep, ProfileStep]


async def test_fingerprint_holds_driver_and_kernel() -> None:
    async def ask(profile: Profile | None, names: object) -> Facts:
        return facts()

    experiment_ = NcclExperiment(Machine({P2P: "1"}), TABLES, facts=ask)
    result = await experiment_.run("vllm", PROFILE, INSTALL)
    assert result.versions["driver"] == "591.44"
    assert result.versions["kernel"] == "6.6.114.1-microsoft-standard-WSL2"


async def test_it_is_kept_proven_and_undone_through_the_fixer(rig: Rig) -> None:
    profile = rig.store.profiles["qwen"]
    experiment_ = NcclExperiment(Machine({P2P: "1"}), TABLES)
    result = await experiment_.run("vllm", profile, INSTALL)
    plan = experiment_.plan(result, profile, None, facts())
    assert plan is not None
    outcome = await rig.fixer.apply(Finding("nccl-collective-failed"), plan, profile)

    assert outcome.proven
    kept = rig.store.profiles["qwen"].env
    assert kept[P2P].value == "1" and "PYTORCH_CUDA_ALLOC_CONF" not in kept
    await rig.fixer.undo(outcome.entry_id)
    assert rig.store.profiles["qwen"] == profile


# --- the table


def test_the_first_one_is_always_empty_and_engines_differ() -> None:
    for table in TABLES.values():
        assert candidates_for(table, None)[0] == Candidate(EMPTY)
    assert "expandable_segments:True" not in str(TABLES["vllm"])
    assert any("expandable_segments:True" in c.env.values() for c in TABLES["tabbyapi"].candidates)
    e2 = next(c for c in TABLES["tabbyapi"].candidates if c.id == "E2")
    assert e2.needs_ptrace and e2.settings == {"cuda_malloc_async": False}


def test_each_candidate_adds_to_the_one_before() -> None:
    rows = TABLES["vllm"].candidates
    for before, after in itertools.pairwise(rows):
        assert before.env.items() < after.env.items()


def test_debugging_is_the_users_own() -> None:
    table = TABLES["vllm"]
    assert not table.managed("NCCL_DEBUG") and not table.managed("NCCL_DEBUG_FILE")
    assert table.managed("NCCL_ALGO") and table.managed("PYTORCH_ALLOC_CONF")
    assert not TABLES["tabbyapi"].managed("VLLM_WORKER_MULTIPROC_METHOD")
    profile = replace(PROFILE, env={"NCCL_DEBUG": EnvEntry("INFO"), "NCCL_ALGO": EnvEntry("Ring")})
    assert trial_env(table, profile, {P2P: "1"}) == {"NCCL_DEBUG": "INFO", P2P: "1"}


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "schema_version: 2\nengines: {}",
        "schema_version: 1\nengines: {x: {candidates: [{id: A, env: {NCCL_X: 1}}]}}",
        "schema_version: 1\nengines: {x: {candidates: [{id: A, env: {'a b': '1'}}]}}",
        "schema_version: 1\nengines: {x: {candidates: [{id: empty, env: {}}]}}",
        "schema_version: 1\nengines: {x: {candidates: [{id: A, env: {}}, {id: A, env: {}}]}}",
        "schema_version: 1\nengines: {x: {candidates: [{id: A, env: {}, settings: {a: 1}}]}}",
    ],
)
def test_damaged_table_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="candidates"):
        load_candidates(text)


def test_best_of_nothing() -> None:
    assert best_of([]) is None
    assert best_of([Trial(Candidate("A"), report(False), 1.0)]) is None
    assert CandidateTable().candidates == ()

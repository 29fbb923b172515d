"""The benchmark: measures one profile, or several in turns so that heat and time of day are fair.

A server that answers somebody is never touched without consent. What ran before runs again at
the end, after a cancellation too.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from twinrig import __version__
from twinrig.domain.benchmark import (
    BenchmarkResult,
    Load,
    Prompt,
    Round,
    Sampling,
)
from twinrig.domain.errors import ConflictError, TwinrigError, UsageError
from twinrig.domain.profile import Profile
from twinrig.domain.supervision import ServerRecord
from twinrig.messages import Message, message
from twinrig.services.bench_note import LOCK_NAME, put_back_cut_off
from twinrig.services.bench_prompts import PromptMaker
from twinrig.services.bench_results import flat_settings, load_result, state_bytes, words_of_load
from twinrig.services.bench_rounds import RoundRunner
from twinrig.services.bench_server import BenchServer, Touch, refuse
from twinrig.services.bench_watch import LoadWatch
from twinrig.services.calibration import machine_key
from twinrig.services.completions import ReplyError
from twinrig.services.sampler_defaults import read_samplers, request_options
from twinrig.services.workbench import Workbench

MAX_STREAMS = 64
WARM_UP_TOKENS = 64
LEAST_TOKENS, MOST_TOKENS = 128, 2048
STREAM_S = 3.0
"""A single stream is measured for about so long: shorter ones measure the start, not the speed."""


@dataclass(frozen=True)
class BenchmarkPlan:
    """What to measure. Each profile is visited ``visits`` times, in turns with the others; at
    each visit every load is run ``rounds`` times, with replies of ``reply_tokens``; 0 = as long as
    the first profile's speed asks for, the same for all."""

    loads: tuple[Load, ...]
    rounds: int = 5
    visits: int = 1
    reply_tokens: int = 0


def plan_for(users: int, *, profiles: int = 1, thorough: bool = False) -> BenchmarkPlan:
    """One stream, several up to ``users``; both prompts, both ways to sample.

    ``thorough`` crosses everything with everything. Several profiles are visited twice each.
    Raises UsageError for a number of users that makes no sense.
    """
    if not 1 <= users <= MAX_STREAMS:
        raise UsageError(
            message("The number of users must be from 1 to {most}.", most=MAX_STREAMS),
            message("Eight is plenty at home."),
        )
    counts = sorted({count for count in (1, 2, 4, 8) if count <= users} | {users})
    ends = sorted({1, users})
    if thorough:
        loads = tuple(Load(n, p, s) for p in Prompt for s in Sampling for n in counts)
    else:
        loads = (
            *(Load(count) for count in counts),
            *(Load(count, Prompt.SHORT, Sampling.GREEDY) for count in ends),
            *(Load(count, Prompt.LONG) for count in ends),
        )
    return BenchmarkPlan(loads, rounds=5 if profiles == 1 else 3, visits=1 if profiles == 1 else 2)


@dataclass(frozen=True)
class Progress:
    """``text`` says what happens now, ``share`` (0 to 1) how much is done."""

    text: Message
    share: float
    profile_id: str = ""
    load: Load | None = None
    last: Round | None = None


@dataclass
class _Collected:
    """What one profile has shown so far."""

    profile: Profile
    rounds: dict[Load, list[Round]] = field(default_factory=dict)
    faults: dict[Load, Message] = field(default_factory=dict)
    version: str = ""
    gone: bool = False


OnProgress = Callable[[Progress], None]


class Benchmark:
    """Benchmarks of one target; one at a time."""

    def __init__(self, bench: Workbench) -> None:
        self._bench = bench

    async def touch(self, profiles: Sequence[Profile], plan: BenchmarkPlan) -> Touch:
        """What it would do to servers, and whether that must be agreed to. Changes nothing."""
        return await BenchServer(self._bench).look(tuple(profiles), plan.visits)

    async def run(
        self,
        profiles: Sequence[Profile],
        plan: BenchmarkPlan,
        *,
        agreed: bool = False,
        on_progress: OnProgress = lambda progress: None,
    ) -> tuple[BenchmarkResult, ...]:
        """One result for each profile. Cancel it at any time; the server is put back first.

        Raises ConflictError without consent, while another benchmark is at work, or when a server
        does not start; UsageError for profiles that cannot be measured; ReplyError when the server
        refuses to talk.
        """
        lock = self._bench.open_lock()
        if not lock.acquire(LOCK_NAME):
            raise ConflictError(
                message("Another measurement is at work on this target."),
                message("Wait until it is done, or cancel it."),
            )
        try:
            await put_back_cut_off(self._bench)
            return await self._run(profiles, plan, agreed, on_progress)
        finally:
            lock.release()

    async def _run(
        self,
        profiles: Sequence[Profile],
        plan: BenchmarkPlan,
        agreed: bool,
        on_progress: OnProgress,
    ) -> tuple[BenchmarkResult, ...]:
        server = BenchServer(self._bench)
        touch = await server.look(tuple(profiles), plan.visits)
        if touch.asks and not agreed:
            raise refuse(touch)
        work = _Work(self._bench, server, plan, [_Collected(p) for p in profiles], on_progress)
        try:
            await work.go()
        except BaseException:
            with contextlib.suppress(TwinrigError):  # the first fault is the one to tell
                await asyncio.shield(server.put_back())
            raise
        await server.put_back()
        return await work.results()


class _Work:
    """One run of the benchmark."""

    def __init__(
        self,
        bench: Workbench,
        server: BenchServer,
        plan: BenchmarkPlan,
        collected: list[_Collected],
        on_progress: OnProgress,
    ) -> None:
        self._bench = bench
        self._server = server
        self._plan = plan
        self._collected = collected
        self._on_progress = on_progress
        self._group = uuid.uuid4().hex[:12]
        self._done = 0
        self._reply_tokens = plan.reply_tokens

    async def go(self) -> None:
        """All visits, in turns."""
        for visit in range(self._plan.visits):
            for one in self._collected:
                if not one.gone:
                    await self._visit(one, visit)

    async def _visit(self, one: _Collected, visit: int) -> None:
        profile, plan = one.profile, self._plan
        fresh = plan.visits > 1 or len(self._collected) > 1
        self._tell(message("Starting the server of {profile}", profile=profile.name), one)
        serving = await self._server.bring_up(
            profile, fresh=fresh, on_record=lambda record: self._starting(one, record)
        )
        one.version = one.version or await self._version(profile)
        runner = RoundRunner(
            self._bench.http,
            self._bench.clock,
            serving.endpoint,
            PromptMaker(f"{self._group}/{visit}/{profile.id}"),
            lambda: self._server.counters(serving.record),
            request_options(await read_samplers(self._bench.host, profile.model.path)),
        )
        self._tell(message("Warming up; the first two requests count for nothing"), one)
        async with LoadWatch().running(self._bench.monitor()) as watch:
            try:
                tps = await runner.warm_up(self._reply_tokens or WARM_UP_TOKENS)
                if not self._reply_tokens:
                    self._reply_tokens = reply_length(tps, serving.endpoint.context_tokens)
                for load in plan.loads:
                    await self._load(one, load, runner, watch)
            except ReplyError as error:
                if error.finding_id != "reply-unreachable" or len(self._collected) == 1:
                    raise
                one.gone = True  # a server that dies under load is a result, too
                for load in plan.loads:
                    one.faults.setdefault(load, error.text)

    async def _load(
        self, one: _Collected, load: Load, runner: RoundRunner, watch: LoadWatch
    ) -> None:
        rounds = one.rounds.setdefault(load, [])
        for number in range(1, self._plan.rounds + 1):
            text = message(
                "{profile}: {load}, round {number} of {count}",
                profile=one.profile.name,
                load=words_of_load(load),
                number=number,
                count=self._plan.rounds,
            )
            self._tell(text, one, load)
            begun_s = self._bench.clock.now()
            outcome = await runner.run(load, self._reply_tokens)
            cards, usage = watch.use(begun_s, self._bench.clock.now())
            rounds.append(replace(outcome.round, cards=cards, kv_cache_usage=usage))
            if outcome.error is not None:
                one.faults[load] = outcome.error.text
            self._done += 1
            self._tell(text, one, load, rounds[-1])

    def _starting(self, one: _Collected, record: ServerRecord) -> None:
        self._tell(message("Starting the server of {profile}", profile=one.profile.name), one)

    def _tell(
        self, text: Message, one: _Collected, load: Load | None = None, last: Round | None = None
    ) -> None:
        plan = self._plan
        whole = len(plan.loads) * plan.rounds * plan.visits * len(self._collected)
        self._on_progress(Progress(text, self._done / whole, one.profile.id, load, last))

    async def _version(self, profile: Profile) -> str:
        try:
            found = await self._bench.installs.find(profile.engine.id, profile.engine.environment)
        except TwinrigError:
            found = ()
        return found[0].version if found else profile.engine.version

    async def results(self) -> tuple[BenchmarkResult, ...]:
        """What was collected, with the machine and the memory that a slot costs."""
        gpus, _ = await self._bench.estimating().gpus()
        machine, names = machine_key(gpus), tuple(gpu.name for gpu in gpus)
        return tuple([await self._result(one, machine, names) for one in self._collected])

    async def _result(
        self, one: _Collected, machine: str, names: tuple[str, ...]
    ) -> BenchmarkResult:
        profile = one.profile
        return BenchmarkResult(
            id=uuid.uuid4().hex[:12],
            group=self._group,
            taken_at_s=self._bench.clock.now(),
            profile_id=profile.id,
            profile_name=profile.name,
            engine_id=profile.engine.id,
            engine_version=one.version,
            model=profile.model.path,
            machine=machine,
            twinrig_version=__version__,
            settings=flat_settings(profile),
            loads=tuple(
                load_result(load, one.rounds.get(load, []), one.faults.get(load))
                for load in self._plan.loads
            ),
            visits=self._plan.visits,
            demo=self._bench.demo,
            state_bytes_per_slot=await state_bytes(self._bench, profile),
            card_names=names,
        )


def reply_length(tps: float | None, context_tokens: int | None) -> int:
    """Tokens of each reply for a stream of this speed; a quarter of the context at most."""
    wanted = min(max(LEAST_TOKENS, round((tps or 0.0) * STREAM_S)), MOST_TOKENS)
    return wanted if context_tokens is None else max(8, min(wanted, context_tokens // 4))

"""One run of a server: launch, load, serve, end."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from twinrig.domain.errors import HostError, TwinrigError
from twinrig.domain.launch import LaunchSpec, SleepWay
from twinrig.domain.metrics import EngineMetrics
from twinrig.domain.ports import ExitStatus, RunningServer
from twinrig.domain.server import Phase, ServerState
from twinrig.domain.supervision import Failure
from twinrig.engines.base import Engine, PhaseEvent
from twinrig.messages import Message, message
from twinrig.supervisor.context import Context
from twinrig.supervisor.health import ask_metrics
from twinrig.supervisor.judge import Verdict
from twinrig.supervisor.liveness import watch
from twinrig.supervisor.output import RunOutput
from twinrig.supervisor.phases import PhaseTracker, load_timings, save_timings
from twinrig.supervisor.probe import ProbeResult
from twinrig.supervisor.readiness import Asker, NotReady, until_listening, until_proven
from twinrig.supervisor.sleep import put_to_sleep, wake_up, watch_asleep
from twinrig.supervisor.waiting import first

LOOK_S = 12.0
"""Longest wait for what stands beside the log of a server that ended."""
_RUN_ID_VARIABLE = "TWINRIG_RUN_ID"
_LOAD_PHASES = frozenset(Phase) - {Phase.PROBE, Phase.SERVE, Phase.STOP}


@dataclass(frozen=True)
class RunEnd:
    """How a run ended. ``failure`` None = it was stopped on purpose.

    ``served_s`` is the time since READY (None = never); ``grace_s`` what orphans may have;
    ``pause_s`` the least wait before a restart; ``again``: it was stopped to be started anew.
    """

    failure: Failure | None = None
    permanent: bool = False
    served_s: float | None = None
    grace_s: float = 0.0
    pause_s: float = 0.0
    again: bool = False


class ServerRun:
    """Carries one run through STARTING .. READY/DEGRADED/SLEEPING; the caller sweeps after it."""

    def __init__(self, context: Context, engine: Engine, spec: LaunchSpec) -> None:
        self._context = context
        self._store = context.store
        self._clock = context.parts.clock
        self._engine = engine
        self._spec = spec
        self._tracker = PhaseTracker(load_timings(context.layout.timings(context.profile_id)))
        self._meter = engine.log_meter()
        self._moved = asyncio.Event()
        self._output = RunOutput(
            context.writer, engine.phase_of, self._read, spec.masked_values, self._count
        )
        # Monotonic: a Linux that wakes from sleep sets its clock.
        self._serving_since_s: float | None = None
        self._exit: ExitStatus | None = None
        self._stuck: NotReady | None = None
        self._refused_sleep = ""
        self._again = False

    async def execute(self, run_id: str) -> RunEnd:
        """Launch and keep until it ends, by itself or by wish. Raises HostError from the launch."""
        self._begin(Phase.LAUNCH)
        launcher = self._context.parts.launcher
        server = await launcher.launch(self._spec, run_id, self._output.feed)
        self._begin(Phase.IMPORT)
        self._store.update(server_pid=server.pid)
        await self._compare_environment(server.pid)
        deadline_s = self._clock.monotonic() + self._spec.readiness.load_timeout_s
        self._context.log.say(f"server {server.pid} launched for run {run_id}")
        over, problem = await first(
            self._attended(server, run_id, deadline_s),
            self._until_exit(server),
            self._context.intent.stopped(),
            self._moved.wait(),
        )
        return await self._conclude(server, run_id, problem if over else None)

    async def _until_exit(self, server: RunningServer) -> None:
        self._exit = await server.wait()

    async def _attended(
        self, server: RunningServer, run_id: str, deadline_s: float
    ) -> NotReady | Message | None:
        """The work, unless sleep took the machine away under it."""
        over, problem = await first(self._work(server, run_id, deadline_s), self._until_stuck())
        return problem if over else self._stuck

    async def _until_stuck(self) -> None:
        """Returns when, after sleep, neither the server nor its machine answers any more."""
        machine = self._context.parts.machine
        if machine is None:
            await asyncio.Event().wait()
            return
        while self._stuck is None:
            await machine.woke()
            self._context.log.say("the computer woke from sleep")
            await self._clock.sleep(self._context.parts.timing.wake_grace_s)
            if not await self._answers() and (error := await machine.fault()) is not None:
                self._stuck = NotReady(failure_of(error), permanent=True)

    async def _answers(self) -> bool:
        readiness, timing = self._spec.readiness, self._context.parts.timing
        url = self._spec.endpoint.base_url + (readiness.liveness_path or readiness.path)
        try:
            await self._context.parts.http.get(
                url, timeout_s=timing.request_timeout_s, token=self._spec.bearer_token
            )
        except HostError:
            return False
        return True

    async def _work(
        self, server: RunningServer, run_id: str, deadline_s: float
    ) -> NotReady | Message | None:
        parts = self._context.parts
        asker = Asker(
            parts.http, self._clock, self._spec, parts.timing, parts.is_refused, parts.cut_off
        )
        if (late := await until_listening(asker, deadline_s)) is not None:
            return late
        self._heard(PhaseEvent(Phase.PROBE))
        proof = await until_proven(asker, deadline_s)
        if isinstance(proof, NotReady):
            return proof
        await self._ready(server, run_id, proof)
        while not self._again:
            over, evidence = await first(watch(asker, self._counters, self), self._sleep_wanted())
            if over:
                return evidence
            trouble = await self._nap(asker, server, run_id)
            if trouble is not None:
                return trouble
        return None

    async def _sleep_wanted(self) -> None:
        await self._context.intent.until(
            lambda intent: intent.sleep_wanted and intent.request_id != self._refused_sleep
        )

    async def _nap(
        self, asker: Asker, server: RunningServer, run_id: str
    ) -> NotReady | Message | None:
        """Free the cards until they are wanted again. None = all is well, awake or refused."""
        intent, way = self._context.intent, self._spec.sleep
        request_id = intent.request_id
        fault = _CANNOT_SLEEP if way is None else await put_to_sleep(asker, way)
        if way is None or fault is not None:
            self._refused_sleep = request_id
            self._context.log.say(fault or "")
            self._store.update(sleep_fault=fault)
            return None
        self._store.enter(ServerState.SLEEPING, degraded_reason=None, sleep_fault=None)
        over, evidence = await first(
            watch_asleep(asker), intent.until(lambda wish: not wish.sleep_wanted)
        )
        if over:
            return evidence
        if not way.wake_path:
            self._again = True
            return None
        return await self._wake(asker, way, server, run_id)

    async def _wake(
        self, asker: Asker, way: SleepWay, server: RunningServer, run_id: str
    ) -> NotReady | Message | None:
        self._tracker = PhaseTracker({})
        self._tracker.begin(Phase.WEIGHTS, self._clock.now())
        self._store.enter(ServerState.LOADING, phases=self._tracker.phases)
        if (fault := await wake_up(asker, way)) is not None:
            return fault
        deadline_s = self._clock.monotonic() + self._spec.readiness.load_timeout_s
        proof = await until_proven(asker, deadline_s)
        if isinstance(proof, NotReady):
            return proof
        await self._ready(server, run_id, proof, woken=True)
        return None

    async def _counters(self) -> EngineMetrics | None:
        if self._meter is not None:
            return self._meter.metrics()
        parts = self._context.parts
        return await ask_metrics(
            parts.http, self._spec, self._engine.parse_metrics, parts.timing.request_timeout_s
        )

    def _count(self, line: str) -> None:
        if self._meter is not None and self._meter.feed(line):
            self._store.mark(log_counters=self._meter.metrics().to_counters())

    async def _ready(
        self, server: RunningServer, run_id: str, proof: ProbeResult, *, woken: bool = False
    ) -> None:
        self._output.loading = False
        self._serving_since_s = self._clock.monotonic()
        ready_at_s = self._clock.now()
        self._tracker.begin(Phase.SERVE, ready_at_s)
        if not woken:  # waking says nothing about how long a start takes
            save_timings(
                self._context.layout.timings(self._context.profile_id), self._tracker.durations_s()
            )
        self._store.enter(
            ServerState.READY,
            ready_at_s=ready_at_s,
            phases=self._tracker.phases,
            failure=None,
            degraded_reason=None,
        )
        if self._meter is not None:
            self._store.update(log_counters=self._meter.metrics().to_counters())
        self.probed(proof)
        try:
            self._context.parts.proven()
        except OSError as error:
            self._context.log.say(f"the settings that worked cannot be kept: {error}")
        await self._compare_environment(server.pid)
        await self._note_shared_memory(server, run_id)

    def probed(self, result: ProbeResult) -> None:
        """Count our own tokens, which are no user's."""
        record = self._store.record
        self._store.update(
            probe_prompt_tokens=record.probe_prompt_tokens + result.prompt_tokens,
            probe_generation_tokens=record.probe_generation_tokens + result.generation_tokens,
        )

    def judged(self, verdict: Verdict) -> None:
        """READY or DEGRADED, with the reason."""
        state = ServerState.READY if verdict.degraded is None else ServerState.DEGRADED
        record = self._store.record
        if record.state != state or record.degraded_reason != verdict.degraded:
            self._context.log.say(verdict.degraded or "answers as it should")
            self._store.enter(state, degraded_reason=verdict.degraded)

    async def _conclude(
        self, server: RunningServer, run_id: str, problem: NotReady | Message | None
    ) -> RunEnd:
        """Decide why the race ended. An exit nobody asked for is a crash, code 0 too."""
        since_s = self._serving_since_s
        served_s = None if since_s is None else self._clock.monotonic() - since_s
        await self._note_shared_memory(server, run_id)
        self._output.end()
        if problem is None and self._moved.is_set() and not self._context.intent.stop_wanted:
            problem = _moved_away(self._spec)
        if problem is None and (self._exit is None or self._context.intent.stop_wanted):
            self._stopping()
            grace_s = await self._context.sweeper.stop(server, self._spec, run_id)
            return RunEnd(grace_s=grace_s, again=self._again)
        if self._exit is not None and self._exit.machine_gone:
            return self._left_alone(self._exit, served_s)
        if self._exit is not None:
            await self._look()
            return self._crashed(self._exit, served_s)
        assert problem is not None
        if isinstance(problem, Message):
            text = message("Look at the log for the reason; the server is started again.")
            problem = NotReady(Failure(problem, text), permanent=False)
        self._context.log.say(problem.failure.text)
        grace_s = await self._context.sweeper.stop(server, self._spec, run_id)
        return RunEnd(problem.failure, problem.permanent, served_s, grace_s)

    async def _look(self) -> None:
        """Let the diagnosis see what stands beside the log; a fault of that costs nothing else."""
        context = self._context
        age_s = self._clock.now() - (context.store.record.started_at_s or self._clock.now())
        try:
            await asyncio.wait_for(context.parts.look(max(0.0, age_s)), LOOK_S)
        except Exception as error:  # noqa: BLE001 whatever it raises, the server must be kept
            context.log.say(f"nothing could be seen beside the log: {error!r}")

    def _left_alone(self, status: ExitStatus, served_s: float | None) -> RunEnd:
        """Its Linux went away. Nothing is asked there: that would start it again."""
        failure = _machine_gone()
        self._context.log.say(failure.text)
        self._store.update(last_exit=str(status))
        timing = self._context.parts.timing
        return RunEnd(failure, False, served_s, timing.orphan_grace_s, timing.gone_pause_s)

    def _crashed(self, status: ExitStatus, served_s: float | None) -> RunEnd:
        parts = self._context.parts
        failure = self._output.explain(parts.explain, status, self._context.log)
        self._context.log.say(f"server ended with {status}: {failure.text}")
        self._store.update(last_exit=str(status))
        return RunEnd(failure, parts.is_permanent(failure), served_s, parts.timing.orphan_grace_s)

    def _stopping(self) -> None:
        self._tracker.begin(Phase.STOP, self._clock.now())
        self._store.enter(
            ServerState.STOPPING,
            phases=self._tracker.phases,
            request_id=self._context.intent.carry(),
        )

    def _begin(self, phase: Phase) -> None:
        self._tracker.begin(phase, self._clock.now())
        self._store.update(phases=self._tracker.phases)

    def _read(self, event: PhaseEvent) -> None:
        """A phase told by the log. That it serves is believed only after the proof."""
        if event.port not in (None, self._spec.endpoint.port):
            self._moved.set()
        if event.phase in _LOAD_PHASES:
            self._heard(event)

    def _heard(self, event: PhaseEvent) -> None:
        before = len(self._tracker.phases)
        if not self._tracker.begin(event.phase, self._clock.now(), event.progress):
            return
        if len(self._tracker.phases) == before:
            self._store.mark(phases=self._tracker.phases)
        elif self._store.record.state is ServerState.STARTING:
            self._store.enter(ServerState.LOADING, phases=self._tracker.phases)
        else:
            self._store.update(phases=self._tracker.phases)

    async def _compare_environment(self, pid: int) -> None:
        environ = await self._context.parts.launcher.environment_of(pid)
        if environ is not None:
            self._store.update(environment_mismatch=mismatch(self._spec, environ))

    async def _note_shared_memory(self, server: RunningServer, run_id: str) -> None:
        launcher = self._context.parts.launcher
        if self._exit is not None and self._exit.machine_gone:
            return
        try:
            found = await launcher.survivors(run_id)
        except HostError as error:
            self._context.log.say(f"run {run_id} cannot be looked at: {error}")
            return
        pids = [process.pid for process in found]
        names = set(await launcher.shared_memory_of([server.pid, *pids]))
        known = set(self._store.record.shared_memory)
        if not names <= known:
            self._store.update(shared_memory=tuple(sorted(names | known)))


def _machine_gone() -> Failure:
    return Failure(
        message(
            "WSL went away under the server: it was stopped (wsl --shutdown or --terminate), "
            "updated, or it crashed."
        ),
        message(
            "The server is started again after half a minute. If you did not stop or update WSL, "
            'update it with "wsl --update".'
        ),
        confidence="high",
    )


_CANNOT_SLEEP = message("This server can free the cards only by being stopped.")


def _moved_away(spec: LaunchSpec) -> NotReady:
    """Who answers on the profile's port then is somebody else (tabbyAPI 2026-08, as read)."""
    failure = Failure(
        message("Port {port} was taken meanwhile; the server moved away.", port=spec.endpoint.port),
        message("Stop the other program, or choose another port in the profile."),
        finding_id="port-in-use",
        confidence="certain",
        params=(("port", str(spec.endpoint.port)),),
        fixes=("stop-old-server", "cfg-change-port"),
    )
    return NotReady(failure, permanent=False)


def mismatch(spec: LaunchSpec, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Names whose value in the process is not what was asked for.

    A process without the run id has overwritten its environment (retitling): nothing is known.
    """
    if _RUN_ID_VARIABLE not in environ:
        return ()
    wrong = {name for name, value in spec.env.items() if environ.get(name) != value}
    wrong.update(name for name in spec.unset if name in environ and name not in spec.env)
    return tuple(sorted(wrong))


def failure_of(error: TwinrigError) -> Failure:
    """An expected error as the reason why a server failed."""
    step = error.next_step or message("Correct the cause, then start again.")
    return Failure(
        error.text,
        step,
        error.finding_id,
        confidence="high" if error.finding_id else "",
        permanent=True,
        params=error.params,
        fixes=error.fixes,
    )

"""Keeps a server running as long as it is wanted: run after run, with back-off between them."""

from __future__ import annotations

from dataclasses import replace

from twinrig.domain.errors import HostAwayError, HostError, TwinrigError
from twinrig.domain.launch import LaunchSpec
from twinrig.domain.ports import ProcessInfo
from twinrig.domain.server import ServerState, may_follow
from twinrig.domain.supervision import Failure
from twinrig.engines.base import Engine
from twinrig.messages import message
from twinrig.supervisor.backoff import Backoff
from twinrig.supervisor.context import Context
from twinrig.supervisor.previous_run import PreviousRun
from twinrig.supervisor.run import RunEnd, ServerRun, failure_of
from twinrig.supervisor.waiting import first


class Keeper:
    """From the first wish to STOPPED or FAILED."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._parts = context.parts
        self._store = context.store
        self._backoff = Backoff(context.parts.timing)
        self._unswept: dict[str, tuple[str, ...]] = {}
        self._unreachable: HostError | None = None

    async def keep(self, previous: PreviousRun) -> ServerState:
        """Sweep what an earlier supervisor left, then run until STOPPED or FAILED."""
        if (problem := self._context.intent.problem) is not None:
            return self._failed(failure_of(problem))
        grace_s = self._parts.timing.orphan_grace_s
        resisting = await self._sweep(previous.run_id, previous.shared_memory, grace_s)
        if resisting:
            return self._failed(_cannot_end(resisting))
        while not self._context.intent.stop_wanted:
            end = await self._run_once()
            if (state := await self._after(end)) is not None:
                return state
        return self._ended()

    async def _run_once(self) -> RunEnd:
        if self._unreachable is not None:  # a server of before may still hold the cards
            resisting = await self._sweep("", (), self._parts.timing.orphan_grace_s)
            if resisting:
                return RunEnd(_cannot_end(resisting), permanent=True)
            if self._unreachable is not None:
                return _could_not(self._unreachable)
        run_id = self._parts.make_run_id()
        self._store.enter(
            ServerState.STARTING,
            run_id=run_id,
            request_id=self._context.intent.carry(),
            started_at_s=self._parts.clock.now(),
            ready_at_s=None,
            phases=(),
            next_restart_at_s=None,
            degraded_reason=None,
            probe_prompt_tokens=0,
            probe_generation_tokens=0,
            environment_mismatch=(),
            shared_memory=(),
            dropped_log_lines=0,
            log_counters={},
            sleep_fault=None,
        )
        try:
            done, prepared = await first(self._prepare(), self._context.intent.stopped())
            if not done or prepared is None:
                self._store.enter(ServerState.STOPPING, request_id=self._context.intent.carry())
                return RunEnd()
            engine, spec = prepared
            return await ServerRun(self._context, engine, spec).execute(run_id)
        except TwinrigError as error:
            self._context.log.say(error)
            return _could_not(error)

    async def _prepare(self) -> tuple[Engine, LaunchSpec]:
        profile = self._parts.load_profile(self._context.profile_id)
        engine = self._parts.engine_for(profile)
        self._store.update(target=profile.target, engine_id=profile.engine.id)
        spec = await self._parts.prepare(profile)
        base_url = spec.endpoint.base_url
        self._store.update(
            base_url=base_url,
            metrics_url=base_url + spec.metrics_path if spec.metrics_path else "",
            model_id=spec.model_id,
            log_path=str(self._context.layout.log(profile.id)),
            can_sleep=spec.sleep is not None,
        )
        if await self._parts.port_in_use(spec.endpoint):
            raise HostError(
                message("Port {port} is already in use.", port=spec.endpoint.port),
                message("Stop the other program, or choose another port in the profile."),
                finding_id="port-in-use",
                params=(("port", str(spec.endpoint.port)),),
                fixes=("cfg-change-port",),
            )
        return engine, spec

    async def _after(self, end: RunEnd) -> ServerState | None:
        """Clean up after a run; None = go on with another one."""
        if end.failure is not None:
            self._backoff = replace(self._backoff.after(end.served_s), pause_s=end.pause_s)
            self._tell_down(end.failure, end.permanent or self._backoff.exhausted)
        record = self._store.record
        resisting = await self._sweep(record.run_id, record.shared_memory, end.grace_s)
        self._store.update(server_pid=None)
        if resisting:
            return self._failed(_cannot_end(resisting))
        if end.failure is None:
            again = end.again and not self._context.intent.stop_wanted
            return None if again else self._ended()
        if end.permanent:
            return self._failed(end.failure)
        if self._backoff.exhausted:
            return self._failed(_gave_up(end.failure, self._backoff.quick_failures))
        await self._wait()
        return None

    def _tell_down(self, failure: Failure, final: bool) -> None:
        """Say that it is down before the sweep, which may take its time."""
        if not final:
            self._store.enter(
                ServerState.BACKOFF,
                failure=failure,
                degraded_reason=None,
                restarts=self._store.record.restarts + 1,
                quick_failures=self._backoff.quick_failures,
                next_restart_at_s=self._parts.clock.now() + self._backoff.delay_s,
            )
        elif self._store.record.state is ServerState.READY:
            self._store.enter(ServerState.DEGRADED, degraded_reason=failure.text)

    async def _wait(self) -> None:
        """The rest of the back-off; a stop or a new request ends it at once."""
        wait_s = (self._store.record.next_restart_at_s or 0.0) - self._parts.clock.now()
        await first(
            self._parts.clock.sleep(max(0.0, min(wait_s, self._backoff.delay_s))),
            self._context.intent.until(
                lambda intent: intent.stop_wanted or intent.request_id != intent.carried_id
            ),
        )

    async def _sweep(
        self, run_id: str, shared_memory: tuple[str, ...], grace_s: float
    ) -> tuple[ProcessInfo, ...]:
        """Sweep this run, and those that could not be looked at before; returns what resists."""
        if run_id:
            self._unswept[run_id] = shared_memory
        self._unreachable = None
        for run, names in tuple(self._unswept.items()):
            try:
                resisting = await self._context.sweeper.sweep(run, names, grace_s)
            except HostError as error:
                self._context.log.say(f"run {run} cannot be looked at: {error}")
                self._unreachable = error
                return ()
            if resisting:
                return resisting
            del self._unswept[run]
        return ()

    def _ended(self) -> ServerState:
        """STOPPED, unless nobody can tell what is left of the server."""
        if self._unreachable is None:
            return self._stopped()
        return self._failed(failure_of(self._unreachable))

    def _stopped(self) -> ServerState:
        if not may_follow(self._store.record.state, ServerState.STOPPED):
            self._store.enter(ServerState.STOPPING, request_id=self._context.intent.carry())
        self._store.enter(
            ServerState.STOPPED,
            server_pid=None,
            next_restart_at_s=None,
            degraded_reason=None,
            shared_memory=(),
        )
        return ServerState.STOPPED

    def _failed(self, failure: Failure) -> ServerState:
        self._context.log.say(f"gave up: {failure.text}")
        self._store.enter(
            ServerState.FAILED,
            failure=failure,
            quick_failures=self._backoff.quick_failures,
            next_restart_at_s=None,
            degraded_reason=None,
        )
        return ServerState.FAILED


def _could_not(error: TwinrigError) -> RunEnd:
    """A machine that is away for now is tried again; anything else is final."""
    away = isinstance(error, HostAwayError)
    return RunEnd(replace(failure_of(error), permanent=not away), permanent=not away)


def _gave_up(failure: Failure, count: int) -> Failure:
    text = message(
        "Gave up after {count} failures in a row. The last one: {cause}",
        count=count,
        cause=failure.text,
    )
    return replace(failure, text=text)


def _cannot_end(resisting: tuple[ProcessInfo, ...]) -> Failure:
    pids = ", ".join(str(process.pid) for process in resisting)
    return Failure(
        message("These processes of the server cannot be ended: {pids}.", pids=pids),
        message("Restart the machine (on Windows: restart WSL), then start the server again."),
    )

"""Brings the server of a profile up for a benchmark, and puts back what was there before."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace

from twinrig.domain.errors import ConflictError, HostError, TwinrigError
from twinrig.domain.metrics import EngineMetrics
from twinrig.domain.profile import Profile
from twinrig.domain.server import ACTIVE_STATES, ServerState
from twinrig.domain.supervision import ServerRecord
from twinrig.messages import Message, message
from twinrig.services.bench_note import REQUESTED_BY, STOP_TIMEOUT_S, BenchNote
from twinrig.services.endpoints import Serving, find_serving
from twinrig.services.workbench import Workbench

START_TIMEOUT_S = 3600.0
SCRAPE_TIMEOUT_S = 10.0
_SETTLED = frozenset({ServerState.READY, ServerState.FAILED, ServerState.BACKOFF})


@dataclass(frozen=True)
class Touch:
    """What a benchmark would do to servers. ``asks``: the user must agree to it first."""

    texts: tuple[Message, ...]
    asks: bool


class BenchServer:
    """The server of the target during one benchmark; ``put_back`` restores what ran before."""

    def __init__(self, bench: Workbench) -> None:
        self._bench = bench
        self._before = ""
        self._touched = False

    async def look(self, profiles: tuple[Profile, ...], visits: int) -> Touch:
        """What would happen; nothing is changed."""
        record = await self._active()
        if record is None:
            return Touch((message("The server is started, and stopped again at the end."),), False)
        texts: list[Message] = []
        busy = await self._requests(record)
        if busy:
            texts.append(
                message(
                    "The server of {profile} is answering {count} requests now; they would be "
                    "disturbed, and disturb the figures.",
                    profile=record.profile_id,
                    count=busy,
                )
            )
        restarts = len(profiles) * visits
        if restarts > 1 or await self._must_restart(record, profiles[0]):
            texts.append(
                message(
                    "The running server of {profile} is stopped for it; at the end it is started "
                    "again. Starts in between: {count}.",
                    profile=record.profile_id,
                    count=restarts,
                )
            )
        return Touch(tuple(texts), bool(texts))

    async def bring_up(
        self, profile: Profile, *, fresh: bool, on_record: Callable[[ServerRecord], None]
    ) -> Serving:
        """The profile's server, ready. ``fresh``: started for this, even if it runs already.

        Raises ConflictError for a server that fails to start, HostError when it takes too long.
        """
        controller = self._bench.controller
        record = await self._active()
        if record is not None and not fresh and not await self._must_restart(record, profile):
            return await find_serving(self._bench, profile.id)
        if not self._touched:
            await self._put_aside(record.profile_id if record else "")
        if record is not None:
            await self._stop(record.profile_id)
        await controller.start(profile.id, REQUESTED_BY)
        ready = await controller.wait_for(profile.id, _SETTLED, START_TIMEOUT_S, on_record)
        if ready.state is not ServerState.READY:
            await self._stop(profile.id)
            raise _did_not_get_ready(profile, ready)
        return await find_serving(self._bench, profile.id)

    async def put_back(self) -> None:
        """Let the server run that ran before, or none. Does not wait until it is ready."""
        if not self._touched:
            return
        record = await self._active()
        running = record.profile_id if record else ""
        if running and running != self._before:
            await self._stop(running)
        if self._before and running != self._before:
            await self._bench.controller.start(self._before, REQUESTED_BY)
        await asyncio.to_thread(BenchNote.of(self._bench).remove)

    async def _put_aside(self, before: str) -> None:
        """Remember what ran, on disk too: whoever is killed cannot put it back himself."""
        self._before, self._touched = before, True
        note = BenchNote.of(self._bench)
        try:
            await asyncio.to_thread(note.write, before)
        except OSError as error:
            raise HostError(
                message(
                    "{path} cannot be written: {reason}.",
                    path=str(note.path),
                    reason=error.strerror or "",
                ),
                message("Check free space and the permissions of the folder."),
            ) from error

    async def counters(self, record: ServerRecord) -> EngineMetrics | None:
        """What the server counts itself, now, without the supervisor's own questions; None when it
        does not say."""
        bench = self._bench
        engine = bench.engines.get(record.engine_id)
        try:
            now = await bench.controller.active_record() or record
            if not record.metrics_url:
                told = now.log_counters
                return EngineMetrics.from_counters(told) if told else None
            if engine is None:
                return None
            reply = await bench.http.get(record.metrics_url, timeout_s=SCRAPE_TIMEOUT_S)
        except TwinrigError:
            return None
        if reply.status != 200:
            return None
        counted = engine.parse_metrics(reply.body.decode("utf-8", "replace"))
        if counted.generation_tokens is None:
            return counted
        users = counted.generation_tokens - now.probe_generation_tokens
        return replace(counted, generation_tokens=max(0.0, users))

    async def _active(self) -> ServerRecord | None:
        status = await self._bench.controller.active()
        if status is None or status.record is None or status.record.state not in ACTIVE_STATES:
            return None
        return status.record

    async def _requests(self, record: ServerRecord) -> int:
        counters = await self.counters(record)
        if counters is None:
            return 0
        return round((counters.requests_running or 0) + (counters.requests_waiting or 0))

    async def _must_restart(self, record: ServerRecord, profile: Profile) -> bool:
        """Another server, one that is not ready, or one started before its profile was edited."""
        if record.profile_id != profile.id or record.state is not ServerState.READY:
            return True
        path = self._bench.profiles.path(profile.id)
        try:
            edited_s = (await asyncio.to_thread(path.stat)).st_mtime
        except OSError:
            return False
        return record.started_at_s is not None and edited_s > record.started_at_s

    async def _stop(self, profile_id: str) -> None:
        controller = self._bench.controller
        await controller.stop(profile_id, REQUESTED_BY)
        await controller.wait_for(
            profile_id, frozenset({ServerState.STOPPED, ServerState.FAILED}), STOP_TIMEOUT_S
        )


def refuse(touch: Touch) -> ConflictError:
    """For a benchmark that nobody agreed to."""
    return ConflictError(
        touch.texts[0], message("Agree to it, or measure when nobody needs the server.")
    )


def _did_not_get_ready(profile: Profile, record: ServerRecord) -> TwinrigError:
    failure = record.failure
    if failure is None:
        return HostError(
            message("The server of {profile} did not get ready.", profile=profile.name),
            message("Look into the log of the server."),
        )
    return ConflictError(
        message(
            "The server of {profile} did not get ready: {reason}",
            profile=profile.name,
            reason=failure.text,
        ),
        failure.next_step,
    )

"""One picture a second of both cards and the server, whatever of them exists."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Protocol

from twinrig.domain.errors import TwinrigError
from twinrig.domain.metrics import EngineMetrics, ServerSetup, Snapshot, Throughput
from twinrig.domain.ports import Clock, HttpClient
from twinrig.domain.profile import Profile
from twinrig.domain.server import ServerState
from twinrig.domain.supervision import ServerRecord
from twinrig.engines.base import Engine
from twinrig.services.gpu_sampler import GpuSampler, next_tick_s
from twinrig.services.rates import ProbeTokens, RateMeter

_log = logging.getLogger(__name__)

SCRAPED_STATES = frozenset({ServerState.READY, ServerState.DEGRADED, ServerState.SLEEPING})
SCRAPE_SHARE = 0.8
"""Part of the interval that a scrape may take, so that a slow server delays no picture."""
LAG_SHARE = 0.25
"""Part of the interval by which pictures follow the readings of the cards."""


TokenCost = Callable[[Profile], Awaitable[tuple[float, ...]]]
"""Bytes of KV cache per token on each card, for a profile; empty = not known."""


class StatusSource(Protocol):
    """Tells which server is at work on the target."""

    async def active_record(self) -> ServerRecord | None:
        """The record of the server that runs, starts or just failed; None = there is none."""
        ...


class Monitor:
    """Combines sampler, supervisor's record and metrics endpoint. One consumer at a time."""

    def __init__(
        self,
        sampler: GpuSampler,
        status: StatusSource,
        http: HttpClient,
        engines: Mapping[str, Engine],
        clock: Clock,
        demo: bool = False,
        interval_s: float = 1.0,
        load_profile: Callable[[str], Profile] | None = None,
        token_cost: TokenCost | None = None,
    ) -> None:
        self._sampler = sampler
        self._status = status
        self._http = http
        self._engines = engines
        self._clock = clock
        self._demo = demo
        self._interval_s = interval_s
        self._meter = RateMeter()
        self._record: ServerRecord | None = None
        self._load_profile = load_profile
        self._token_cost = token_cost
        self._setup: tuple[str, ServerSetup | None] = ("", None)
        self._costing: asyncio.Task[None] | None = None

    async def snapshots(self) -> AsyncIterator[Snapshot]:
        """The first almost at once, then one per interval on a fixed grid; late ones are left out.

        Each comes a quarter of an interval after the sampler's reading: at the same instant
        the two would race, and a reading would be shown twice and the next one never.
        The sampler's thread runs while the iterator is open: close it (``aclosing``) when done.
        """
        self._sampler.start()
        try:
            lag_s = self._interval_s * LAG_SHARE
            start_s = self._clock.monotonic() + lag_s
            await self._clock.sleep(lag_s)
            while True:
                yield await self.snapshot()
                now_s = self._clock.monotonic()
                await self._clock.sleep(next_tick_s(start_s, self._interval_s, now_s) - now_s)
        finally:
            if self._costing is not None:
                self._costing.cancel()
            await asyncio.to_thread(self._sampler.stop)

    async def snapshot(self) -> Snapshot:
        """The picture now; takes less than one interval, however slow the server is."""
        throughput = Throughput()
        try:
            async with asyncio.timeout(self._interval_s * SCRAPE_SHARE):
                self._record = await self._status.active_record()
                throughput = await self._throughput(self._record)
        except TimeoutError:
            _log.debug("the server did not tell its metrics in time")
        except TwinrigError as error:
            _log.debug("no metrics: %s", error)
        reading = self._sampler.latest()
        return Snapshot(
            taken_at_s=self._clock.now(),
            demo=self._demo,
            gpus=reading.gpus,
            samples=reading.samples,
            server=self._record,
            throughput=throughput,
            gpu_error=reading.error,
            gpu_next_step=reading.next_step,
            setup=self._setup_of(self._record),
            unplaced_shared_bytes=reading.unplaced_shared_bytes,
        )

    def _setup_of(self, record: ServerRecord | None) -> ServerSetup | None:
        """Read once for each run: a profile that is changed later says nothing about this run."""
        if record is None or self._load_profile is None:
            return None
        run = _run_of(record)
        if self._setup[0] != run:
            try:
                profile = self._load_profile(record.profile_id)
                engine = self._engines.get(record.engine_id)
                self._setup = (run, engine.setup(profile) if engine else None)
                self._begin_costing(run, profile)
            except TwinrigError as error:
                _log.debug("the profile of the running server cannot be read: %s", error)
                self._setup = (run, None)
        return self._setup[1]

    def _begin_costing(self, run: str, profile: Profile) -> None:
        """Reads a model's folder, which may take its time: no picture waits for it."""
        if self._costing is not None:
            self._costing.cancel()
        if self._token_cost is not None:
            self._costing = asyncio.ensure_future(self._cost(run, profile, self._token_cost))

    async def _cost(self, run: str, profile: Profile, ask: TokenCost) -> None:
        try:
            costs = await ask(profile)
        except (TwinrigError, OSError) as error:
            _log.debug("what a token costs is not known: %s", error)
            return
        known, setup = self._setup
        if known == run and setup is not None:
            self._setup = (run, replace(setup, kv_bytes_per_token=costs))

    async def _throughput(self, record: ServerRecord | None) -> Throughput:
        engine = self._engines.get(record.engine_id) if record is not None else None
        if record is None or engine is None or record.state not in SCRAPED_STATES:
            self._meter.reset()
            return Throughput()
        probe = ProbeTokens(record.probe_generation_tokens, record.probe_prompt_tokens)
        if record.log_counters:
            told = EngineMetrics.from_counters(record.log_counters)
            return self._meter.update(
                told, self._clock.monotonic(), probe=probe, run=_run_of(record)
            )
        if not record.metrics_url:
            return Throughput()
        response = await self._http.get(
            record.metrics_url, timeout_s=self._interval_s * SCRAPE_SHARE
        )
        if response.status != 200:
            return Throughput()
        text = response.body.decode("utf-8", "replace")
        return self._meter.update(
            engine.parse_metrics(text), self._clock.monotonic(), probe=probe, run=_run_of(record)
        )


def _run_of(record: ServerRecord) -> str:
    return f"{record.profile_id}/{record.run_id}/{record.restarts}"

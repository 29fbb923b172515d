"""Monitor, HTTP client, engine, demo server and simulated cards together, in real time."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import pytest

from demo_process import demo_process
from twinrig.assets import read_text
from twinrig.domain.metrics import EngineMetrics, Snapshot
from twinrig.domain.server import ServerState
from twinrig.domain.supervision import ServerRecord
from twinrig.engines.registry import load_engines
from twinrig.hosts.clock import SystemClock
from twinrig.hosts.demo.gpus import DemoGpuProbe
from twinrig.hosts.http import HttpxClient
from twinrig.services.gpu_sampler import GpuSampler
from twinrig.services.monitor import Monitor

INTERVAL_S = 0.2
TOKENS = 400


class Running:
    def __init__(self, port: int) -> None:
        self.record = ServerRecord(
            profile_id="one",
            target="demo",
            engine_id="demo",
            run_id="r",
            state=ServerState.READY,
            updated_at_s=0.0,
            supervisor_pid=1,
            metrics_url=f"http://127.0.0.1:{port}/metrics",
        )

    async def active_record(self) -> ServerRecord | None:
        return self.record


async def test_the_integral_of_the_shown_rates_is_the_servers_own_counter(tmp_path: Path) -> None:
    engines, http, clock = load_engines(read_text), HttpxClient(), SystemClock()
    sampler = GpuSampler(lambda: DemoGpuProbe(tmp_path), clock, INTERVAL_S)
    async with demo_process(tmp_path, speed_scale=10.0) as server:
        view = Monitor(
            sampler, Running(server.port), http, engines, clock, demo=True, interval_s=INTERVAL_S
        )

        async def counters() -> EngineMetrics:
            body = (await http.get(f"{server.url}/metrics", timeout_s=5)).body
            return engines["demo"].parse_metrics(body.decode())

        seen: list[Snapshot] = []
        async with contextlib.aclosing(view.snapshots()) as snapshots:
            before = await counters()
            while not seen or seen[-1].throughput.requests_running is None:
                seen.append(await anext(snapshots))  # until the first scrape was in time
            request = asyncio.create_task(
                http.post_json(
                    f"{server.url}/v1/completions",
                    {"prompt": "word " * 100, "max_tokens": TOKENS, "ignore_eos": True},
                    timeout_s=30,
                )
            )
            quiet = 0
            async for snapshot in snapshots:
                seen.append(snapshot)
                quiet = quiet + 1 if request.done() else 0
                if quiet == 2:
                    break
        after = await counters()
        assert (await request).status == 200
    await http.close()
    rates = [snapshot.throughput for snapshot in seen]
    shown = sum((r.generation_tps or 0) * (r.interval_s or 0) for r in rates)
    prompt = sum((r.prompt_tps or 0) * (r.interval_s or 0) for r in rates)
    assert (after.generation_tokens or 0) - (before.generation_tokens or 0) == TOKENS
    assert shown == pytest.approx(TOKENS)
    assert prompt == pytest.approx((after.prompt_tokens or 0) - (before.prompt_tokens or 0))
    busy = [s.samples[0].utilisation_percent or 0 for s in seen if s.samples]
    assert max(busy) >= 60
    assert all(s.demo and all(gpu.simulated for gpu in s.gpus) for s in seen)

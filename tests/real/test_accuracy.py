"""Tokens per second against the server's own counter: bursts, idle, streams at once, a restart.

The monitor is one second's view after the other; over any stretch its rates times their intervals
must be what the server counted, within one percent, and the supervisor's probes are no user's.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field

import pytest

from real.client import counter, settle, stream_chat
from real.rig import Rig, free_port, wait_until
from twinrig.composition.targets import open_workbench
from twinrig.domain.metrics import Snapshot
from twinrig.domain.server import ANSWERING_STATES
from twinrig.hosts.paths import find_paths

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(1200)]

PROFILE = "accurate"
GENERATED = "vllm:generation_tokens_total"
MOST_WRONG = 0.01
AFTER_S = 4.0


@dataclass
class Server:
    rig: Rig
    port: int

    def net(self) -> float:
        """Tokens that users were given, as the server and the supervisor count; settled."""
        return settle(self.port, GENERATED) - self.rig.record(PROFILE)["probe_generation_tokens"]


@dataclass
class Seen:
    """What a monitor showed."""

    shots: list[Snapshot] = field(default_factory=list)

    @property
    def integral(self) -> float:
        speeds = [shot.throughput for shot in self.shots]
        return sum((s.generation_tps or 0.0) * (s.interval_s or 0.0) for s in speeds)

    @property
    def highest(self) -> float:
        return max(shot.throughput.generation_tps or 0.0 for shot in self.shots)


@pytest.fixture(scope="module")
def server(rig: Rig) -> Iterator[Server]:
    port = free_port()
    rig.add_profile(PROFILE, port)
    done = rig.twinrig("start", PROFILE, timeout_s=600)
    assert done.returncode == 0, done.stdout + done.stderr
    stream_chat(port, "tiny", 8)  # the first request after a start may be slow
    yield Server(rig, port)


@asynccontextmanager
async def monitored(rig: Rig) -> AsyncIterator[Seen]:
    """Snapshots from the second rate on, until the work in the body has been counted."""
    bench, seen, rates = open_workbench("local", find_paths(rig.environ)), Seen(), asyncio.Event()

    async def watch() -> None:
        async with aclosing(bench.monitor().snapshots()) as snapshots:
            async for snapshot in snapshots:
                seen.shots.append(snapshot)
                known = [s for s in seen.shots if s.throughput.generation_tps is not None]
                if len(known) >= 2:
                    rates.set()

    task = asyncio.create_task(watch())
    try:
        async with asyncio.timeout(60):
            await rates.wait()
        yield seen
        await asyncio.sleep(AFTER_S)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await bench.http.close()


async def say(server: Server, tokens: int) -> int:
    return await asyncio.to_thread(stream_chat, server.port, "tiny", tokens)


async def bursts(server: Server) -> int:
    """Replies of a few tokens, many within one second, then nothing for a while, again."""
    total = 0
    for _ in range(4):
        total += sum(await asyncio.gather(*(say(server, n) for n in (1, 2, 3, 5, 8, 13))))
        await asyncio.sleep(1.7)
    return total


async def alone(server: Server) -> int:
    return await say(server, 900)


async def together(server: Server) -> int:
    return sum(await asyncio.gather(*(say(server, 400 + 50 * n) for n in range(6))))


async def nothing(_server: Server) -> int:
    await asyncio.sleep(12)
    return 0


@pytest.mark.parametrize("work", [bursts, alone, together, nothing], ids=lambda w: w.__name__)
def test_rates_integrate_to_the_counter(
    server: Server, work: Callable[[Server], Awaitable[int]]
) -> None:
    async def run() -> tuple[Seen, int]:
        async with monitored(server.rig) as seen:
            replied = await work(server)
        return seen, replied

    before = server.net()
    seen, replied = asyncio.run(run())
    counted = server.net() - before
    print(
        f"\n{work.__name__}: counter {counted:.0f}, monitor {seen.integral:.1f}, clients {replied},"
        f" highest {seen.highest:.0f} T/s over {len(seen.shots)} s"
    )
    assert replied == counted
    assert seen.integral == pytest.approx(counted, rel=MOST_WRONG, abs=0.5)
    assert all((s.throughput.generation_tps or 0) >= 0 for s in seen.shots)


def test_a_restart_gives_no_spike_and_no_value_while_it_is_away(server: Server) -> None:
    async def run() -> tuple[Seen, int, float, int]:
        async with monitored(server.rig) as seen:
            first = await together(server)
            await asyncio.sleep(AFTER_S)
            run_id = server.rig.record(PROFILE)["run_id"]
            at = len(seen.shots)
            os.kill(server.rig.record(PROFILE)["server_pid"], signal.SIGKILL)
            await asyncio.to_thread(wait_until, lambda: back(run_id), 420, "READY again")
            await asyncio.sleep(AFTER_S)  # the first look at the new counters
            base = counter(server.port, GENERATED)
            probes = server.rig.record(PROFILE)["probe_generation_tokens"]
            second = await together(server)
        assert base - probes == 0, "nobody else asked it"
        return seen, first, float(at), second

    def back(run_id: str) -> bool:
        record = server.rig.record(PROFILE)
        return record["state"] == "ready" and record["run_id"] != run_id

    seen, first, at, second = asyncio.run(run())
    old, new = Seen(seen.shots[: int(at)]), Seen(seen.shots[int(at) :])
    away = [s for s in seen.shots if s.server and s.server.state not in ANSWERING_STATES]
    print(
        f"\nbefore {first} / {old.integral:.1f}, after {second} / {new.integral:.1f};"
        f" away for {len(away)} readings, highest {old.highest:.0f} then {new.highest:.0f} T/s"
    )
    assert old.integral == pytest.approx(first, rel=MOST_WRONG)
    assert new.integral == pytest.approx(second, rel=MOST_WRONG)
    assert len(away) >= 3
    assert all(shot.throughput.generation_tps is None for shot in away)
    assert new.highest <= 2 * old.highest

"""Monitor: one picture a second, whatever exists, however slow the server is."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable

import pytest

from twinrig.domain.errors import DamagedFileError, GpuUnavailableError, HostError, UsageError
from twinrig.domain.gpu import DriverInfo, GpuInfo, GpuSample
from twinrig.domain.metrics import EngineMetrics, ServerSetup, Throughput
from twinrig.domain.ports import HttpResponse
from twinrig.domain.profile import EngineRef, ModelRef, Profile
from twinrig.domain.server import ServerState
from twinrig.domain.supervision import ServerRecord
from twinrig.messages import message
from twinrig.services.gpu_sampler import GpuSampler
from twinrig.services.monitor import Monitor

INFO = GpuInfo(0, "GPU-a", "Card", 12 << 30)
URL = "http://127.0.0.1:8000/metrics"


class FakeClock:
    """Sleeping moves the time at once; ``sleeps`` keeps what was asked for."""

    def __init__(self) -> None:
        self.time_s = 5000.0
        self.sleeps: list[float] = []

    def now(self) -> float:
        return self.time_s

    def monotonic(self) -> float:
        return self.time_s

    async def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.time_s += seconds
        await asyncio.sleep(0)


class OneCard:
    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock

    def devices(self) -> tuple[GpuInfo, ...]:
        return (INFO,)

    def driver(self) -> DriverInfo:
        return DriverInfo("591.86", (13, 1))

    def sample(self) -> tuple[GpuSample, ...]:
        return (GpuSample("GPU-a", self.clock.now(), utilisation_percent=42),)

    def close(self) -> None: ...


class Status:
    def __init__(self, record: ServerRecord | None) -> None:
        self.record = record
        self.error: Exception | None = None

    async def active_record(self) -> ServerRecord | None:
        if self.error is not None:
            raise self.error
        return self.record


class Http:
    """``answer`` gives the next body, or raises, or hangs."""

    def __init__(self, answer: Callable[[], Awaitable[HttpResponse]]) -> None:
        self.answer = answer
        self.urls: list[str] = []
        self.timeouts: list[float] = []

    async def get(self, url: str, *, timeout_s: float, token: str | None = None) -> HttpResponse:
        self.urls.append(url)
        self.timeouts.append(timeout_s)
        return await self.answer()

    async def post_json(self, *_args: object, **_kw: object) -> HttpResponse:
        raise AssertionError("the monitor only reads")

    def stream_events(self, *_args: object, **_kw: object):
        raise AssertionError("the monitor only reads")

    async def close(self) -> None: ...


class WordsEngine:
    """Metrics body: "GENERATION PROMPT"."""

    def setup(self, profile: Profile) -> ServerSetup:
        return ServerSetup.from_sizes(profile.settings)

    def parse_metrics(self, text: str) -> EngineMetrics:
        generation, prompt = text.split()
        return EngineMetrics(
            generation_tokens=float(generation), prompt_tokens=float(prompt), process_start_s=1.0
        )


def record(state: ServerState = ServerState.READY, **changes: object) -> ServerRecord:
    values: dict[str, object] = {
        "profile_id": "one",
        "target": "local",
        "engine_id": "words",
        "run_id": "r1",
        "state": state,
        "updated_at_s": 1.0,
        "supervisor_pid": 1,
        "metrics_url": URL,
    }
    return ServerRecord(**{**values, **changes})  # type: ignore[arg-type]


def bodies(*texts: str) -> Http:
    queue = list(texts)

    async def answer() -> HttpResponse:
        return HttpResponse(200, queue.pop(0).encode())

    return Http(answer)


def monitor(http: Http, status: Status, clock: FakeClock, **options: object) -> Monitor:
    sampler = GpuSampler(lambda: OneCard(clock), clock)
    sampler.sample_once()
    return Monitor(sampler, status, http, {"words": WordsEngine()}, clock, **options)  # type: ignore[dict-item, arg-type]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


async def test_cards_record_and_rates_come_together(clock) -> None:
    status = Status(record(probe_generation_tokens=8, probe_prompt_tokens=5))
    view = monitor(bodies("100 1000", "141 1500"), status, clock, demo=True)
    first = await view.snapshot()
    clock.time_s += 1.0
    second = await view.snapshot()
    assert first.throughput == Throughput()
    assert second.throughput.generation_tps == pytest.approx(41.0)
    assert second.throughput.prompt_tps == pytest.approx(500.0)
    assert second.server is status.record
    assert second.gpus == (INFO,)
    assert [s.utilisation_percent for s in second.samples] == [42]
    assert second.demo
    assert second.taken_at_s == clock.time_s
    assert second.gpu_error == ""


async def test_probe_tokens_of_the_record_are_subtracted(clock) -> None:
    status = Status(record(probe_generation_tokens=8))
    view = monitor(bodies("100 0", "116 0"), status, clock)
    await view.snapshot()
    clock.time_s += 1.0
    status.record = record(probe_generation_tokens=16)
    assert (await view.snapshot()).throughput.generation_tps == pytest.approx(8.0)


async def test_without_a_server_nothing_is_asked_and_nothing_is_zero(clock) -> None:
    http = bodies()
    snapshot = await monitor(http, Status(None), clock).snapshot()
    assert snapshot.server is None
    assert snapshot.throughput == Throughput()
    assert http.urls == []


@pytest.mark.parametrize(
    ("state", "asked"),
    [
        (ServerState.READY, True),
        (ServerState.DEGRADED, True),
        (ServerState.SLEEPING, True),
        (ServerState.LOADING, False),
        (ServerState.STARTING, False),
        (ServerState.BACKOFF, False),
        (ServerState.STOPPING, False),
        (ServerState.FAILED, False),
    ],
)
async def test_only_a_server_that_can_answer_is_asked(clock, state, asked) -> None:
    http = bodies("1 1")
    await monitor(http, Status(record(state)), clock).snapshot()
    assert http.urls == ([URL] if asked else [])


@pytest.mark.parametrize("changes", [{"metrics_url": ""}, {"engine_id": "gone"}])
async def test_a_server_without_metrics_has_unknown_rates(clock, changes) -> None:
    http = bodies()
    snapshot = await monitor(http, Status(record(**changes)), clock).snapshot()
    assert snapshot.throughput == Throughput()
    assert snapshot.server is not None
    assert http.urls == []


async def test_an_unreachable_server_has_unknown_rates_then_the_mean_of_the_gap(clock) -> None:
    answers: list[HttpResponse | Exception] = [
        HttpResponse(200, b"0 0"),
        HostError(message("Nobody answers.")),
        HttpResponse(503, b"starting"),
        HttpResponse(200, b"90 0"),
    ]

    async def answer() -> HttpResponse:
        result = answers.pop(0)
        if isinstance(result, Exception):
            raise result
        return result

    view = monitor(Http(answer), Status(record()), clock)
    results = []
    for _ in range(4):
        results.append((await view.snapshot()).throughput)
        clock.time_s += 1.0
    assert results[1] == Throughput()
    assert results[2] == Throughput()
    assert (results[3].generation_tps, results[3].interval_s) == (pytest.approx(30.0), 3.0)


async def test_a_hanging_endpoint_does_not_hold_up_the_picture(clock) -> None:
    async def hang() -> HttpResponse:
        await asyncio.Event().wait()
        raise AssertionError

    http = Http(hang)
    view = monitor(http, Status(record()), clock, interval_s=0.05)
    started = time.monotonic()
    snapshot = await view.snapshot()
    assert time.monotonic() - started < 0.5
    assert snapshot.throughput == Throughput()
    assert snapshot.server is not None
    assert [s.utilisation_percent for s in snapshot.samples] == [42]
    assert http.timeouts == [pytest.approx(0.04)]


async def test_a_status_that_cannot_be_read_keeps_the_last_record(clock) -> None:
    status = Status(record(ServerState.LOADING))
    view = monitor(bodies(), status, clock)
    await view.snapshot()
    status.error = DamagedFileError(message("state.json is damaged."))
    assert (await view.snapshot()).server == record(ServerState.LOADING)


async def test_a_restarted_run_is_a_new_measurement(clock) -> None:
    status = Status(record(run_id="r1"))
    view = monitor(bodies("100 0", "500 0", "520 0"), status, clock)
    await view.snapshot()
    status.record = record(run_id="r2")
    clock.time_s += 1.0
    assert (await view.snapshot()).throughput.generation_tps is None
    clock.time_s += 1.0
    assert (await view.snapshot()).throughput.generation_tps == pytest.approx(20.0)


async def test_a_stop_in_between_is_not_averaged_over(clock) -> None:
    status = Status(record())
    view = monitor(bodies("100 0", "200 0"), status, clock)
    await view.snapshot()
    status.record = None
    clock.time_s += 60.0
    await view.snapshot()
    status.record = record()
    clock.time_s += 1.0
    assert (await view.snapshot()).throughput.generation_tps is None


async def test_without_a_card_the_server_is_still_shown(clock) -> None:
    def absent() -> OneCard:
        raise GpuUnavailableError(message("There is no card."), message("Try the demo rig."))

    sampler = GpuSampler(absent, clock)
    sampler.sample_once()
    view = Monitor(sampler, Status(record()), bodies("1 1"), {"words": WordsEngine()}, clock)  # type: ignore[dict-item]
    snapshot = await view.snapshot()
    assert snapshot.samples == ()
    assert snapshot.gpu_error == "There is no card."
    assert snapshot.gpu_next_step == "Try the demo rig."
    assert snapshot.server is not None


async def test_pictures_come_on_a_grid_without_drift_a_quarter_after_the_cards(clock) -> None:
    delays = [0.0, 0.3, 0.75, 0.0]
    times: list[float] = []

    async def slow() -> HttpResponse:
        clock.time_s += delays[len(times)]
        return HttpResponse(200, b"1 1")

    view = monitor(Http(slow), Status(record()), clock)
    start = clock.time_s
    async with contextlib.aclosing(view.snapshots()) as snapshots:
        async for _ in snapshots:
            times.append(clock.time_s - delays[len(times)] - start)
            if len(times) == len(delays):
                break
    assert times == pytest.approx([0.25, 1.25, 2.25, 3.25])


async def test_a_slow_consumer_gets_fresh_pictures_not_a_queue(clock) -> None:
    view = monitor(bodies(*["1 1"] * 9), Status(record()), clock)
    start, times = clock.time_s, []
    async with contextlib.aclosing(view.snapshots()) as snapshots:
        async for snapshot in snapshots:
            times.append(snapshot.taken_at_s - start)
            clock.time_s += 2.5
            if len(times) == 3:
                break
    assert times == pytest.approx([0.25, 3.25, 6.25])


async def test_closing_the_iterator_stops_the_sampler(clock) -> None:
    sampler = GpuSampler(lambda: OneCard(clock), clock)
    view = Monitor(sampler, Status(None), bodies(), {}, clock)
    snapshots = view.snapshots()
    await anext(snapshots)
    assert sampler._thread is not None
    assert sampler._thread.is_alive()
    await snapshots.aclose()
    assert not sampler._thread.is_alive()


def profile_of(**settings: object) -> Profile:
    return Profile("one", "One", "local", EngineRef("words"), ModelRef("/m"), settings=settings)  # type: ignore[arg-type]


async def test_the_setup_of_the_run_is_told_and_read_once(clock) -> None:
    loaded: list[str] = []
    sizes = [2, 1]

    def load(profile_id: str) -> Profile:
        loaded.append(profile_id)
        return profile_of(tensor_parallel_size=sizes.pop(0), max_num_seqs=8)

    status = Status(record())
    view = monitor(bodies("0 0", "1 1", "0 0"), status, clock, load_profile=load)
    assert (await view.snapshot()).setup == ServerSetup(2, 1, 8)
    assert (await view.snapshot()).setup == ServerSetup(2, 1, 8), "edits are for the next run"
    status.record = record(run_id="r2")
    assert (await view.snapshot()).setup == ServerSetup(1, 1, 8)
    assert loaded == ["one", "one"]


async def test_a_profile_that_cannot_be_read_leaves_the_setup_unknown(clock) -> None:
    def load(_profile_id: str) -> Profile:
        raise UsageError(message("There is no such profile."))

    view = monitor(bodies("0 0"), Status(record()), clock, load_profile=load)
    assert (await view.snapshot()).setup is None
    assert (await monitor(bodies("0 0"), Status(record()), clock).snapshot()).setup is None


def test_what_a_profile_leaves_out_is_one_card() -> None:
    assert ServerSetup.from_sizes({}) == ServerSetup(1, 1, None)
    odd = ServerSetup.from_sizes({"tensor_parallel_size": "two", "max_num_seqs": True})
    assert odd == ServerSetup(1, 1, None)


async def test_work_told_at_the_end_of_requests_is_no_rate(clock) -> None:
    """Counters that stand still and then jump would show as idle and as a spike."""
    counters = [0.0, 0.0, 4000.0]
    status = Status(record())
    view = monitor(bodies(), status, clock)
    seen = []
    for count in counters:
        told = EngineMetrics(
            generation_tokens=count,
            last_generation_tps=21.0 if count else None,
            counted_at_end=True,
        )
        status.record = record(metrics_url="", log_counters=told.to_counters())
        seen.append((await view.snapshot()).throughput)
        await clock.sleep(1.0)
    assert [speed.generation_tps for speed in seen] == [None, None, None]
    assert [speed.last_reply_tps for speed in seen] == [None, None, 21.0]

"""GpuSampler: own thread, steady pace, honest about what it does not know."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinrig.domain.errors import GpuUnavailableError, HostError
from twinrig.domain.gpu import DriverInfo, GpuInfo, GpuSample
from twinrig.domain.windows import AdapterMemory, GpuMemoryReading
from twinrig.messages import message
from twinrig.services.gpu_sampler import (
    COUNTERS_RETRY_S,
    REOPEN_DELAYS_S,
    GpuSampler,
    next_tick_s,
)

INFO = GpuInfo(0, "GPU-a", "Card", 12 << 30)
DRIVER = DriverInfo("591.86", (13, 1))
AWAY = GpuUnavailableError(message("The driver is away."), message("Restart."))


class HandClock:
    """Moves only when told."""

    def __init__(self) -> None:
        self.time_s = 1000.0

    def now(self) -> float:
        return self.time_s

    def monotonic(self) -> float:
        return self.time_s

    async def sleep(self, seconds: float) -> None:
        self.time_s += seconds


class RealClock(HandClock):
    """Monotonic time for the tests with a thread."""

    def now(self) -> float:
        import time

        return time.time()

    def monotonic(self) -> float:
        import time

        return time.monotonic()


class FakeProbe:
    def __init__(self, clock: HandClock, read: Callable[[], None] = lambda: None) -> None:
        self.clock = clock
        self.read = read
        self.samples_taken = 0
        self.closed = 0
        self.threads: set[int] = set()

    def devices(self) -> tuple[GpuInfo, ...]:
        self.threads.add(threading.get_ident())
        return (INFO,)

    def driver(self) -> DriverInfo:
        return DRIVER

    def sample(self) -> tuple[GpuSample, ...]:
        self.threads.add(threading.get_ident())
        self.read()
        self.samples_taken += 1
        return (GpuSample("GPU-a", self.clock.now(), utilisation_percent=self.samples_taken),)

    def close(self) -> None:
        self.threads.add(threading.get_ident())
        self.closed += 1


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


def test_before_the_first_round_nothing_is_known(clock) -> None:
    reading = GpuSampler(lambda: FakeProbe(clock), clock).latest()
    assert (reading.gpus, reading.samples, reading.driver, reading.error) == ((), (), None, "")


def test_a_round_reads_cards_driver_and_samples(clock) -> None:
    sampler = GpuSampler(lambda: FakeProbe(clock), clock)
    sampler.sample_once()
    reading = sampler.latest()
    assert reading.gpus == (INFO,)
    assert reading.driver == DRIVER
    assert [s.utilisation_percent for s in reading.samples] == [1]
    assert reading.error == ""
    assert not reading.samples[0].stale


def test_static_facts_are_asked_once(clock) -> None:
    probe = FakeProbe(clock)
    asked = []
    probe.devices = lambda: asked.append(1) or (INFO,)  # type: ignore[method-assign]
    sampler = GpuSampler(lambda: probe, clock)
    for _ in range(3):
        sampler.sample_once()
    assert len(asked) == 1
    assert probe.samples_taken == 3


def test_old_samples_are_stale_even_when_the_thread_hangs_in_the_driver(clock) -> None:
    sampler = GpuSampler(lambda: FakeProbe(clock), clock)
    sampler.sample_once()
    clock.time_s += 2.9
    assert not sampler.latest().samples[0].stale
    clock.time_s += 0.2
    sample = sampler.latest().samples[0]
    assert sample.stale
    assert sample.utilisation_percent == 1


@pytest.mark.parametrize("by_s", [-3600.0, 3600.0])
def test_a_clock_that_is_set_makes_no_reading_old_and_none_young(clock, monkeypatch, by_s) -> None:
    sampler = GpuSampler(lambda: FakeProbe(clock), clock)
    sampler.sample_once()
    monkeypatch.setattr(clock, "now", lambda: clock.time_s + by_s)
    clock.time_s += 2.0
    assert not sampler.latest().samples[0].stale
    clock.time_s += 2.0
    assert sampler.latest().samples[0].stale


def test_without_a_driver_error_and_next_step_are_told(clock) -> None:
    def absent() -> FakeProbe:
        raise AWAY

    sampler = GpuSampler(absent, clock)
    reading = sampler.sample_once()
    assert reading.samples == ()
    assert reading.error == "The driver is away."
    assert reading.next_step == "Restart."


def test_reopening_backs_off_and_success_clears_the_error(clock) -> None:
    attempts: list[float] = []
    state = {"present": False, "broken": False}

    def read() -> None:
        if state["broken"]:
            raise AWAY

    def opener() -> FakeProbe:
        attempts.append(clock.time_s)
        if not state["present"]:
            raise AWAY
        return FakeProbe(clock, read)

    sampler = GpuSampler(opener, clock)
    for _ in range(200):
        sampler.sample_once()
        clock.time_s += 1.0
    gaps = [b - a for a, b in itertools.pairwise(attempts)]
    assert gaps[:6] == list(REOPEN_DELAYS_S)
    assert set(gaps[6:]) <= {REOPEN_DELAYS_S[-1]}
    state["present"] = True
    clock.time_s += REOPEN_DELAYS_S[-1]
    reading = sampler.sample_once()
    assert (reading.error, reading.next_step) == ("", "")
    assert len(reading.samples) == 1
    # After a success the pauses begin small again.
    state["broken"] = True
    sampler.sample_once()
    state["broken"] = False
    before = len(attempts)
    clock.time_s += REOPEN_DELAYS_S[0] - 0.1
    assert sampler.sample_once().error != ""
    assert len(attempts) == before
    clock.time_s += 0.1
    assert sampler.sample_once().error == ""


def test_a_driver_that_goes_away_leaves_the_last_samples_as_stale(clock) -> None:
    state = {"away": False}

    def read() -> None:
        if state["away"]:
            raise AWAY

    probe = FakeProbe(clock, read)
    sampler = GpuSampler(lambda: probe, clock)
    sampler.sample_once()
    state["away"] = True
    reading = sampler.sample_once()
    assert [(s.utilisation_percent, s.stale) for s in reading.samples] == [(1, True)]
    assert reading.gpus == (INFO,)
    assert reading.error == "The driver is away."
    assert probe.closed == 1
    state["away"] = False
    clock.time_s += REOPEN_DELAYS_S[0]
    assert not sampler.sample_once().samples[0].stale


def test_a_bug_in_the_probe_is_reported_not_swallowed_as_idle(clock, caplog) -> None:
    def read() -> None:
        raise ZeroDivisionError("bug")

    sampler = GpuSampler(lambda: FakeProbe(clock, read), clock)
    reading = sampler.sample_once()
    assert reading.error == "The graphics cards could not be read."
    assert reading.samples == ()
    assert "ZeroDivisionError" in caplog.text


def test_a_failing_close_does_not_end_sampling(clock) -> None:
    def read() -> None:
        raise AWAY

    class Sticky(FakeProbe):
        def close(self) -> None:
            raise OSError("library in use")

    sampler = GpuSampler(lambda: Sticky(clock, read), clock)
    assert sampler.sample_once().error == "The driver is away."


def test_the_thread_samples_at_pace_and_owns_every_probe_call() -> None:
    clock = RealClock()
    enough = threading.Event()
    probe = FakeProbe(clock)

    def read() -> None:
        if probe.samples_taken >= 4:
            enough.set()

    probe.read = read
    sampler = GpuSampler(lambda: probe, clock, interval_s=0.01)
    sampler.start()
    sampler.start()  # the second call must not make a second thread
    assert enough.wait(5)
    assert sampler.stop()
    assert probe.closed == 1
    assert len(probe.threads) == 1
    assert threading.get_ident() not in probe.threads
    assert not [t for t in threading.enumerate() if t.name == "gpu-sampler"]
    taken = probe.samples_taken
    assert sampler.stop()
    assert probe.samples_taken == taken


def test_it_can_be_started_again_after_a_stop() -> None:
    clock = RealClock()
    probes: list[FakeProbe] = []
    sampled = threading.Event()

    def opener() -> FakeProbe:
        probes.append(FakeProbe(clock, sampled.set))
        return probes[-1]

    sampler = GpuSampler(opener, clock, interval_s=0.01)
    for count in (1, 2):
        sampled.clear()
        sampler.start()
        assert sampled.wait(5)
        assert sampler.stop()
        assert len(probes) == count
    assert all(probe.closed == 1 for probe in probes)


def test_stop_does_not_wait_for_ever_for_a_hung_driver() -> None:
    clock = RealClock()
    release, entered = threading.Event(), threading.Event()

    def hang() -> None:
        entered.set()
        assert release.wait(10)

    sampler = GpuSampler(lambda: FakeProbe(clock, hang), clock, interval_s=0.01)
    sampler.start()
    assert entered.wait(5)
    assert sampler.latest().samples == ()  # asking never blocks
    assert sampler.stop(timeout_s=0.05) is False
    release.set()
    assert sampler.stop(timeout_s=5)


@given(st.floats(0, 1e6), st.floats(0.01, 60), st.floats(0, 1e5))
def test_ticks_lie_on_the_grid_and_in_the_future(start, interval, passed) -> None:
    now = start + passed
    tick = next_tick_s(start, interval, now)
    number = (tick - start) / interval
    assert number == pytest.approx(round(number), abs=1e-3)
    assert tick >= now - 1e-6
    assert tick <= now + interval + 1e-6


def test_ticks_do_not_drift_and_missed_ones_are_left_out() -> None:
    now, ticks = 0.0, []
    for work_s in (0.2, 0.9, 3.5, 0.1):
        tick = next_tick_s(0.0, 1.0, now + work_s)
        ticks.append(tick)
        now = tick
    assert ticks == [1.0, 2.0, 6.0, 7.0]


# -- Windows' counters -------------------------------------------------------------------------


class Counters:
    """As unkind as Windows: ``error`` is raised, an adapter may be nobody's."""

    def __init__(self, *adapters: AdapterMemory) -> None:
        self.adapters = adapters
        self.error: Exception | None = None
        self.reads = 0

    def read(self) -> GpuMemoryReading:
        self.reads += 1
        if self.error is not None:
            raise self.error
        return GpuMemoryReading(self.adapters, ())


def adapter(uuid: str | None, shared: int | None) -> AdapterMemory:
    return AdapterMemory("0x0:0x1", uuid, 5 << 30, shared)


def test_memory_in_ram_is_told_by_windows_for_each_card() -> None:
    clock = HandClock()
    counters = Counters(adapter("GPU-a", 3 << 30), adapter(None, 1 << 30), adapter(None, None))
    sampler = GpuSampler(lambda: FakeProbe(clock), clock, 1.0, lambda: counters)
    reading = sampler.sample_once()
    assert [s.shared_used_bytes for s in reading.samples] == [3 << 30]
    assert reading.unplaced_shared_bytes == 1 << 30
    counters.adapters = (adapter("GPU-other", 1),)
    reading = sampler.sample_once()
    assert [s.shared_used_bytes for s in reading.samples] == [None], "unknown is not zero"
    assert reading.unplaced_shared_bytes is None


def test_windows_without_counters_costs_nothing_else() -> None:
    clock, counters = HandClock(), Counters(adapter("GPU-a", 3 << 30))
    counters.error = HostError(message("There are no Windows counters on this system."))
    sampler = GpuSampler(lambda: FakeProbe(clock), clock, 1.0, lambda: counters)
    for _ in range(5):
        reading = sampler.sample_once()
        clock.time_s += 1
    assert reading.error == "" and reading.samples[0].shared_used_bytes is None
    assert counters.reads == 1, "not asked again each second"
    counters.error = None
    clock.time_s += COUNTERS_RETRY_S
    assert sampler.sample_once().samples[0].shared_used_bytes == 3 << 30


# -- what costs more ---------------------------------------------------------------------------


class Detailed(FakeProbe):
    asked = 0

    def detailed(self, samples: tuple[GpuSample, ...]) -> tuple[GpuSample, ...]:
        self.asked += 1
        return tuple(replace(sample, energy_j=7.0) for sample in samples)


@pytest.mark.parametrize(("wanted", "energy_j"), [(False, None), (True, 7.0)])
def test_details_are_read_only_when_wanted(wanted: bool, energy_j: float | None) -> None:
    clock = HandClock()
    probe = Detailed(clock)
    sampler = GpuSampler(lambda: probe, clock, 1.0, detailed=wanted)
    assert [s.energy_j for s in sampler.sample_once().samples] == [energy_j]
    assert probe.asked == int(wanted)

"""Reads the cards at a steady pace on a thread of its own: NVML may stall, nobody else must."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace

from twinrig.domain.errors import TwinrigError
from twinrig.domain.gpu import DriverInfo, GpuInfo, GpuSample
from twinrig.domain.ports import Clock, GpuProbe
from twinrig.domain.windows import GpuMemoryReading, WindowsCounters
from twinrig.messages import N_

_log = logging.getLogger(__name__)

REOPEN_DELAYS_S = (2.0, 4.0, 8.0, 16.0, 32.0, 60.0)
STALE_AFTER_INTERVALS = 3.0
COUNTERS_RETRY_S = 60.0
"""Windows that does not offer its counters now is asked again after so long."""


@dataclass(frozen=True)
class GpuReading:
    """The last reading. ``error`` and ``next_step`` are marked sentences, "" when all is well.

    With an error there may still be samples: the last good ones, marked stale.
    ``unplaced_shared_bytes`` as in ``Snapshot``.
    """

    gpus: tuple[GpuInfo, ...] = ()
    samples: tuple[GpuSample, ...] = ()
    driver: DriverInfo | None = None
    error: str = ""
    next_step: str = ""
    unplaced_shared_bytes: int | None = None


def next_tick_s(start_s: float, interval_s: float, now_s: float) -> float:
    """First time after ``now_s`` on the grid ``start_s + n * interval_s``: no drift, no bursts."""
    passed = int((now_s - start_s) // interval_s) + 1
    return start_s + max(passed, 1) * interval_s


class GpuSampler:
    """Owner of the probe and its thread. ``latest`` may be called from any thread, any time.

    ``open_counters``: on Windows, what NVML cannot tell there (memory that lies in system RAM).
    ``detailed``: with PCIe traffic and energy, which cost the driver up to 0.1 s for two cards.
    """

    def __init__(
        self,
        open_probe: Callable[[], GpuProbe],
        clock: Clock,
        interval_s: float = 1.0,
        open_counters: Callable[[], WindowsCounters] | None = None,
        detailed: bool = False,
    ) -> None:
        self._open_probe = open_probe
        self._open_counters = open_counters
        self._detailed = detailed
        self._counters: WindowsCounters | None = None
        self._counters_at_s = clock.monotonic()
        self._clock = clock
        self._interval_s = max(interval_s, 0.01)
        self._reading = GpuReading()
        self._read_at_s = self._clock.monotonic()
        self._probe: GpuProbe | None = None
        self._failures = 0
        self._retry_at_s = 0.0
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin sampling; nothing happens when it runs already."""
        if self._thread is not None and self._thread.is_alive():
            return
        self._stop = threading.Event()
        self._thread = threading.Thread(
            target=self._run, args=(self._stop,), name="gpu-sampler", daemon=True
        )
        self._thread.start()

    def stop(self, timeout_s: float = 5.0) -> bool:
        """End sampling and wait for the thread; False when a driver call did not return in time.

        The thread gives the library back itself, then or later. Safe to call twice.
        """
        self._stop.set()
        thread = self._thread
        if thread is None:
            return True
        thread.join(timeout_s)
        return not thread.is_alive()

    def latest(self) -> GpuReading:
        """The last reading; its samples are marked stale when it is older than three intervals.

        Its age is monotonic: a clock that is set makes no reading old, and none young.
        """
        reading = self._reading
        age_s = self._clock.monotonic() - self._read_at_s
        if age_s <= STALE_AFTER_INTERVALS * self._interval_s:
            return reading
        return replace(reading, samples=tuple(replace(s, stale=True) for s in reading.samples))

    def sample_once(self) -> GpuReading:
        """One round: open the probe if needed and due, read the cards, keep the reading.

        For the sampler's own thread, and for callers that have no thread running.
        """
        if self._probe is None and self._clock.monotonic() < self._retry_at_s:
            return self._reading
        try:
            self._reading = self._read()
            self._read_at_s = self._clock.monotonic()
            self._failures = 0
        except TwinrigError as error:
            step = error.next_step.msgid if error.next_step else ""
            self._fail(error.text.msgid, step)
        except Exception:  # noqa: BLE001 - the edge of a thread: a dead sampler would look idle
            _log.exception("reading the graphics cards failed unexpectedly")
            self._fail(
                N_("The graphics cards could not be read."),
                N_("Look into the log file of Twinrig for the cause."),
            )
        return self._reading

    def _read(self) -> GpuReading:
        if self._probe is None:
            probe = self._open_probe()
            self._probe = probe
            self._reading = GpuReading(probe.devices(), (), probe.driver())
        samples = self._probe.sample()
        if self._detailed:
            samples = self._probe.detailed(samples)
        told = self._windows_memory()
        if told is not None:
            samples = tuple(_with_shared(sample, told) for sample in samples)
        return replace(
            self._reading,
            samples=samples,
            error="",
            next_step="",
            unplaced_shared_bytes=None if told is None else _unplaced(told),
        )

    def _windows_memory(self) -> GpuMemoryReading | None:
        """None where Windows does not tell; that is no fault of the cards."""
        if self._open_counters is None or self._clock.monotonic() < self._counters_at_s:
            return None
        try:
            if self._counters is None:
                self._counters = self._open_counters()
            return self._counters.read()
        except TwinrigError as error:
            _log.info("no counters of Windows: %s", error)
            self._counters = None
            self._counters_at_s = self._clock.monotonic() + COUNTERS_RETRY_S
            return None

    def _fail(self, error: str, next_step: str) -> None:
        self._close()
        delay_s = REOPEN_DELAYS_S[min(self._failures, len(REOPEN_DELAYS_S) - 1)]
        self._failures += 1
        self._retry_at_s = self._clock.monotonic() + delay_s
        stale = tuple(replace(sample, stale=True) for sample in self._reading.samples)
        self._reading = replace(self._reading, samples=stale, error=error, next_step=next_step)

    def _close(self) -> None:
        probe, self._probe = self._probe, None
        if probe is None:
            return
        try:
            probe.close()
        except Exception:  # noqa: BLE001 - a driver in trouble must not end the thread
            _log.exception("closing the graphics library failed")

    def _run(self, stop: threading.Event) -> None:
        start_s = self._clock.monotonic()
        while not stop.is_set():
            self.sample_once()
            now_s = self._clock.monotonic()
            stop.wait(next_tick_s(start_s, self._interval_s, now_s) - now_s)
        self._close()


def _with_shared(sample: GpuSample, told: GpuMemoryReading) -> GpuSample:
    return replace(sample, shared_used_bytes=told.shared_bytes_of(sample.uuid))


def _unplaced(told: GpuMemoryReading) -> int | None:
    """What lies in RAM for adapters that are no card we know; None = nobody says so."""
    known = [
        adapter.shared_bytes
        for adapter in told.adapters
        if adapter.card_uuid is None and adapter.shared_bytes is not None
    ]
    return sum(known) if known else None

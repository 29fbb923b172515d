"""NvmlProbe against a stand-in for pynvml that is as awkward as the real one.

The stand-in keeps the real library's error codes and class tree, its plain-integer answers in
milliwatts, its "not available" values and its refusal of every call before nvmlInit.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pynvml as real
import pytest

from twinrig.domain.errors import GpuUnavailableError
from twinrig.domain.gpu import DriverInfo
from twinrig.hosts.nvml import (
    REOPEN_DELAYS_S,
    THROTTLE_WORDS,
    NvmlProbe,
    throttle_words,
)

GIB = 1024**3
NOT_SUPPORTED = real.NVMLError(real.NVML_ERROR_NOT_SUPPORTED)


def lost() -> Exception:
    return real.NVMLError(real.NVML_ERROR_GPU_IS_LOST)


class Struct:
    def __init__(self, **fields: int) -> None:
        self.__dict__.update(fields)


class Handle:
    """Handles belong to one nvmlInit; a later session does not know them."""

    def __init__(self, index: int, session: int) -> None:
        self.index = index
        self.session = session


RESERVE = 615 * 1024 * 1024


class FakeNvml:
    """Shape of the pynvml module. ``answers`` overrides a function: a value, or an exception."""

    def __init__(self, cards: int = 2) -> None:
        self.cards = cards
        self.answers: dict[str, Any] = {}
        self.per_card: dict[tuple[str, int], Any] = {}
        self.calls: list[str] = []
        self.session = 0
        self.open = 0
        self.init_error: Exception | None = None
        self.missing: set[str] = set()
        self.old_driver = False

    def __getattr__(self, name: str) -> Any:
        if name in self.__dict__.get("missing", ()) or not hasattr(real, name):
            raise AttributeError(name)
        value = getattr(real, name)
        if not name.startswith("nvml") or not callable(value):
            return value
        if name.startswith("nvmlClocks"):
            return value
        return lambda *args: self._call(name, *args)

    def nvmlInit(self) -> None:
        if self.init_error is not None:
            raise self.init_error
        self.open += 1
        self.session += 1

    def nvmlShutdown(self) -> None:
        if not self.open:
            raise real.NVMLError(real.NVML_ERROR_UNINITIALIZED)
        self.open -= 1

    def _call(self, name: str, *args: Any) -> Any:
        self.calls.append(name)
        if not self.open:
            raise real.NVMLError(real.NVML_ERROR_UNINITIALIZED)
        index = 0
        if args and isinstance(args[0], Handle):
            if args[0].session != self.session:
                raise real.NVMLError(real.NVML_ERROR_INVALID_ARGUMENT)
            index = args[0].index
        elif name == "nvmlDeviceGetHandleByIndex":
            index = args[0]
        answer = self.per_card.get((name, index), self.answers.get(name, DEFAULTS.get(name)))
        if isinstance(answer, Exception):
            raise answer
        if name == "nvmlDeviceGetHandleByIndex":
            return Handle(index, self.session)
        if name == "nvmlDeviceGetCount":
            return self.cards
        if answer is None:
            raise NOT_SUPPORTED
        if name == "nvmlDeviceGetMemoryInfo" and len(args) > 1 and name not in self.answers:
            return self._memory_v2(index, answer)
        return answer(index) if callable(answer) else answer

    def _memory_v2(self, index: int, answer: Any) -> Struct:
        """As the driver does: version 2 leaves the driver's reserve out of "used"."""
        if self.old_driver:
            raise real.NVMLError(real.NVML_ERROR_FUNCTION_NOT_FOUND)
        memory = answer(index)
        return Struct(total=memory.total, reserved=RESERVE, used=memory.used - RESERVE)


DEFAULTS: dict[str, Any] = {
    "nvmlSystemGetDriverVersion": "591.86",
    "nvmlSystemGetCudaDriverVersion_v2": 13010,
    "nvmlDeviceGetUUID": lambda index: f"GPU-000{index}",
    "nvmlDeviceGetName": "NVIDIA GeForce RTX 5070",
    "nvmlDeviceGetMemoryInfo": lambda index: Struct(
        total=12 * GIB, free=10 * GIB, used=(2 - index) * GIB
    ),
    "nvmlDeviceGetCudaComputeCapability": (12, 0),
    "nvmlDeviceGetMaxPcieLinkGeneration": 5,
    "nvmlDeviceGetMaxPcieLinkWidth": 16,
    "nvmlDeviceGetEnforcedPowerLimit": 250000,
    "nvmlDeviceGetUtilizationRates": Struct(gpu=67, memory=40),
    "nvmlDeviceGetPowerUsage": 151234,
    "nvmlDeviceGetTemperatureV": 61,
    "nvmlDeviceGetClockInfo": 2790,
    "nvmlDeviceGetCurrPcieLinkGeneration": 4,
    "nvmlDeviceGetCurrPcieLinkWidth": 8,
    "nvmlDeviceGetCurrentClocksEventReasons": 0x4 | 0x20,
}


class HandClock:
    def __init__(self) -> None:
        self.time_s = 100.0

    def __call__(self) -> float:
        return self.time_s


@pytest.fixture
def nvml() -> FakeNvml:
    return FakeNvml()


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


def test_static_facts(nvml, clock) -> None:
    probe = NvmlProbe(nvml, clock)
    first, second = probe.devices()
    assert (first.index, first.uuid, first.name) == (0, "GPU-0000", "NVIDIA GeForce RTX 5070")
    assert second.uuid == "GPU-0001"
    assert first.memory_total_bytes == 12 * GIB
    assert first.compute_capability == (12, 0)
    assert (first.pcie_generation_max, first.pcie_width_max) == (5, 16)
    assert first.power_limit_w == 250.0
    assert first.simulated is False
    assert probe.driver() == DriverInfo("591.86", (13, 1))


def test_a_full_sample(nvml, clock) -> None:
    sample = NvmlProbe(nvml, clock).sample()[1]
    assert sample.uuid == "GPU-0001"
    assert sample.taken_at_s == 100.0
    assert sample.utilisation_percent == 67
    assert sample.memory_used_bytes == 1 * GIB - RESERVE
    assert sample.memory_total_bytes == 12 * GIB
    assert sample.power_w == pytest.approx(151.234)
    assert sample.power_limit_w == 250.0
    assert sample.temperature_c == 61
    assert sample.clock_sm_mhz == 2790
    assert (sample.pcie_generation, sample.pcie_width) == (4, 8)
    assert sample.throttle_reasons == ("software power cap", "software thermal slowdown")
    assert sample.stale is False


def test_old_releases_return_bytes(nvml, clock) -> None:
    nvml.answers["nvmlDeviceGetUUID"] = lambda index: f"GPU-{index}".encode()
    nvml.answers["nvmlDeviceGetName"] = b"NVIDIA GeForce RTX 3090"
    nvml.answers["nvmlSystemGetDriverVersion"] = b"580.95"
    probe = NvmlProbe(nvml, clock)
    assert [card.uuid for card in probe.devices()] == ["GPU-0", "GPU-1"]
    assert probe.devices()[0].name == "NVIDIA GeForce RTX 3090"
    assert probe.driver().driver_version == "580.95"


FIELDS = {
    "nvmlDeviceGetUtilizationRates": "utilisation_percent",
    "nvmlDeviceGetMemoryInfo": "memory_used_bytes",
    "nvmlDeviceGetPowerUsage": "power_w",
    "nvmlDeviceGetEnforcedPowerLimit": "power_limit_w",
    "nvmlDeviceGetTemperatureV": "temperature_c",
    "nvmlDeviceGetClockInfo": "clock_sm_mhz",
    "nvmlDeviceGetCurrPcieLinkGeneration": "pcie_generation",
    "nvmlDeviceGetCurrPcieLinkWidth": "pcie_width",
    "nvmlDeviceGetCurrentClocksEventReasons": "throttle_reasons",
}
CODES = [
    real.NVML_ERROR_NOT_SUPPORTED,
    real.NVML_ERROR_NO_PERMISSION,
    real.NVML_ERROR_UNKNOWN,
    real.NVML_ERROR_TIMEOUT,
    real.NVML_ERROR_FUNCTION_NOT_FOUND,
    real.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
]


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize(("function", "field"), FIELDS.items())
def test_one_refused_call_costs_one_field_only(nvml, clock, function, field, code) -> None:
    nvml.answers[function] = real.NVMLError(code)
    sample = NvmlProbe(nvml, clock).sample()[0]
    unknown = {name for name in FIELDS.values() if getattr(sample, name) is None}
    assert unknown == {field}
    assert sample.stale is False


@pytest.mark.parametrize(
    ("function", "value", "field"),
    [
        ("nvmlDeviceGetPowerUsage", 0xFFFFFFFF, "power_w"),
        ("nvmlDeviceGetTemperatureV", 0xFFFFFFFF, "temperature_c"),
        ("nvmlDeviceGetClockInfo", 0xFFFFFFFF, "clock_sm_mhz"),
        ("nvmlDeviceGetUtilizationRates", Struct(gpu=0xFFFFFFFF, memory=0), "utilisation_percent"),
        ("nvmlDeviceGetUtilizationRates", Struct(gpu=101, memory=0), "utilisation_percent"),
        ("nvmlDeviceGetMemoryInfo", Struct(total=2**64 - 1, used=2**64 - 1), "memory_used_bytes"),
        ("nvmlDeviceGetMemoryInfo", Struct(total=None, used=None), "memory_used_bytes"),
        ("nvmlDeviceGetCurrentClocksEventReasons", 2**64 - 1, "throttle_reasons"),
    ],
)
def test_values_that_mean_not_available(nvml, clock, function, value, field) -> None:
    nvml.answers[function] = value
    assert getattr(NvmlProbe(nvml, clock).sample()[0], field) is None


def test_a_real_zero_stays_zero(nvml, clock) -> None:
    nvml.answers["nvmlDeviceGetUtilizationRates"] = Struct(gpu=0, memory=0)
    nvml.answers["nvmlDeviceGetCurrentClocksEventReasons"] = 0
    sample = NvmlProbe(nvml, clock).sample()[0]
    assert sample.utilisation_percent == 0
    assert sample.throttle_reasons == ()


def test_names_that_a_release_lacks_fall_back(nvml, clock) -> None:
    nvml.missing = {
        "nvmlDeviceGetTemperatureV",
        "nvmlDeviceGetCurrentClocksEventReasons",
        "nvmlSystemGetCudaDriverVersion_v2",
    }
    nvml.answers["nvmlDeviceGetTemperature"] = 55
    nvml.answers["nvmlDeviceGetCurrentClocksThrottleReasons"] = 0x40
    nvml.answers["nvmlSystemGetCudaDriverVersion"] = 12080
    probe = NvmlProbe(nvml, clock)
    sample = probe.sample()[0]
    assert sample.temperature_c == 55
    assert sample.throttle_reasons == ("hardware thermal slowdown",)
    assert probe.driver().cuda_version == (12, 8)


def test_a_card_without_any_static_fact_still_is_a_card(nvml, clock) -> None:
    for name in list(DEFAULTS):
        if name.startswith(("nvmlDevice", "nvmlSystem")):
            nvml.answers[name] = NOT_SUPPORTED
    del nvml.answers["nvmlDeviceGetUUID"]
    probe = NvmlProbe(nvml, clock)
    card = probe.devices()[0]
    assert (card.uuid, card.name, card.memory_total_bytes) == ("GPU-0000", "NVIDIA GPU", None)
    assert card.compute_capability is None
    assert probe.driver() == DriverInfo(None, None)
    assert probe.sample()[0].utilisation_percent is None


def test_static_facts_and_handles_are_asked_once(nvml, clock) -> None:
    probe = NvmlProbe(nvml, clock)
    nvml.calls.clear()
    for _ in range(10):
        probe.sample()
    once = {"nvmlDeviceGetName", "nvmlDeviceGetUUID", "nvmlDeviceGetHandleByIndex"}
    assert not once.intersection(nvml.calls)
    expensive = {"nvmlDeviceGetPcieThroughput", "nvmlDeviceGetTotalEnergyConsumption"}
    assert not expensive.intersection(nvml.calls)
    assert len(nvml.calls) == 10 * 2 * len(FIELDS)


@pytest.mark.parametrize("code", [real.NVML_ERROR_GPU_IS_LOST, real.NVML_ERROR_RESET_REQUIRED])
def test_a_lost_card_repeats_its_last_sample_and_the_other_lives_on(nvml, clock, code) -> None:
    probe = NvmlProbe(nvml, clock)
    before = probe.sample()
    nvml.per_card["nvmlDeviceGetPowerUsage", 1] = real.NVMLError(code)
    clock.time_s += 1.0
    first, second = probe.sample()
    assert (first.stale, first.taken_at_s) == (False, 101.0)
    assert second.stale
    assert second.taken_at_s == before[1].taken_at_s
    assert second.power_w == before[1].power_w


def test_a_card_lost_before_its_first_sample_is_all_unknown(nvml, clock) -> None:
    probe = NvmlProbe(nvml, clock)
    nvml.per_card["nvmlDeviceGetMemoryInfo", 0] = lost()
    sample = probe.sample()[0]
    assert sample.stale
    assert sample.utilisation_percent is None
    assert sample.memory_used_bytes is None


def test_a_lost_card_is_not_pestered(nvml, clock) -> None:
    probe = NvmlProbe(nvml, clock)
    probe.sample()
    nvml.per_card["nvmlDeviceGetMemoryInfo", 1] = lost()
    nvml.calls.clear()
    probe.sample()
    assert len(nvml.calls) == len(FIELDS) + 1  # the first card whole, the second until it failed
    nvml.calls.clear()
    clock.time_s += REOPEN_DELAYS_S[0] / 2
    probe.sample()
    assert len(nvml.calls) == len(FIELDS)
    assert nvml.session == 1


def test_the_library_is_opened_anew_and_the_card_comes_back(nvml, clock) -> None:
    probe = NvmlProbe(nvml, clock)
    probe.sample()
    nvml.per_card["nvmlDeviceGetMemoryInfo", 1] = lost()
    probe.sample()
    nvml.per_card.clear()
    clock.time_s += REOPEN_DELAYS_S[0]
    samples = probe.sample()
    assert nvml.session == 2
    assert nvml.open == 1
    assert [s.stale for s in samples] == [False, False]
    assert [s.taken_at_s for s in samples] == [clock.time_s, clock.time_s]


@pytest.mark.parametrize("gone", ["handle-refused", "count-fell", "reading-only"])
def test_a_card_that_stays_lost_stays_in_the_list_with_growing_pauses(nvml, clock, gone) -> None:
    probe = NvmlProbe(nvml, clock)
    probe.sample()
    nvml.per_card["nvmlDeviceGetPowerUsage", 1] = lost()
    if gone == "handle-refused":
        nvml.per_card["nvmlDeviceGetHandleByIndex", 1] = lost()
    elif gone == "count-fell":
        nvml.cards = 1
    sessions: list[tuple[float, int]] = []
    for _ in range(400):
        samples = probe.sample()
        assert [s.uuid for s in samples] == ["GPU-0000", "GPU-0001"]
        assert [s.stale for s in samples] == [False, True]
        if not sessions or sessions[-1][1] != nvml.session:
            sessions.append((clock.time_s, nvml.session))
        clock.time_s += 1.0
    pauses = [b[0] - a[0] for a, b in itertools.pairwise(sessions[1:])]
    assert pauses[:4] == [2.0, 5.0, 10.0, 30.0]
    assert set(pauses[4:]) == {60.0}
    nvml.per_card.clear()
    nvml.cards = 2
    clock.time_s += 60
    assert [s.stale for s in probe.sample()] == [False, False]
    assert [c.uuid for c in probe.devices()] == ["GPU-0000", "GPU-0001"]


def test_a_driver_that_unloads_is_told_and_comes_back(nvml, clock) -> None:
    probe = NvmlProbe(nvml, clock)
    probe.sample()
    nvml.open = 0  # as after a driver update: every call says "uninitialized"
    nvml.init_error = real.NVMLError(real.NVML_ERROR_DRIVER_NOT_LOADED)
    assert [s.stale for s in probe.sample()] == [True, True]
    clock.time_s += REOPEN_DELAYS_S[0]
    with pytest.raises(GpuUnavailableError, match="installed but does not run"):
        probe.sample()
    assert [s.stale for s in probe.sample()] == [True, True]  # not due again yet
    nvml.init_error = None
    clock.time_s += REOPEN_DELAYS_S[-1]
    assert [s.stale for s in probe.sample()] == [False, False]


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (real.NVML_ERROR_LIBRARY_NOT_FOUND, "This computer has no NVIDIA driver library."),
        (real.NVML_ERROR_DRIVER_NOT_LOADED, "The NVIDIA driver is installed but does not run."),
        (
            real.NVML_ERROR_LIB_RM_VERSION_MISMATCH,
            "The NVIDIA driver and its library have different versions.",
        ),
        (real.NVML_ERROR_NO_PERMISSION, "This user may not read the graphics cards."),
        (real.NVML_ERROR_UNKNOWN, "The NVIDIA driver does not answer."),
        (4242, "The NVIDIA driver does not answer."),
    ],
)
def test_each_reason_for_no_library_has_its_next_step(nvml, clock, code, text) -> None:
    nvml.init_error = real.NVMLError(code)
    with pytest.raises(GpuUnavailableError) as caught:
        NvmlProbe(nvml, clock)
    assert str(caught.value.text) == text
    assert caught.value.next_step is not None
    assert caught.value.text.params == {}  # the sampler passes the sentence on as text


def test_a_library_that_cannot_be_loaded_at_all(nvml, clock) -> None:
    nvml.init_error = OSError("cannot load")
    with pytest.raises(GpuUnavailableError, match="no NVIDIA driver library"):
        NvmlProbe(nvml, clock)


def test_no_card_is_an_error_and_closes_the_library(nvml, clock) -> None:
    nvml.cards = 0
    with pytest.raises(GpuUnavailableError, match="sees no graphics card"):
        NvmlProbe(nvml, clock)
    assert nvml.open == 0


def test_a_failing_count_closes_the_library(nvml, clock) -> None:
    nvml.answers["nvmlDeviceGetCount"] = real.NVMLError(real.NVML_ERROR_UNKNOWN)
    with pytest.raises(GpuUnavailableError):
        NvmlProbe(nvml, clock)
    assert nvml.open == 0


def test_close_twice(nvml, clock) -> None:
    probe = NvmlProbe(nvml, clock)
    probe.close()
    probe.close()
    assert nvml.open == 0


def test_close_never_raises(nvml, clock) -> None:
    probe = NvmlProbe(nvml, clock)
    nvml.open = 0
    probe.close()


def test_throttle_words_cover_the_real_constants() -> None:
    known = {
        value
        for name, value in vars(real).items()
        if name.startswith(("nvmlClocksEventReason", "nvmlClocksThrottleReason"))
        and isinstance(value, int)
        and value.bit_count() == 1
    }
    assert known <= set(THROTTLE_WORDS)


@pytest.mark.parametrize(
    ("bits", "words"),
    [
        (0, ()),
        (1, ("idle",)),
        (0x8 | 0x80, ("hardware slowdown", "hardware power brake")),
        (0x4 | 1 << 20, ("software power cap", "0x100000")),
    ],
)
def test_throttle_words(bits: int, words: tuple[str, ...]) -> None:
    assert throttle_words(bits) == words


def test_the_real_library_exists_and_speaks_of_a_missing_driver_or_works() -> None:
    calls: Callable[[], NvmlProbe] = NvmlProbe
    try:
        probe = calls()
    except GpuUnavailableError as error:
        assert error.next_step is not None
    else:
        assert probe.devices()
        probe.close()


def test_memory_in_use_is_what_nvidia_smi_says(nvml, clock) -> None:
    sample = NvmlProbe(nvml, clock).sample()[0]
    assert sample.memory_used_bytes == 2 * GIB - RESERVE
    assert sample.memory_total_bytes == 12 * GIB


def test_an_old_driver_is_asked_the_old_way_and_only_once_the_new(nvml, clock) -> None:
    nvml.old_driver = True
    probe = NvmlProbe(nvml, clock)
    assert [s.memory_used_bytes for s in probe.sample()] == [2 * GIB, GIB]
    before = nvml.calls.count("nvmlDeviceGetMemoryInfo")
    probe.sample()
    assert nvml.calls.count("nvmlDeviceGetMemoryInfo") - before == 2


def test_place_on_the_bus_and_display_of_each_card() -> None:
    fake = FakeNvml()
    fake.per_card["nvmlDeviceGetPciInfo", 0] = Struct(busId=b"00000000:01:00.0")  # type: ignore[arg-type]
    fake.per_card["nvmlDeviceGetPciInfo", 1] = NOT_SUPPORTED
    fake.per_card["nvmlDeviceGetDisplayActive", 0] = 1
    fake.per_card["nvmlDeviceGetDisplayActive", 1] = NOT_SUPPORTED
    first, second = NvmlProbe(fake).places()

    assert (first.pci_bus_id, first.display) == ("00000000:01:00.0", True)
    assert (second.pci_bus_id, second.display) == (None, None)

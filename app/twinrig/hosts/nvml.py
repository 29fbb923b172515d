"""Graphics cards through NVML (nvidia-ml-py), the only module that knows pynvml.

Rules as measured and read for nvidia-ml-py 12.575 to 13.615: each call is guarded on its own,
since GeForce cards, WDDM and WSL lack some of them; cheap calls only (no PCIe throughput, which
blocks for 20 ms, and no energy counter); static facts are read once; a lost card repeats its
last sample as stale while the library is opened anew with growing pauses.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, TypeVar

from twinrig.domain.errors import GpuUnavailableError
from twinrig.domain.gpu import DriverInfo, GpuInfo, GpuSample
from twinrig.hosts.windows.adapters import NvidiaCard
from twinrig.messages import message

T = TypeVar("T")

REOPEN_DELAYS_S = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
_UINT_NOT_AVAILABLE = 0xFFFFFFFF
_PCIE_OUT, _PCIE_IN = 0, 1
"""NVML_PCIE_UTIL_TX_BYTES and _RX_BYTES: sent and received by the card."""
_ULONG_NOT_AVAILABLE = 0xFFFFFFFFFFFFFFFF

THROTTLE_WORDS: Mapping[int, str] = MappingProxyType(
    {
        0x1: "idle",
        0x2: "application clocks setting",
        0x4: "software power cap",
        0x8: "hardware slowdown",
        0x10: "sync boost",
        0x20: "software thermal slowdown",
        0x40: "hardware thermal slowdown",
        0x80: "hardware power brake",
        0x100: "display clock setting",
        0x200: "board limit",
        0x400: "reliability",
    }
)
"""Bits of nvmlClocksEventReasons (called throttle reasons up to driver 535)."""


@dataclass
class _Card:
    handle: Any
    info: GpuInfo
    last: GpuSample | None = None
    lost: bool = False


class NvmlProbe:
    """``domain.ports.GpuProbe``. Opens the library at once; blocking; for one thread.

    ``library`` is the pynvml module or a stand-in of the same shape; ``clock`` gives epoch
    seconds. Raises GpuUnavailableError when there is no driver, no library or no card.
    """

    def __init__(self, library: Any = None, clock: Callable[[], float] = time.time) -> None:
        self._nvml = library if library is not None else _import_library()
        self._now = clock
        self._cards: list[_Card] = []
        self._driver = DriverInfo(None, None)
        self._open = False
        self._saw_loss = False
        self._memory_v2 = True
        self._failures = 0
        self._retry_at_s = 0.0
        self._start()

    def devices(self) -> tuple[GpuInfo, ...]:
        """Static facts, cards in PCI order (NVML's own)."""
        return tuple(card.info for card in self._cards)

    def driver(self) -> DriverInfo:
        """Read once when the library was opened."""
        return self._driver

    def places(self) -> tuple[NvidiaCard, ...]:
        """Where each card sits on the PCI bus, and whether a desktop is shown on it."""
        found = []
        for card in self._cards:
            bus = getattr(self._ask("nvmlDeviceGetPciInfo", card.handle), "busId", None)
            display = _number(self._ask("nvmlDeviceGetDisplayActive", card.handle))
            shown = None if display is None else bool(display)
            found.append(NvidiaCard(card.info.uuid, card.info.name, _text(bus), shown))
        return tuple(found)

    def sample(self) -> tuple[GpuSample, ...]:
        """One reading of each card. Raises GpuUnavailableError if the driver went away."""
        lost_before = self._any_lost()
        if lost_before and self._now() >= self._retry_at_s:
            self._reopen()
        samples = tuple(self._sample_card(card) for card in self._cards)
        if not self._any_lost():
            self._failures = 0
        elif not lost_before:
            self._schedule_reopen()
        return samples

    def detailed(self, samples: tuple[GpuSample, ...]) -> tuple[GpuSample, ...]:
        """NVML counts PCIe bytes over 20 ms for each call; measured 21 ms, and 3 ms for energy."""
        handles = {card.info.uuid: card.handle for card in self._cards if not card.lost}
        return tuple(
            self._with_details(sample, handles[sample.uuid])
            if sample.uuid in handles and not sample.stale
            else sample
            for sample in samples
        )

    def _with_details(self, sample: GpuSample, handle: Any) -> GpuSample:
        self._saw_loss = False
        out_kb, in_kb = (
            _number(self._ask("nvmlDeviceGetPcieThroughput", handle, counter))
            for counter in (_PCIE_OUT, _PCIE_IN)
        )
        millijoules = self._ask("nvmlDeviceGetTotalEnergyConsumption", handle)
        known = isinstance(millijoules, int) and 0 <= millijoules < _ULONG_NOT_AVAILABLE
        return replace(
            sample,
            pcie_in_bytes_s=None if in_kb is None else in_kb * 1024,
            pcie_out_bytes_s=None if out_kb is None else out_kb * 1024,
            energy_j=millijoules / 1000 if known else None,
        )

    def close(self) -> None:
        """Give the library back; never raises."""
        if self._open:
            self._open = False
            self._saw_loss = False
            self._try(self._nvml.nvmlShutdown)

    def _start(self) -> None:
        try:
            self._nvml.nvmlInit()
        except self._nvml.NVMLError as error:
            raise _unavailable(self._nvml, error) from error
        except OSError as error:
            raise _no_library() from error
        self._open = True
        self._driver = DriverInfo(
            _text(self._try(self._nvml.nvmlSystemGetDriverVersion)), self._cuda_version()
        )
        try:
            self._cards = self._find_cards({card.info.uuid: card for card in self._cards})
        except self._nvml.NVMLError as error:
            self.close()
            raise _unavailable(self._nvml, error) from error
        if not self._cards:
            self.close()
            raise GpuUnavailableError(
                message("The NVIDIA driver sees no graphics card."),
                message("Check that the card is enabled in the device manager, then restart."),
            )

    def _find_cards(self, known: Mapping[str, _Card]) -> list[_Card]:
        """Cards that answer now, and those known from before that do not, as lost."""
        cards: dict[str, _Card] = {}
        for index in range(self._nvml.nvmlDeviceGetCount()):
            self._saw_loss = False
            handle = self._try(self._nvml.nvmlDeviceGetHandleByIndex, index)
            if handle is None:
                continue
            info = self._info(index, handle)
            if not self._saw_loss:
                before = known.get(info.uuid)
                cards[info.uuid] = _Card(handle, info, before.last if before else None)
        missing = [replace(card, lost=True) for uuid, card in known.items() if uuid not in cards]
        return sorted([*cards.values(), *missing], key=lambda card: card.info.index)

    def _info(self, index: int, handle: Any) -> GpuInfo:
        nvml = self._nvml
        memory = self._memory(handle)
        return GpuInfo(
            index=index,
            uuid=_text(self._try(nvml.nvmlDeviceGetUUID, handle)) or f"index-{index}",
            name=_text(self._try(nvml.nvmlDeviceGetName, handle)) or "NVIDIA GPU",
            memory_total_bytes=_bytes(memory, "total"),
            compute_capability=_pair(self._ask("nvmlDeviceGetCudaComputeCapability", handle)),
            pcie_generation_max=_number(self._ask("nvmlDeviceGetMaxPcieLinkGeneration", handle)),
            pcie_width_max=_number(self._ask("nvmlDeviceGetMaxPcieLinkWidth", handle)),
            power_limit_w=_watts(self._ask("nvmlDeviceGetEnforcedPowerLimit", handle)),
        )

    def _memory(self, handle: Any) -> Any:
        """Version 2 counts as nvidia-smi does; version 1 adds the driver's reserve to "used".

        On two H200 that was 615 MiB a card in use while nvidia-smi said 0 MiB (driver 580).
        """
        function = self._nvml.nvmlDeviceGetMemoryInfo
        version = getattr(self._nvml, "nvmlMemory_v2", None)
        if version is not None and self._memory_v2:
            memory = self._try(function, handle, version)
            if memory is not None or self._saw_loss:
                return memory
        memory = self._try(function, handle)
        self._memory_v2 = self._memory_v2 and memory is None
        return memory

    def _cuda_version(self) -> tuple[int, int] | None:
        for name in ("nvmlSystemGetCudaDriverVersion_v2", "nvmlSystemGetCudaDriverVersion"):
            value = _number(self._ask(name))
            if value:
                return value // 1000, value % 1000 // 10
        return None

    def _sample_card(self, card: _Card) -> GpuSample:
        if not card.lost:
            self._saw_loss = False
            sample = self._read(card)
            if not self._saw_loss:
                card.last = sample
                return sample
            card.lost = True
        if card.last is not None:
            return replace(card.last, stale=True)
        total = card.info.memory_total_bytes
        return GpuSample(card.info.uuid, self._now(), memory_total_bytes=total, stale=True)

    def _read(self, card: _Card) -> GpuSample:
        nvml, handle = self._nvml, card.handle
        memory = self._memory(handle)
        utilisation = self._try(nvml.nvmlDeviceGetUtilizationRates, handle)
        limit_w = _watts(self._ask("nvmlDeviceGetEnforcedPowerLimit", handle))
        return GpuSample(
            uuid=card.info.uuid,
            taken_at_s=self._now(),
            utilisation_percent=_percent(getattr(utilisation, "gpu", None)),
            memory_used_bytes=_bytes(memory, "used"),
            memory_total_bytes=_bytes(memory, "total"),
            power_w=_watts(self._ask("nvmlDeviceGetPowerUsage", handle)),
            power_limit_w=limit_w,
            temperature_c=self._temperature(handle),
            clock_sm_mhz=_number(self._ask("nvmlDeviceGetClockInfo", handle, nvml.NVML_CLOCK_SM)),
            pcie_generation=_number(self._ask("nvmlDeviceGetCurrPcieLinkGeneration", handle)),
            pcie_width=_number(self._ask("nvmlDeviceGetCurrPcieLinkWidth", handle)),
            throttle_reasons=self._throttle_reasons(handle),
        )

    def _temperature(self, handle: Any) -> int | None:
        sensor = self._nvml.NVML_TEMPERATURE_GPU
        for name in ("nvmlDeviceGetTemperatureV", "nvmlDeviceGetTemperature"):
            value = _number(self._ask(name, handle, sensor))
            if value is not None:
                return value
        return None

    def _throttle_reasons(self, handle: Any) -> tuple[str, ...] | None:
        for name in (
            "nvmlDeviceGetCurrentClocksEventReasons",
            "nvmlDeviceGetCurrentClocksThrottleReasons",
        ):
            bits = self._ask(name, handle)
            if isinstance(bits, int) and bits != _ULONG_NOT_AVAILABLE:
                return throttle_words(bits)
        return None

    def _ask(self, name: str, *args: Any) -> Any:
        """Call a function that this version of the library may lack."""
        function = getattr(self._nvml, name, None)
        return None if function is None else self._try(function, *args)

    def _try(self, function: Callable[..., T], *args: Any) -> T | None:
        if self._saw_loss:
            # A driver in trouble may take seconds for each answer: ask nothing more this round.
            return None
        try:
            return function(*args)
        except self._nvml.NVMLError as error:
            self._saw_loss = getattr(error, "value", None) in self._lost_codes()
            return None
        except (OSError, UnicodeDecodeError):
            return None

    def _lost_codes(self) -> tuple[int, ...]:
        nvml = self._nvml
        return (
            nvml.NVML_ERROR_GPU_IS_LOST,
            nvml.NVML_ERROR_RESET_REQUIRED,
            nvml.NVML_ERROR_UNINITIALIZED,
        )

    def _any_lost(self) -> bool:
        return any(card.lost for card in self._cards)

    def _schedule_reopen(self) -> None:
        delay_s = REOPEN_DELAYS_S[min(self._failures, len(REOPEN_DELAYS_S) - 1)]
        self._failures += 1
        self._retry_at_s = self._now() + delay_s

    def _reopen(self) -> None:
        """Shut down and open again; a driver that is still away raises."""
        self._saw_loss = False
        self.close()
        self._schedule_reopen()
        self._start()


def throttle_words(bits: int) -> tuple[str, ...]:
    """Words for the clock-event bits; unknown bits are shown as numbers, none as ``()``."""
    words = [word for bit, word in THROTTLE_WORDS.items() if bits & bit]
    unknown = bits & ~sum(THROTTLE_WORDS)
    if unknown:
        words.append(f"0x{unknown:x}")
    return tuple(words)


def _import_library() -> Any:
    try:
        import pynvml
    except ImportError as error:
        raise GpuUnavailableError(
            message("The Python package nvidia-ml-py is missing."),
            message("Install Twinrig again; its packages are incomplete."),
        ) from error
    return pynvml


def _no_library() -> GpuUnavailableError:
    return GpuUnavailableError(
        message("This computer has no NVIDIA driver library."),
        message("Install the NVIDIA driver, or look at the demo rig."),
    )


def _unavailable(nvml: Any, error: Any) -> GpuUnavailableError:
    code = getattr(error, "value", None)
    if code == nvml.NVML_ERROR_LIBRARY_NOT_FOUND:
        return _no_library()
    if code == nvml.NVML_ERROR_DRIVER_NOT_LOADED:
        return GpuUnavailableError(
            message("The NVIDIA driver is installed but does not run."),
            message("Restart the computer; if that does not help, install the driver again."),
        )
    if code == nvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH:
        return GpuUnavailableError(
            message("The NVIDIA driver and its library have different versions."),
            message("Restart the computer: the driver was updated while it ran."),
        )
    if code == nvml.NVML_ERROR_NO_PERMISSION:
        return GpuUnavailableError(
            message("This user may not read the graphics cards."),
            message("Ask for access to the devices /dev/nvidia*, or run as another user."),
        )
    return GpuUnavailableError(
        message("The NVIDIA driver does not answer."),
        message("Run nvidia-smi in a terminal to see what the driver says."),
    )


def _text(value: Any) -> str | None:
    """Old releases return bytes, newer ones str."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    return value.strip() or None if isinstance(value, str) else None


def _number(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return None if value < 0 or value >= _UINT_NOT_AVAILABLE else value


def _percent(value: Any) -> int | None:
    number = _number(value)
    return None if number is None or number > 100 else number


def _watts(milliwatts: Any) -> float | None:
    number = _number(milliwatts)
    return None if number is None else number / 1000


def _bytes(memory: Any, field: str) -> int | None:
    """A field of the memory structure; nvidia-ml-py turns "not available" into None itself."""
    value = getattr(memory, field, None)
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return None if value in (_UINT_NOT_AVAILABLE, _ULONG_NOT_AVAILABLE) else value


def _pair(value: Any) -> tuple[int, int] | None:
    if isinstance(value, tuple) and len(value) == 2 and all(isinstance(v, int) for v in value):
        return int(value[0]), int(value[1])
    return None

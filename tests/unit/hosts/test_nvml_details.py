"""PCIe traffic and energy: only on request, and unavailable is never zero."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pynvml as real
import pytest

from twinrig.domain.gpu import GpuSample
from twinrig.hosts.nvml import NvmlProbe

COSTLY = ("nvmlDeviceGetPcieThroughput", "nvmlDeviceGetTotalEnergyConsumption")


class Nvml:
    """Two cards; ``answers`` replaces a function's answer by a value or an exception."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.calls: list[tuple[str, tuple]] = []

    def __getattr__(self, name: str) -> Any:
        if not hasattr(real, name):
            raise AttributeError(name)
        value = getattr(real, name)
        return (lambda *args: self._call(name, args)) if name[:4] == "nvml" else value

    def _call(self, name: str, args: tuple) -> Any:
        self.calls.append((name, args))
        usual = {
            "nvmlInit": None,
            "nvmlShutdown": None,
            "nvmlDeviceGetCount": 2,
            "nvmlDeviceGetHandleByIndex": args[0] if args else None,
            "nvmlDeviceGetUUID": f"GPU-{args[0]}" if args else None,
            "nvmlDeviceGetName": "Card",
            "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=50, memory=20),
            "nvmlDeviceGetPcieThroughput": [1000, 2000][args[1] == 1] if len(args) > 1 else None,
            "nvmlDeviceGetTotalEnergyConsumption": 7_200_000,
        }
        answer = self.answers.get(name, usual.get(name, real.NVMLError(3)))
        if isinstance(answer, Exception):
            raise answer
        return answer

    def asked(self, name: str) -> int:
        return sum(1 for called, _args in self.calls if called == name)


def detailed(nvml: Nvml) -> tuple[GpuSample, ...]:
    probe = NvmlProbe(nvml)
    return probe.detailed(probe.sample())


def test_the_usual_reading_asks_for_none_of_it() -> None:
    nvml = Nvml()
    samples = NvmlProbe(nvml).sample()
    assert len(samples) == 2 and samples[0].energy_j is None
    assert [nvml.asked(name) for name in COSTLY] == [0, 0]


def test_on_request_it_is_read_for_each_card() -> None:
    nvml = Nvml()
    first, second = detailed(nvml)
    assert (first.pcie_out_bytes_s, first.pcie_in_bytes_s) == (1_024_000, 2_048_000)
    assert first.energy_j == 7200.0 and second.energy_j == 7200.0
    assert first.utilisation_percent == 50
    assert [nvml.asked(name) for name in COSTLY] == [4, 2]


@pytest.mark.parametrize("answer", [real.NVMLError(3), 0xFFFFFFFF, -1, "text", None])
def test_what_a_card_does_not_tell_is_unknown(answer: Any) -> None:
    for sample in detailed(Nvml(nvmlDeviceGetPcieThroughput=answer)):
        assert sample.pcie_in_bytes_s is None and sample.pcie_out_bytes_s is None
        assert sample.energy_j == 7200.0


@pytest.mark.parametrize("answer", [real.NVMLError(3), 2**64 - 1, -5, None])
def test_energy_that_is_not_told_is_unknown(answer: Any) -> None:
    for sample in detailed(Nvml(nvmlDeviceGetTotalEnergyConsumption=answer)):
        assert sample.energy_j is None and sample.pcie_in_bytes_s == 2_048_000


def test_a_lost_card_is_not_asked_for_more() -> None:
    nvml = Nvml(nvmlDeviceGetUtilizationRates=real.NVMLError(real.NVML_ERROR_GPU_IS_LOST))
    samples = detailed(nvml)
    assert all(sample.stale for sample in samples)
    assert [nvml.asked(name) for name in COSTLY] == [0, 0]

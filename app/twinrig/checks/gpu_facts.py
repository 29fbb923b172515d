"""Reads the answers about cards and driver."""

from __future__ import annotations

import re
from dataclasses import dataclass

from twinrig.domain.checks import Facts, ProbeOutput

_DRIVER = re.compile(r"(?:Driver|KMD) Version:\s*(\d+)\.([\d.]+)")
_CUDA = re.compile(r"CUDA(?: UMD)? Version:\s*(\d+)\.(\d+)")
_KERNEL_DRIVER = re.compile(r"Kernel Module\b.*?\s(\d{3,4})\.(\d[\d.]*)\s")
_CAPABILITY = re.compile(r"(\d+)\.(\d+)")


@dataclass(frozen=True)
class GpuRow:
    """One card as nvidia-smi lists it. None = "[N/A]", "[Not Supported]" or not asked."""

    index: int
    uuid: str
    name: str
    memory_total_mib: int | None
    memory_used_mib: int | None
    driver_version: str
    capability: tuple[int, int] | None


def parse_gpus(output: ProbeOutput) -> tuple[GpuRow, ...]:
    """Rows of the probe ``gpu``; lines that are no rows are skipped."""
    rows = [_row(line) for line in output.stdout.splitlines() if not line.startswith("#")]
    return tuple(row for row in rows if row is not None)


def _row(line: str) -> GpuRow | None:
    cells = [cell.strip() for cell in line.split(",")]
    if len(cells) < 6 or not cells[0].isdecimal() or not cells[1].startswith("GPU-"):
        return None
    capability = _CAPABILITY.fullmatch(cells[6]) if len(cells) > 6 else None
    return GpuRow(
        index=int(cells[0]),
        uuid=cells[1],
        name=cells[2],
        memory_total_mib=_number(cells[3]),
        memory_used_mib=_number(cells[4]),
        driver_version=cells[5],
        capability=(int(capability[1]), int(capability[2])) if capability else None,
    )


def _number(cell: str) -> int | None:
    return int(cell) if cell.isdecimal() else None


def driver_version(facts: Facts) -> str | None:
    """Driver version as text. In WSL it is the Windows driver's, as nvidia-smi reports it."""
    for row in parse_gpus(facts.probe("gpu")):
        if re.fullmatch(r"\d+\.[\d.]+", row.driver_version):
            return row.driver_version
    header = facts.probe("driver").stdout
    found = _DRIVER.search(header) or _KERNEL_DRIVER.search(header)
    return f"{found[1]}.{found[2]}" if found else None


def driver_major(facts: Facts) -> int | None:
    """Branch of the driver, such as 580."""
    version = driver_version(facts)
    return None if version is None else int(version.split(".")[0])


def driver_cuda(facts: Facts) -> tuple[int, int] | None:
    """Newest CUDA version that the driver supports, as nvidia-smi's head names it."""
    found = _CUDA.search(facts.probe("driver").stdout)
    return (int(found[1]), int(found[2])) if found else None

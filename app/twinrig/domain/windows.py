"""The Windows side of a machine whose server runs in WSL: what can be asked and changed there.

Answers have the form of the Linux side's probes, so that a judgement treats both alike: text
that was asked for, a return code, "timed out". Names begin with ``windows_``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from twinrig.domain.checks import ProbeOutput
from twinrig.domain.elevation import Elevation

WINDOWS_PROBES: tuple[str, ...] = (
    "windows_system",
    "windows_virtual",
    "windows_wsl",
    "windows_wslconfig",
    "windows_memory",
    "windows_graphics",
    "windows_gpus",
    "windows_counters",
    "windows_network",
    "windows_power",
)
"""What ``WindowsFacts`` answers:

* ``windows_system``: build=, revision=, edition=, product=
* ``windows_virtual``: firmware=yes|no|unknown, platform=yes|no (Virtual Machine Platform)
* ``windows_wsl``: installed=yes|no, wsl_version=, "distro VERSION STATE NAME"
* ``windows_wslconfig``: one JSON object, see ``wsl_config.ConfigFile``
* ``windows_memory``: total_bytes=
* ``windows_graphics``: tdr_delay_s=, tdr_level= (absent where not set), hags=on|off|absent,
  "display NAME PRIMARY CARD"
* ``windows_gpus``: "gpu UUID DISPLAY DRIVER NAME"
* ``windows_counters``: "adapter LUID UUID DEDICATED SHARED" in bytes, "-" for an unknown card
* ``windows_network``: "address IPV4", "listen ADDRESS PID PROGRAM", "excluded FIRST LAST",
  "forward ADDRESS PORT TO_ADDRESS TO_PORT", connect=ok|refused|timeout|not-asked
* ``windows_power``: line=yes|no|unknown, battery=yes|no, percent=
"""


def is_windows_probe(name: str) -> bool:
    """Whether Windows is asked, not the Linux side."""
    return name in WINDOWS_PROBES


class WindowsFacts(Protocol):
    """Read-only questions to Windows, each guarded on its own. Blocking; any thread."""

    def answer(self, names: Sequence[str], endpoint: str = "") -> Mapping[str, ProbeOutput]:
        """An answer for each name; ``endpoint`` is HOST:PORT of the profile's server, "" = none.
        Never raises: what fails or takes too long says so in its answer."""
        ...


@dataclass(frozen=True)
class AdapterMemory:
    """Memory of one graphics adapter. ``luid`` is Windows' own name for it until the next boot;
    ``card_uuid`` is None where it cannot be mapped to an NVIDIA card."""

    luid: str
    card_uuid: str | None
    dedicated_bytes: int | None
    shared_bytes: int | None


@dataclass(frozen=True)
class ProcessMemory:
    """Memory of one process on one adapter. Work of WSL shows as ``vmmem`` or ``vmwp``."""

    pid: int
    luid: str
    card_uuid: str | None
    dedicated_bytes: int | None
    shared_bytes: int | None


@dataclass(frozen=True)
class GpuMemoryReading:
    """One reading of Windows' counters."""

    adapters: tuple[AdapterMemory, ...]
    processes: tuple[ProcessMemory, ...]

    def shared_bytes_of(self, card_uuid: str) -> int | None:
        """RAM used in place of this card's own memory; None = not known."""
        found = [a.shared_bytes for a in self.adapters if a.card_uuid == card_uuid]
        known = [value for value in found if value is not None]
        return sum(known) if known else None


class WindowsCounters(Protocol):
    """Performance counters of the graphics memory. Blocking; for one thread."""

    def read(self) -> GpuMemoryReading:
        """Raises HostError when Windows does not offer the counters."""
        ...


class FileStore(Protocol):
    """Files that a fix may change: of the Linux side, or of the Windows user's folder."""

    async def read_file(self, path: str) -> bytes | None:
        """Content, None when there is no such file. Raises HostError when unreadable."""
        ...

    async def write_file(
        self,
        path: str,
        data: bytes | None,
        *,
        mode: int = 0o644,
        root: bool = False,
        expected_sha256: str | None = None,
    ) -> None:
        """As ``Host.write_file``."""
        ...

    async def file_mode(self, path: str) -> int | None:
        """Permissions; None where they mean nothing or cannot be read."""
        ...


@dataclass(frozen=True)
class WindowsSide:
    """What a target with a Windows side has more than others. None: that it has not."""

    facts: WindowsFacts
    open_counters: Callable[[], WindowsCounters] | None = None
    files: FileStore | None = None
    elevation: Elevation | None = None

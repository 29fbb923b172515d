"""The Windows side of this computer, put together from its parts."""

from __future__ import annotations

import contextlib
import socket
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from twinrig.domain.errors import GpuUnavailableError
from twinrig.domain.windows import GpuMemoryReading, WindowsSide
from twinrig.hosts.windows.adapters import cards_by_luid
from twinrig.hosts.windows.counters import PdhCounters
from twinrig.hosts.windows.elevated_helper import program_path, run_hidden
from twinrig.hosts.windows.elevation import UacElevation
from twinrig.hosts.windows.facts import WindowsMachine
from twinrig.hosts.windows.files import WindowsUserFiles
from twinrig.hosts.windows.questions import Cards, WindowsParts, questions

_CONNECT_S = 2.0
_LUIDS_S = 60.0


if sys.platform == "win32":
    from twinrig.hosts.nvml import NvmlProbe
    from twinrig.hosts.windows.elevation import launch_elevated
    from twinrig.hosts.windows.registry import WindowsRegistry
    from twinrig.hosts.windows.system_calls import Win32Calls

    def open_windows_side(
        environ: Mapping[str, str], state: Path, program: Sequence[str]
    ) -> WindowsSide | None:
        """Opens no connection and asks nothing yet. ``program`` are the words that start
        Twinrig; ``state`` is where results of elevated steps are handed over."""
        calls = Win32Calls()
        luids = _Luids(calls)
        files = WindowsUserFiles(Path(environ.get("USERPROFILE") or Path.home()))
        parts = WindowsParts(
            registry=WindowsRegistry(),
            calls=calls,
            read_counters=lambda: _read_once(luids),
            cards=_cards,
            read_config=files.read_config,
            connect=connect,
            excluded_ranges=lambda: excluded_ranges(environ),
            lan_addresses=lan_addresses,
        )
        return WindowsSide(
            WindowsMachine(questions(parts)),
            lambda: PdhCounters(luids.cards),
            files,
            UacElevation(program, state, launch_elevated),
        )

    def _read_once(luids: _Luids) -> GpuMemoryReading:
        """A query of its own: one query must not be read by two threads."""
        counters = PdhCounters(luids.cards)
        try:
            return counters.read()
        finally:
            counters.close()

    def _cards() -> Cards:
        probe = NvmlProbe()
        try:
            return Cards(probe.driver().driver_version or "", probe.places())
        finally:
            probe.close()

    class _Luids:
        """UUID by LUID, asked once a minute: a driver that restarts gives new LUIDs."""

        def __init__(self, calls: Win32Calls) -> None:
            self._calls = calls
            self._lock = threading.Lock()
            self._known: Mapping[str, str] = {}
            self._ask_at_s = 0.0

        def cards(self) -> Mapping[str, str]:
            """Empty where it cannot be told: then the card stays unknown."""
            with self._lock:
                if time.monotonic() >= self._ask_at_s:
                    self._ask_at_s = time.monotonic() + _LUIDS_S
                    self._known = {}
                    with contextlib.suppress(OSError, AttributeError, GpuUnavailableError):
                        self._known = cards_by_luid(self._calls.adapters(), _cards().cards)
                return self._known

else:

    def open_windows_side(
        environ: Mapping[str, str], state: Path, program: Sequence[str]
    ) -> WindowsSide | None:
        """There is none here."""
        return None


def connect(address: str, port: int) -> str:
    """Whether a TCP connection comes about: ok, refused or timeout."""
    try:
        with socket.create_connection((address, port), timeout=_CONNECT_S):
            return "ok"
    except TimeoutError:
        return "timeout"
    except OSError:
        return "refused"


def excluded_ranges(environ: Mapping[str, str]) -> str:
    """Ports that Windows keeps for itself, as netsh lists them; "" where it does not."""
    netsh = program_path("netsh", environ)
    code, text = run_hidden((netsh, "int", "ipv4", "show", "excludedportrange", "protocol=tcp"))
    return text if code == 0 else ""


def lan_addresses() -> tuple[str, ...]:
    """The address of the interface that leads to other networks. Nothing is sent for it."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # a documentation address; UDP only notes it
        address = str(probe.getsockname()[0])
        return () if address.startswith("0.") else (address,)
    return ()

"""Windows' performance counters of graphics memory, through ``pdh.dll``.

``PdhAddEnglishCounterW`` takes the English names on every language of Windows. The structures
are those of the Windows SDK's ``pdh.h`` for 64 bits.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Mapping

from twinrig.domain.errors import HostError
from twinrig.domain.windows import GpuMemoryReading
from twinrig.hosts.windows.counter_names import CounterValues, reading
from twinrig.messages import message

PATHS = (
    r"\GPU Adapter Memory(*)\Dedicated Usage",
    r"\GPU Adapter Memory(*)\Shared Usage",
    r"\GPU Process Memory(*)\Dedicated Usage",
    r"\GPU Process Memory(*)\Shared Usage",
)
_FORMAT_LARGE = 0x400
_MORE_DATA = 0x800007D2
_NO_DATA = frozenset({0x800007D5, 0xC0000BC6, 0x800007D1})
"""No instance at this moment: PDH_NO_DATA, PDH_INVALID_DATA, PDH_CSTATUS_NO_INSTANCE."""
_FIRST_BYTES = 64 * 1024
_MOST_BYTES = 64 * 1024 * 1024


class CounterItem(ctypes.Structure):
    """PDH_FMT_COUNTERVALUE_ITEM_W with a 64-bit integer."""

    _fields_ = (
        ("name", ctypes.c_wchar_p),
        ("status", ctypes.c_uint32),
        ("value", ctypes.c_int64),
    )


class PdhCounters:
    """``WindowsCounters``. The query is opened at the first reading and kept open.

    ``library`` is pdh.dll or a stand-in; ``cards`` gives UUID by LUID and is asked each time.
    """

    def __init__(self, cards: Callable[[], Mapping[str, str]], library: object = None) -> None:
        self._cards = cards
        self._pdh = library
        self._query = ctypes.c_void_p()
        self._counters: list[ctypes.c_void_p] = []

    def read(self) -> GpuMemoryReading:
        """One reading. Raises HostError when the counters do not exist or do not answer."""
        if not self._counters:
            self._open()
        self._call("PdhCollectQueryData", self._query)
        lists = [self._values(counter) for counter in self._counters]
        return reading(CounterValues(*lists), self._cards())

    def close(self) -> None:
        """Give the query back; safe to call twice."""
        if self._query:
            self._function("PdhCloseQuery")(self._query)
            self._query = ctypes.c_void_p()
            self._counters = []

    def _open(self) -> None:
        self._pdh = _load() if self._pdh is None else self._pdh
        self._call("PdhOpenQueryW", None, 0, ctypes.byref(self._query))
        counters = []
        try:
            for path in PATHS:
                handle = ctypes.c_void_p()
                self._call("PdhAddEnglishCounterW", self._query, path, 0, ctypes.byref(handle))
                counters.append(handle)
        except HostError:
            self.close()
            raise
        self._counters = counters

    def _values(self, counter: ctypes.c_void_p) -> list[tuple[str, int]]:
        size, count = ctypes.c_uint32(_FIRST_BYTES), ctypes.c_uint32(0)
        get = self._function("PdhGetFormattedCounterArrayW")
        while True:
            buffer = ctypes.create_string_buffer(size.value)
            code = get(counter, _FORMAT_LARGE, ctypes.byref(size), ctypes.byref(count), buffer)
            code &= 0xFFFFFFFF
            if code != _MORE_DATA or size.value > _MOST_BYTES:
                break
        if code in _NO_DATA:
            return []
        _check("PdhGetFormattedCounterArrayW", code)
        items = ctypes.cast(buffer, ctypes.POINTER(CounterItem))
        found = [items[index] for index in range(count.value)]
        # PDH_CSTATUS_VALID_DATA and PDH_CSTATUS_NEW_DATA; else the value means nothing.
        return [(item.name or "", item.value) for item in found if item.status in (0, 1)]

    def _call(self, name: str, *args: object) -> None:
        _check(name, self._function(name)(*args) & 0xFFFFFFFF)

    def _function(self, name: str) -> Callable[..., int]:
        function: Callable[..., int] = getattr(self._pdh, name)
        return function


def _check(name: str, code: int) -> None:
    if code:
        raise HostError(
            message(
                "Windows does not give its counters of graphics memory ({name}: {code}).",
                name=name,
                code=f"0x{code:08X}",
            ),
            message("They need Windows 10 1709 or newer and a WDDM graphics driver."),
        )


def _load() -> object:
    if sys.platform == "win32":
        from ctypes import wintypes

        pdh = ctypes.WinDLL("pdh")
        handle = ctypes.c_void_p
        pdh.PdhOpenQueryW.argtypes = (wintypes.LPCWSTR, ctypes.c_size_t, handle)
        pdh.PdhAddEnglishCounterW.argtypes = (*(handle, wintypes.LPCWSTR, ctypes.c_size_t, handle),)
        pdh.PdhCollectQueryData.argtypes = (handle,)
        pdh.PdhCloseQuery.argtypes = (handle,)
        pdh.PdhGetFormattedCounterArrayW.argtypes = (
            *(handle, wintypes.DWORD, handle, handle, handle),
        )
        for name in ("OpenQueryW", "AddEnglishCounterW", "CollectQueryData", "CloseQuery"):
            getattr(pdh, f"Pdh{name}").restype = ctypes.c_long
        pdh.PdhGetFormattedCounterArrayW.restype = ctypes.c_long
        return pdh
    raise HostError(
        message("There are no Windows counters on this system."),
        message("Run Twinrig on Windows."),
    )

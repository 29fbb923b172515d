"""Sleep: Windows' own word that the computer woke, and the wish that it stays awake."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable, Iterator

RESUMED_BY_USER, RESUMED = 0x7, 0x12
"""PBT_APMRESUMESUSPEND and PBT_APMRESUMEAUTOMATIC."""


CONTINUOUS, SYSTEM_REQUIRED = 0x80000000, 0x1
"""ES_CONTINUOUS and ES_SYSTEM_REQUIRED of SetThreadExecutionState."""

SetState = Callable[[int], int]
"""Takes the wish of this thread; 0 = Windows refuses it."""


@contextlib.contextmanager
def kept_awake(set_state: SetState) -> Iterator[bool]:
    """This computer does not go to sleep by itself while the block runs; the screen may. False: it
    may. The wish is of this thread, and ends with it, in whatever way. A lid that is closed, the
    user and an empty battery still send it to sleep."""
    kept = bool(set_state(CONTINUOUS | SYSTEM_REQUIRED))
    try:
        yield kept
    finally:
        if kept:
            set_state(CONTINUOUS)


def is_resume(kind: int) -> bool:
    """Whether a power event means that the computer is awake again."""
    return kind in (RESUMED_BY_USER, RESUMED)


if sys.platform == "win32":
    import ctypes
    from ctypes import wintypes

    _CALLBACK = 2
    _Callback = ctypes.WINFUNCTYPE(wintypes.ULONG, ctypes.c_void_p, wintypes.ULONG, ctypes.c_void_p)

    class _Parameters(ctypes.Structure):
        """DEVICE_NOTIFY_SUBSCRIBE_PARAMETERS."""

        _fields_ = (("Callback", _Callback), ("Context", ctypes.c_void_p))

    class ResumeNotice:
        """Sets an event when the computer wakes; needs no window. Where Windows refuses, nothing
        is told, and the gap in time has to do."""

        @contextlib.contextmanager
        def telling(self, event: asyncio.Event) -> Iterator[None]:
            """Tell while the block runs; the notice comes on a thread of Windows."""
            loop = asyncio.get_running_loop()

            def notified(_context: object, kind: int, _setting: object) -> int:
                if is_resume(kind):
                    with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
                        loop.call_soon_threadsafe(event.set)
                return 0

            parameters = _Parameters(_Callback(notified), None)
            handle = wintypes.HANDLE()
            library = _library()
            registered = (
                library is not None
                and library.PowerRegisterSuspendResumeNotification(
                    _CALLBACK, ctypes.byref(parameters), ctypes.byref(handle)
                )
                == 0
            )
            try:
                yield
            finally:
                if registered and library is not None:
                    library.PowerUnregisterSuspendResumeNotification(handle)

    def set_execution_state(state: int) -> int:
        """``SetState`` of this Windows."""
        kernel = ctypes.WinDLL("kernel32")
        kernel.SetThreadExecutionState.argtypes = (ctypes.c_uint32,)
        kernel.SetThreadExecutionState.restype = ctypes.c_uint32
        return int(kernel.SetThreadExecutionState(state))

    def _library() -> ctypes.WinDLL | None:
        try:
            library = ctypes.WinDLL("powrprof")
            library.PowerRegisterSuspendResumeNotification.argtypes = (
                wintypes.DWORD,
                ctypes.c_void_p,
                ctypes.POINTER(wintypes.HANDLE),
            )
            library.PowerUnregisterSuspendResumeNotification.argtypes = (wintypes.HANDLE,)
        except (OSError, AttributeError):
            return None
        return library

else:

    def set_execution_state(state: int) -> int:
        """Nobody is asked here."""
        return 0

    class ResumeNotice:
        """Nobody tells here."""

        @contextlib.contextmanager
        def telling(self, event: asyncio.Event) -> Iterator[None]:
            """Nothing."""
            yield

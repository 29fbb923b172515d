"""Other processes of this installation: panels whose files are about to be replaced or removed."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path

END_LIMIT_MS = 10_000


def of_folder(images: Iterable[tuple[int, str]], folder: Path, own_pid: int) -> tuple[int, ...]:
    """Process ids whose program file lies below ``folder``; never ``own_pid``."""
    root = str(folder).casefold().replace("/", "\\").rstrip("\\") + "\\"
    return tuple(
        pid
        for pid, image in images
        if pid != own_pid and image.casefold().replace("/", "\\").startswith(root)
    )


if sys.platform == "win32":
    import ctypes
    from collections.abc import Iterator
    from ctypes import wintypes

    _SNAPSHOT_PROCESSES = 0x2
    _QUERY_LIMITED, _TERMINATE, _SYNCHRONIZE = 0x1000, 0x1, 0x100000
    _PATH_LENGTH = 32768

    class _Entry(ctypes.Structure):
        """PROCESSENTRY32W."""

        _fields_ = (
            ("size", wintypes.DWORD),
            ("usage", wintypes.DWORD),
            ("pid", wintypes.DWORD),
            ("heap", ctypes.c_size_t),
            ("module", wintypes.DWORD),
            ("threads", wintypes.DWORD),
            ("parent", wintypes.DWORD),
            ("priority", wintypes.LONG),
            ("flags", wintypes.DWORD),
            ("name", wintypes.WCHAR * 260),
        )

    _kernel = ctypes.WinDLL("kernel32", use_last_error=True)
    _kernel.CreateToolhelp32Snapshot.restype = wintypes.HANDLE
    _kernel.CreateToolhelp32Snapshot.argtypes = (wintypes.DWORD, wintypes.DWORD)
    for _name in ("Process32FirstW", "Process32NextW"):
        getattr(_kernel, _name).argtypes = (wintypes.HANDLE, ctypes.POINTER(_Entry))
    _kernel.OpenProcess.restype = wintypes.HANDLE
    _kernel.OpenProcess.argtypes = (wintypes.DWORD, wintypes.BOOL, wintypes.DWORD)
    _kernel.QueryFullProcessImageNameW.argtypes = (
        wintypes.HANDLE,
        wintypes.DWORD,
        wintypes.LPWSTR,
        ctypes.POINTER(wintypes.DWORD),
    )
    _kernel.TerminateProcess.argtypes = (wintypes.HANDLE, wintypes.UINT)
    _kernel.WaitForSingleObject.argtypes = (wintypes.HANDLE, wintypes.DWORD)
    _kernel.CloseHandle.argtypes = (wintypes.HANDLE,)
    _INVALID = wintypes.HANDLE(-1).value

    def end_others(folder: Path) -> tuple[int, ...]:
        """End every other process of ``folder``; returns the ids of those that still live."""
        return tuple(
            pid for pid in of_folder(_images(), folder, os.getpid()) if not _end_process(pid)
        )

    def _images() -> Iterator[tuple[int, str]]:
        """Id and program file of all processes that this user may look at."""
        snapshot = _kernel.CreateToolhelp32Snapshot(_SNAPSHOT_PROCESSES, 0)
        if snapshot == _INVALID:
            return
        try:
            entry = _Entry(size=ctypes.sizeof(_Entry))
            found = _kernel.Process32FirstW(snapshot, ctypes.byref(entry))
            while found:
                if image := _image(entry.pid):
                    yield entry.pid, image
                found = _kernel.Process32NextW(snapshot, ctypes.byref(entry))
        finally:
            _kernel.CloseHandle(snapshot)

    def _image(pid: int) -> str:
        handle = _kernel.OpenProcess(_QUERY_LIMITED, False, pid)
        if not handle:
            return ""
        try:
            length = wintypes.DWORD(_PATH_LENGTH)
            text = ctypes.create_unicode_buffer(_PATH_LENGTH)
            done = _kernel.QueryFullProcessImageNameW(handle, 0, text, ctypes.byref(length))
            return text.value if done else ""
        finally:
            _kernel.CloseHandle(handle)

    def _end_process(pid: int) -> bool:
        handle = _kernel.OpenProcess(_TERMINATE | _SYNCHRONIZE, False, pid)
        if not handle:
            return False
        try:
            _kernel.TerminateProcess(handle, 0)
            return bool(_kernel.WaitForSingleObject(handle, END_LIMIT_MS) == 0)
        finally:
            _kernel.CloseHandle(handle)

else:

    def end_others(folder: Path) -> tuple[int, ...]:
        """Only Windows refuses to replace the files of a running program."""
        return ()

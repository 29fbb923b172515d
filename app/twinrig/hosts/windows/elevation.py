"""Asks Windows for administrator rights, for one task of the fixed list at a time.

The helper is this program again with the hidden verb ``elevated``. It gets the task's name and
values as words, and writes what happened into a new file of our state folder, since nothing
else comes back from a process with other rights.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twinrig.domain.elevation import (
    AdminAction,
    ElevationCancelledError,
    ElevationRefusedError,
)
from twinrig.domain.errors import HostError
from twinrig.files import read_small
from twinrig.messages import message

VERB = "elevated"
RESULT_FOLDER = "elevated"
RESULT_NAME = "elevated-{nonce}.json"
RESULT_LIMIT_BYTES = 256 * 1024
_CANCELLED = 1223
_REFUSED = frozenset({5, 740, 1260, 1314})
"""ERROR_ACCESS_DENIED, _ELEVATION_REQUIRED, _ACCESS_DISABLED_BY_POLICY, _PRIVILEGE_NOT_HELD."""


@dataclass(frozen=True)
class LaunchEnd:
    """``error``: what ShellExecuteEx said, 0 = the helper was started and has ended."""

    error: int
    exit_code: int = 0


Launch = Callable[[str, str], LaunchEnd]
"""Program and parameters, started with administrator rights and awaited. Blocking."""


class UacElevation:
    """``Elevation``. ``program`` are the words that start Twinrig; ``launch`` is Windows;
    results are handed over below ``folder``."""

    def __init__(self, program: Sequence[str], folder: Path, launch: Launch) -> None:
        self._program = tuple(program)
        self._folder = folder / RESULT_FOLDER
        self._launch = launch

    async def run(self, action: AdminAction) -> None:
        """Waits for the user's answer and for the commands."""
        nonce = secrets.token_hex(16)
        self._folder.mkdir(parents=True, exist_ok=True)
        result = self._folder / RESULT_NAME.format(nonce=nonce)
        words = (*self._program[1:], VERB, "--result", str(result), *action.to_words())
        try:
            end = await asyncio.to_thread(
                self._launch, self._program[0], subprocess.list2cmdline(words)
            )
            _check_launch(end)
            _check_result(_read(result), end.exit_code)
        finally:
            with contextlib.suppress(OSError):
                result.unlink()


def _check_launch(end: LaunchEnd) -> None:
    if end.error == _CANCELLED:
        raise ElevationCancelledError(
            message("You did not allow it, so Windows was not changed."),
            message('Try again and answer "Yes" when Windows asks.'),
        )
    if end.error in _REFUSED:
        raise ElevationRefusedError(
            message("Windows does not let this user change it (code {code}).", code=end.error),
            message("Ask the administrator of this computer to run the shown commands."),
        )
    if end.error:
        raise HostError(
            message("Windows could not start the step (code {code}).", code=end.error),
            message("Run the shown commands in a terminal of an administrator."),
        )


def _read(path: Path) -> dict[str, Any] | None:
    try:
        data = json.loads(read_small(path, RESULT_LIMIT_BYTES))
    except (OSError, ValueError):
        return None
    return data if isinstance(data, dict) else None


def _check_result(data: dict[str, Any] | None, exit_code: int) -> None:
    if data is None:
        raise HostError(
            message("The step ended without telling how (code {code}).", code=exit_code),
            message("Run the check again to see whether it took effect."),
        )
    if data.get("ok") is not True:
        raise HostError(
            message(
                "The command “{command}” failed with code {code}: {output}",
                command=str(data.get("command", "-")),
                code=str(data.get("code", "-")),
                output=str(data.get("output", "")).strip() or "-",
            ),
            message("Run the command by hand to see more, then try again."),
        )


if sys.platform == "win32":
    import ctypes
    from ctypes import wintypes

    _NO_CLOSE, _NO_ASYNC, _HIDE = 0x40, 0x100, 0

    class _ExecuteInfo(ctypes.Structure):
        """SHELLEXECUTEINFOW."""

        _fields_ = (
            *(("size", wintypes.DWORD), ("mask", wintypes.ULONG), ("window", wintypes.HWND)),
            *(("verb", wintypes.LPCWSTR), ("file", wintypes.LPCWSTR)),
            *(("parameters", wintypes.LPCWSTR), ("directory", wintypes.LPCWSTR)),
            *(("show", ctypes.c_int), ("instance", wintypes.HINSTANCE)),
            *(("list", ctypes.c_void_p), ("class_name", wintypes.LPCWSTR)),
            *(("class_key", wintypes.HKEY), ("hot_key", wintypes.DWORD)),
            *(("icon", wintypes.HANDLE), ("process", wintypes.HANDLE)),
        )

    def launch_elevated(program: str, parameters: str) -> LaunchEnd:
        """``Launch`` of this Windows."""
        ole = ctypes.WinDLL("ole32")
        shell = ctypes.WinDLL("shell32", use_last_error=True)
        kernel = ctypes.WinDLL("kernel32", use_last_error=True)
        kernel.WaitForSingleObject.argtypes = (wintypes.HANDLE, wintypes.DWORD)
        kernel.GetExitCodeProcess.argtypes = (wintypes.HANDLE, ctypes.c_void_p)
        kernel.CloseHandle.argtypes = (wintypes.HANDLE,)
        info = _ExecuteInfo(
            size=ctypes.sizeof(_ExecuteInfo),
            mask=_NO_CLOSE | _NO_ASYNC,
            verb="runas",
            file=program,
            parameters=parameters,
            show=_HIDE,
        )
        # Shell extensions may need COM; 0x6 = apartment-threaded, no OLE1 DDE.
        started_com = ole.CoInitializeEx(None, 0x6) in (0, 1)
        try:
            if not shell.ShellExecuteExW(ctypes.byref(info)):
                return LaunchEnd(ctypes.get_last_error() or -1)
            if not info.process:
                return LaunchEnd(-1)
            kernel.WaitForSingleObject(info.process, 0xFFFFFFFF)
            code = wintypes.DWORD()
            kernel.GetExitCodeProcess(info.process, ctypes.byref(code))
            kernel.CloseHandle(info.process)
            return LaunchEnd(0, code.value)
        finally:
            if started_com:
                ole.CoUninitialize()

"""The security identifier of this user, which names it in any language."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping

from twinrig.domain.errors import HostError
from twinrig.messages import message

OVERRIDE_VARIABLE = "TWINRIG_USER_SID"
"""Another identifier; the only way to have one outside Windows."""

_SID = re.compile(r"S-1-\d+(-\d+)+")

if sys.platform == "win32":
    import ctypes
    from ctypes import wintypes

    _TOKEN_QUERY, _TOKEN_USER = 0x0008, 1

    def _own_sid() -> str:
        kernel = ctypes.WinDLL("kernel32", use_last_error=True)
        advapi = ctypes.WinDLL("advapi32", use_last_error=True)
        kernel.GetCurrentProcess.restype = wintypes.HANDLE
        kernel.CloseHandle.argtypes = (wintypes.HANDLE,)
        kernel.LocalFree.argtypes = (ctypes.c_void_p,)
        advapi.OpenProcessToken.argtypes = (
            wintypes.HANDLE,
            wintypes.DWORD,
            ctypes.POINTER(wintypes.HANDLE),
        )
        advapi.GetTokenInformation.argtypes = (
            wintypes.HANDLE,
            ctypes.c_int,
            ctypes.c_void_p,
            wintypes.DWORD,
            ctypes.POINTER(wintypes.DWORD),
        )
        advapi.ConvertSidToStringSidW.argtypes = (
            ctypes.c_void_p,
            ctypes.POINTER(wintypes.LPWSTR),
        )
        token = wintypes.HANDLE()
        if not advapi.OpenProcessToken(
            kernel.GetCurrentProcess(), _TOKEN_QUERY, ctypes.byref(token)
        ):
            return ""
        try:
            size = wintypes.DWORD()
            advapi.GetTokenInformation(token, _TOKEN_USER, None, 0, ctypes.byref(size))
            buffer = ctypes.create_string_buffer(size.value)
            if not advapi.GetTokenInformation(token, _TOKEN_USER, buffer, size, ctypes.byref(size)):
                return ""
            # TOKEN_USER begins with a pointer to the SID.
            sid = ctypes.cast(buffer, ctypes.POINTER(ctypes.c_void_p))[0]
            text = wintypes.LPWSTR()
            if not advapi.ConvertSidToStringSidW(sid, ctypes.byref(text)):
                return ""
            found = text.value or ""
            kernel.LocalFree(text)
            return found
        finally:
            kernel.CloseHandle(token)

else:

    def _own_sid() -> str:
        return ""


def user_sid(environ: Mapping[str, str]) -> str:
    """Such as ``S-1-5-21-...-1001``. Raises HostError when it cannot be told."""
    found = environ.get(OVERRIDE_VARIABLE, "").strip() or _own_sid()
    if not _SID.fullmatch(found):
        raise HostError(
            message("Windows does not tell who is signed in."),
            message("Sign out of Windows and in again, then try again."),
        )
    return found

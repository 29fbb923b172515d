"""The language that this user reads Windows in."""

from __future__ import annotations

import sys

_PRIMARY = 0x3FF
_CODES = {0x09: "en", 0x11: "ja"}
"""Primary language ids of Windows (winnt.h) -> codes of ISO 639."""


def code_of(language_id: int) -> str:
    """ "" for a language that Twinrig does not speak; the region does not matter."""
    return _CODES.get(language_id & _PRIMARY, "")


if sys.platform == "win32":
    import ctypes

    def ui_language() -> str:
        """Code such as "ja"; "" when it is another one."""
        return code_of(ctypes.WinDLL("kernel32").GetUserDefaultUILanguage())

else:

    def ui_language() -> str:
        """Only Windows tells it this way."""
        return ""

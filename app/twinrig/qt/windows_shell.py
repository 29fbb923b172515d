"""What the Windows shell wants to know before the first window."""

from __future__ import annotations

import sys

APP_ID = "Twinrig.Panel"


def set_app_id() -> None:
    """Own name and icon on the task bar and on notifications, instead of Python's."""
    if sys.platform == "win32":
        import ctypes

        ctypes.windll.shell32.SetCurrentProcessExplicitAppUserModelID(APP_ID)

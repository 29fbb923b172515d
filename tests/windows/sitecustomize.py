"""Test only, put beside the installed packages: Wine 8 ends a process that asks WMI anything."""

import sys

sys.modules["_wmi"] = None  # type: ignore[assignment]

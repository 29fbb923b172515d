"""Windows' registry, read only. Keys as people write them: ``HKLM\\SOFTWARE\\...``."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Protocol

RegistryValue = int | str


class Registry(Protocol):
    """Absent, unreadable and foreign kinds of values all read as "not there"."""

    def values(self, key: str) -> Mapping[str, RegistryValue]:
        """Values of a key by name, in small letters."""
        ...

    def subkeys(self, key: str) -> tuple[str, ...]:
        """Names of the keys below."""
        ...


if sys.platform == "win32":
    import contextlib
    import winreg

    _ROOTS = {"HKLM": winreg.HKEY_LOCAL_MACHINE, "HKCU": winreg.HKEY_CURRENT_USER}
    _ACCESS = winreg.KEY_READ | winreg.KEY_WOW64_64KEY

    class WindowsRegistry:
        """``Registry`` of this user on this computer."""

        def values(self, key: str) -> Mapping[str, RegistryValue]:
            """Numbers and texts; other kinds are left out."""
            found: dict[str, RegistryValue] = {}
            with contextlib.suppress(OSError), _open(key) as handle:
                for index in range(winreg.QueryInfoKey(handle)[1]):
                    name, value, _kind = winreg.EnumValue(handle, index)
                    if isinstance(value, (int, str)):
                        found[name.lower()] = value
            return found

        def subkeys(self, key: str) -> tuple[str, ...]:
            """In the registry's own order."""
            with contextlib.suppress(OSError), _open(key) as handle:
                count = winreg.QueryInfoKey(handle)[0]
                return tuple(winreg.EnumKey(handle, index) for index in range(count))
            return ()

    def _open(key: str) -> winreg.HKEYType:
        root, _, path = key.partition("\\")
        return winreg.OpenKey(_ROOTS[root], path, 0, _ACCESS)

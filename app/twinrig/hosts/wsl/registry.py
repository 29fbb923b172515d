"""What the registry of Windows knows of WSL: no process, no language, nothing is started. Pure."""

from __future__ import annotations

from twinrig.hosts.windows.registry import Registry
from twinrig.hosts.wsl.listing import INSTALLED, WSL_2, LxssRecord

LXSS = r"HKCU\Software\Microsoft\Windows\CurrentVersion\Lxss"
PACKAGE = r"HKLM\SOFTWARE\Microsoft\Windows\CurrentVersion\Lxss\Msi"


def read_records(registry: Registry) -> tuple[LxssRecord, ...] | None:
    """Distributions of this user; None when WSL has written nothing here."""
    default = registry.values(LXSS).get("defaultdistribution", "")
    guids = registry.subkeys(LXSS)
    if not guids and not default:
        return None
    found = []
    for guid in guids:
        values = registry.values(f"{LXSS}\\{guid}")
        name, flags = values.get("distributionname"), values.get("flags", WSL_2)
        state = values.get("state", INSTALLED)
        if isinstance(name, str) and isinstance(flags, int) and isinstance(state, int):
            is_default = guid.casefold() == str(default).casefold()
            found.append(LxssRecord(guid, name, flags, state, is_default))
    return tuple(found)


def package_folder(registry: Registry) -> str | None:
    """Where the installed package of WSL has its programs, None without one."""
    return str(registry.values(PACKAGE).get("installlocation", "")) or None

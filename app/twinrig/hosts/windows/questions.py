"""What Windows is asked, and the form of each answer; see ``domain.windows.WINDOWS_PROBES``."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PureWindowsPath

from twinrig.domain.windows import GpuMemoryReading
from twinrig.domain.wsl_config import ConfigFile
from twinrig.hosts.windows.adapters import NvidiaCard
from twinrig.hosts.windows.registry import Registry
from twinrig.hosts.windows.system_calls import SystemCalls

VERSION_KEY = r"HKLM\SOFTWARE\Microsoft\Windows NT\CurrentVersion"
WSL_PACKAGE_KEY = r"HKLM\SOFTWARE\Microsoft\Windows\CurrentVersion\Lxss\Msi"
LXSS_KEY = r"HKCU\SOFTWARE\Microsoft\Windows\CurrentVersion\Lxss"
GRAPHICS_KEY = r"HKLM\SYSTEM\CurrentControlSet\Control\GraphicsDrivers"
PLATFORM_KEY = r"HKLM\SYSTEM\CurrentControlSet\Services\vmcompute"
FORWARD_KEY = r"HKLM\SYSTEM\CurrentControlSet\Services\PortProxy\v4tov4\tcp"
FIRST_WINDOWS_11_BUILD = 22000
_WSL2_FLAG = 0x8
_FORWARD = re.compile(r"([^/\s]+)/(\d+)")
_RANGE = re.compile(r"^\s*(\d{1,5})\s+(\d{1,5})\s*\*?\s*$", re.MULTILINE)


@dataclass(frozen=True)
class Cards:
    """The cards as the driver tells them on the Windows side."""

    driver: str
    cards: tuple[NvidiaCard, ...]


@dataclass(frozen=True)
class WindowsParts:
    """What the questions are asked of. ``connect`` tries a TCP connection to an address and a
    port and says ok, refused or timeout; ``excluded_ranges`` is the text of netsh;
    ``lan_addresses`` are this computer's own."""

    registry: Registry
    calls: SystemCalls
    read_counters: Callable[[], GpuMemoryReading]
    cards: Callable[[], Cards]
    read_config: Callable[[], ConfigFile]
    connect: Callable[[str, int], str]
    excluded_ranges: Callable[[], str]
    lan_addresses: Callable[[], Sequence[str]]


def questions(parts: WindowsParts) -> Mapping[str, Callable[[str], str]]:
    """By name."""
    return {
        "windows_system": lambda _endpoint: system(parts),
        "windows_virtual": lambda _endpoint: virtual(parts),
        "windows_wsl": lambda _endpoint: wsl(parts),
        "windows_wslconfig": lambda _endpoint: parts.read_config().to_json() + "\n",
        "windows_memory": lambda _endpoint: f"total_bytes={parts.calls.memory_bytes()}\n",
        "windows_graphics": lambda _endpoint: graphics(parts),
        "windows_gpus": lambda _endpoint: gpus(parts),
        "windows_counters": lambda _endpoint: counters(parts),
        "windows_network": lambda endpoint: network(parts, endpoint),
        "windows_power": lambda _endpoint: power(parts),
    }


def system(parts: WindowsParts) -> str:
    """The registry still calls Windows 11 "Windows 10"; the build tells them apart."""
    values = parts.registry.values(VERSION_KEY)
    build = parts.calls.build()
    product = "Windows 11" if build >= FIRST_WINDOWS_11_BUILD else "Windows 10"
    return _pairs(
        build=build,
        revision=values.get("ubr", ""),
        edition=values.get("editionid", ""),
        product=f"{product} {values.get('displayversion', '')}".strip(),
    )


def virtual(parts: WindowsParts) -> str:
    """The service of the platform exists where the Windows feature is installed."""
    firmware = parts.calls.firmware_virtualisation()
    platform = bool(parts.registry.values(PLATFORM_KEY))
    return _pairs(firmware=_word(firmware), platform=_word(platform))


def wsl(parts: WindowsParts) -> str:
    """Package and distributions, without starting anything."""
    folder = str(parts.registry.values(WSL_PACKAGE_KEY).get("installlocation", ""))
    version = None
    if folder:
        version = parts.calls.file_version(str(PureWindowsPath(folder) / "wsl.exe"))
    lines = [_pairs(installed=_word(bool(folder)), wsl_version=version or "")]
    for guid in parts.registry.subkeys(LXSS_KEY):
        values = parts.registry.values(f"{LXSS_KEY}\\{guid}")
        name, flags = values.get("distributionname"), values.get("flags")
        if isinstance(name, str) and isinstance(flags, int):
            kind = 2 if flags & _WSL2_FLAG else 1
            lines.append(f"distro {kind} {values.get('state', 1)} {name}\n")
    return "".join(lines)


def graphics(parts: WindowsParts) -> str:
    """Time-out of the display driver, hardware scheduling, and where the desktop is shown."""
    values = parts.registry.values(GRAPHICS_KEY)
    scheduling = {2: "on", 1: "off"}.get(int(values.get("hwschmode", 0) or 0), "absent")
    lines = [_pairs(hags=scheduling)]
    lines += [
        f"{name}={values[source]}\n"
        for name, source in (("tdr_delay_s", "tdrdelay"), ("tdr_level", "tdrlevel"))
        if source in values
    ]
    lines += [
        f"display {shown.name} {'primary' if shown.primary else 'other'} {shown.card}\n"
        for shown in parts.calls.displays()
    ]
    return "".join(lines)


def gpus(parts: WindowsParts) -> str:
    """One line a card."""
    found = parts.cards()
    return "".join(
        f"gpu {card.uuid} {_word(card.display)} {found.driver or '-'} {card.name}\n"
        for card in found.cards
    )


def counters(parts: WindowsParts) -> str:
    """One line an adapter."""
    return "".join(
        f"adapter {adapter.luid} {adapter.card_uuid or '-'} "
        f"{_number(adapter.dedicated_bytes)} {_number(adapter.shared_bytes)}\n"
        for adapter in parts.read_counters().adapters
    )


def network(parts: WindowsParts, endpoint: str) -> str:
    """Own addresses, who listens on the server's port, and whether it answers from here."""
    lines = [f"address {address}\n" for address in parts.lan_addresses()]
    lines += [
        f"excluded {first} {last}\n" for first, last in _RANGE.findall(parts.excluded_ranges())
    ]
    lines += _forwards(parts.registry)
    port = endpoint.rpartition(":")[2]
    if not port.isdecimal():
        return "".join([*lines, "connect=not-asked\n"])
    lines += [
        f"listen {found.address} {found.pid} {found.program or '-'}\n"
        for found in parts.calls.listeners(int(port))
    ]
    lines.append(f"checked={port}\n")
    lines.append(f"connect={parts.connect('127.0.0.1', int(port))}\n")
    return "".join(lines)


def _forwards(registry: Registry) -> list[str]:
    """What ``netsh interface portproxy`` has noted, as the service keeps it in the registry."""
    lines = []
    for listen, target in registry.values(FORWARD_KEY).items():
        source, aim = _FORWARD.fullmatch(listen), _FORWARD.fullmatch(str(target))
        if source and aim:
            lines.append(f"forward {source[1]} {source[2]} {aim[1]} {aim[2]}\n")
    return lines


def power(parts: WindowsParts) -> str:
    """Mains and battery."""
    found = parts.calls.power()
    return _pairs(
        line=_word(found.on_line), battery=_word(found.battery), percent=_number(found.percent)
    )


def _pairs(**values: object) -> str:
    return "".join(f"{name}={value}\n" for name, value in values.items())


def _word(value: bool | None) -> str:
    return "unknown" if value is None else "yes" if value else "no"


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)

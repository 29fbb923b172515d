"""The Windows side of the simulated machine: all is well, and nothing of this computer."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Mapping, Sequence

from twinrig.domain.checks import ProbeOutput
from twinrig.domain.wsl_config import ConfigFile
from twinrig.hosts.demo.gpus import CARD_NAME, DRIVER_VERSION, UUIDS
from twinrig.hosts.demo.physics import MIB

CONFIG_PATH = "C:\\Users\\demo\\.wslconfig"
_RAM_BYTES = 64 * 1024**3
_CONNECT_S = 0.5
_SHARED_MIB = (412, 307)


class DemoWindows:
    """``WindowsFacts`` of the demo rig. Whether its server answers is asked for real."""

    def answer(self, names: Sequence[str], endpoint: str = "") -> Mapping[str, ProbeOutput]:
        """At once; return code 3 for a name that nobody knows."""
        found = {}
        for name in names:
            answer = _ANSWERS.get(name)
            if answer is None:
                found[name] = ProbeOutput(name, 3, "", "no such question\n")
            else:
                found[name] = ProbeOutput(name, 0, answer(endpoint))
        return found


def _network(endpoint: str) -> str:
    port = endpoint.rpartition(":")[2]
    if not port.isdecimal():
        return "address 192.168.1.20\nconnect=not-asked\n"
    connect = "refused"
    with (
        contextlib.suppress(OSError),
        socket.create_connection(("127.0.0.1", int(port)), timeout=_CONNECT_S),
    ):
        connect = "ok"
    return f"address 192.168.1.20\nchecked={port}\nconnect={connect}\n"


def _gpus(_endpoint: str) -> str:
    return "".join(
        f"gpu {uuid} {'no' if index else 'yes'} {DRIVER_VERSION} {CARD_NAME}\n"
        for index, uuid in enumerate(UUIDS)
    )


def _counters(_endpoint: str) -> str:
    return "".join(
        f"adapter 0x00000000_0x0000D1{index:02X} {uuid} {1024 * MIB} {_SHARED_MIB[index] * MIB}\n"
        for index, uuid in enumerate(UUIDS)
    )


_ANSWERS: Mapping[str, Callable[[str], str]] = {
    "windows_system": lambda _endpoint: (
        "build=26100\nrevision=4202\nedition=Core\nproduct=Windows 11 24H2\n"
    ),
    "windows_virtual": lambda _endpoint: "firmware=no\nplatform=yes\n",
    "windows_wsl": lambda _endpoint: (
        "installed=yes\nwsl_version=2.7.1.0\ndistro 2 1 Ubuntu-24.04\n"
    ),
    "windows_wslconfig": lambda _endpoint: ConfigFile.of(CONFIG_PATH, None).to_json() + "\n",
    "windows_memory": lambda _endpoint: f"total_bytes={_RAM_BYTES}\n",
    "windows_graphics": lambda _endpoint: f"hags=on\ndisplay \\\\.\\DISPLAY1 primary {CARD_NAME}\n",
    "windows_gpus": _gpus,
    "windows_counters": _counters,
    "windows_network": _network,
    "windows_power": lambda _endpoint: "line=yes\nbattery=no\npercent=-\n",
}

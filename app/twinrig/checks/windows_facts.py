"""Reads the answers of the Windows side."""

from __future__ import annotations

from dataclasses import dataclass

from twinrig.checks.judging import tagged
from twinrig.domain.checks import Facts, ProbeOutput
from twinrig.domain.wsl_config import ConfigFile

_ANYWHERE = frozenset({"0.0.0.0", "*"})
DISPLAY_WORDS = {"yes": True, "no": False, "unknown": None}


@dataclass(frozen=True)
class WindowsCard:
    """One NVIDIA card as Windows has it. ``display`` None: the driver does not tell."""

    uuid: str
    name: str
    driver: str
    display: bool | None


def parse_cards(output: ProbeOutput) -> tuple[WindowsCard, ...]:
    """Rows of ``windows_gpus``; lines that are no rows are skipped."""
    found = []
    for line in tagged(output, "gpu"):
        words = line.split(" ", 3)
        if len(words) == 4 and words[0].startswith("GPU-") and words[1] in DISPLAY_WORDS:
            found.append(WindowsCard(words[0], words[3], words[2], DISPLAY_WORDS[words[1]]))
    return tuple(found)


@dataclass(frozen=True)
class AdapterRow:
    """One adapter of ``windows_counters``; ``uuid`` None: no card that could be told."""

    luid: str
    uuid: str | None
    shared_bytes: int | None


def parse_adapters(output: ProbeOutput) -> tuple[AdapterRow, ...]:
    """Rows of ``windows_counters``; lines that are no rows are skipped."""
    found = []
    for line in tagged(output, "adapter"):
        words = line.split(" ")
        if len(words) == 4:
            uuid = None if words[1] == "-" else words[1]
            shared = int(words[3]) if words[3].isdecimal() else None
            found.append(AdapterRow(words[0], uuid, shared))
    return tuple(found)


def config_of(facts: Facts) -> ConfigFile | None:
    """``.wslconfig``; None when the answer cannot be read."""
    output = facts.probe("windows_wslconfig")
    if output.returncode != 0:
        return None
    try:
        return ConfigFile.from_json(output.stdout)
    except (ValueError, RecursionError):
        return None


@dataclass(frozen=True)
class PortUser:
    """One listener of Windows on the server's port; ``program`` "-" where it may not be asked."""

    address: str
    pid: int
    program: str


@dataclass(frozen=True)
class Forward:
    """One rule that passes connections on to another address."""

    address: str
    port: int
    to_address: str
    to_port: int


@dataclass(frozen=True)
class WindowsNetwork:
    """``checked`` is the port that was asked about, None = none."""

    addresses: tuple[str, ...]
    listeners: tuple[PortUser, ...]
    excluded: tuple[tuple[int, int], ...]
    forwards: tuple[Forward, ...]
    checked: int | None
    connect: str

    def is_excluded(self, port: int) -> bool:
        """Whether Windows keeps this port for itself."""
        return any(first <= port <= last for first, last in self.excluded)

    def forward(self, port: int) -> Forward | None:
        """The rule for connections from anywhere to this port."""
        rules = [f for f in self.forwards if f.port == port and f.address in _ANYWHERE]
        return rules[0] if rules else None

    def holders(self) -> tuple[PortUser, ...]:
        """Listeners beside the one that passes connections on, which is a service of Windows."""
        ours = "0.0.0.0" if self.checked and self.forward(self.checked) else None
        return tuple(found for found in self.listeners if found.address != ours)


def parse_network(output: ProbeOutput) -> WindowsNetwork:
    """Answer of ``windows_network``; lines that are no rows are skipped."""
    pairs = dict(line.partition("=")[::2] for line in output.stdout.splitlines() if "=" in line)
    checked = pairs.get("checked", "")
    return WindowsNetwork(
        addresses=tuple(word for word in tagged(output, "address") if word),
        listeners=tuple(
            PortUser(words[0], int(words[1]), words[2])
            for words in (line.split(" ", 2) for line in tagged(output, "listen"))
            if len(words) == 3 and words[1].isdecimal()
        ),
        excluded=tuple(
            (int(words[0]), int(words[1]))
            for words in (line.split(" ") for line in tagged(output, "excluded"))
            if len(words) == 2 and all(word.isdecimal() for word in words)
        ),
        forwards=tuple(
            Forward(words[0], int(words[1]), words[2], int(words[3]))
            for words in (line.split(" ") for line in tagged(output, "forward"))
            if len(words) == 4 and words[1].isdecimal() and words[3].isdecimal()
        ),
        checked=int(checked) if checked.isdecimal() else None,
        connect=pairs.get("connect", ""),
    )

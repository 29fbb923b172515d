"""Edits of ``.wslconfig``: a table of what each fix sets, and one plan for all of them.

Lines that are not asked for keep their bytes. WSL reads the file when its virtual machine starts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from twinrig.domain.checks import Facts, Finding
from twinrig.domain.fixes import FixPlan, RestartWslStep, WindowsFileStep
from twinrig.domain.ini_text import Wanted, edit_ini
from twinrig.domain.wsl_config import ConfigFile, size_bytes
from twinrig.fixes.planning import UndecidedError, nothing_to_change
from twinrig.messages import N_, Message, message

_GIB = 1024**3
WINDOWS_KEEPS_BYTES = 8 * _GIB
"""RAM that is left to Windows; on a small computer a quarter of it."""


@dataclass(frozen=True)
class Situation:
    """What a row may look at."""

    config: ConfigFile
    facts: Facts
    finding: Finding


@dataclass(frozen=True)
class WslConfigRow:
    """One fix. ``wanted`` gives the values, by section and key; ``title`` is a marked sentence."""

    fix_id: str
    title: str
    wanted: Callable[[Situation], Wanted]
    risk: Message | None = None
    probes: tuple[str, ...] = ()


class WslConfigFix:
    """Raises UndecidedError where the file or a value is not known."""

    def __init__(self, row: WslConfigRow) -> None:
        self.id = row.fix_id
        self.title = row.title
        self.probes: tuple[str, ...] = ("windows_wslconfig", *row.probes)
        self._row = row

    def plan(self, finding: Finding, facts: Facts) -> FixPlan:
        """The file as it is, with the wanted values, then a restart of WSL."""
        config = read_config(facts)
        wanted = self._row.wanted(Situation(config, facts, finding))
        text = edit_ini(config.text, wanted, newline="\r\n")
        return config_plan(self.id, Message(self.title), config, text, self._row.risk)


def config_plan(
    fix_id: str, title: Message, config: ConfigFile, text: str, risk: Message | None
) -> FixPlan:
    """Write the file, then restart WSL. Raises NothingToChangeError for an equal text."""
    if text == config.text:
        raise nothing_to_change(title)
    write = WindowsFileStep(
        config.path, text, expected_sha256=config.sha256, encoding=config.encoding
    )
    return FixPlan(fix_id, title, (write, RestartWslStep()), risk=risk, needs_wsl_shutdown=True)


def read_config(facts: Facts) -> ConfigFile:
    """Raises UndecidedError where Windows cannot be asked or the answer cannot be read."""
    output = facts.probe("windows_wslconfig")
    try:
        if output.returncode == 0:
            return ConfigFile.from_json(output.stdout)
    except (ValueError, RecursionError):
        pass
    raise UndecidedError(
        message("The file .wslconfig could not be read."),
        message("Change it by hand, in your Windows user folder."),
    )


def _always(values: Wanted) -> Callable[[Situation], Wanted]:
    return lambda _situation: values


def _nat(situation: Situation) -> Wanted:
    written = situation.config.ini().value("experimental", "networkingMode")
    extra: Wanted = {} if written is None else {("experimental", "networkingMode"): None}
    return {("wsl2", "networkingMode"): "nat", **extra}


def _memory(situation: Situation) -> Wanted:
    """All RAM but what Windows keeps; swap so that a load fits, a quarter at least."""
    text = situation.facts.probe("windows_memory").stdout.strip().removeprefix("total_bytes=")
    if not text.isdecimal() or int(text) < 8 * _GIB:
        raise UndecidedError(
            message("It is not known how much RAM this computer has."),
            message("Choose the size yourself."),
        )
    total = int(text)
    memory = total - min(WINDOWS_KEEPS_BYTES, total // 4)
    present = size_bytes(situation.config.ini().value("wsl2", "memory") or "")
    if present is not None and memory < present < total:
        memory = present  # the user has chosen more, and that is not the fault
    missing = _needed(situation.finding) - memory
    swap = size_bytes(situation.config.ini().value("wsl2", "swap") or "") or 0
    swap = max(swap, memory // 4, missing + 4 * _GIB)
    return {("wsl2", "memory"): f"{memory // _GIB}GB", ("wsl2", "swap"): f"{-(-swap // _GIB)}GB"}


def _needed(finding: Finding) -> int:
    try:
        return int(float(finding.param("needed_gib", "0")) * _GIB)
    except (ValueError, OverflowError):
        return 0


ROWS: tuple[WslConfigRow, ...] = (
    WslConfigRow(
        "wsl-keepalive",
        N_("Keep WSL running"),
        _always(
            {("general", "instanceIdleTimeout"): "-1", ("wsl2", "vmIdleTimeout"): "-1"},
        ),
        message("WSL keeps its memory until you shut it down, for all distributions."),
    ),
    WslConfigRow(
        "wslconfig-memory",
        N_("Give WSL more memory"),
        _memory,
        message("Windows keeps less memory for its own programs."),
        ("windows_memory",),
    ),
    WslConfigRow(
        "wslconfig-nat",
        N_("Use NAT networking in WSL"),
        _nat,
        message("Programs that rely on the present networking mode must be set up anew."),
    ),
    WslConfigRow(
        "wslconfig-localhost",
        N_("Let Windows reach ports of WSL"),
        _always({("wsl2", "localhostForwarding"): "true"}),
    ),
    WslConfigRow(
        "wsl-dns-fix",
        N_("Repair name resolution in WSL"),
        _always({("wsl2", "dnsTunneling"): "true"}),
        message("Names are then looked up by Windows, for all distributions."),
    ),
)

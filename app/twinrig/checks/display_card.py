"""On which card does Windows show the desktop, and does the server leave it room?

The desktop takes 0.3 to 1.5 GB of that card. A server that takes nearly all of it makes Windows
move memory into RAM, which is slow (microsoft/WSL#11050, #40732).
"""

from __future__ import annotations

from twinrig.checks.gpu_facts import GpuRow, parse_gpus
from twinrig.checks.judging import (
    evidence_of,
    garbled,
    passed,
    probe_fault,
    tagged,
    warned,
)
from twinrig.checks.windows_facts import parse_cards
from twinrig.domain.checks import Check, CheckResult, Facts, Finding, Severity
from twinrig.messages import N_, Message, message

ID = "display-card"
_KIND = "vram-sysmem-spill"
HEADROOM_MIB = 512


def judge(facts: Facts) -> CheckResult:
    """A desktop on a card is usual and no fault; only a share that leaves it nothing is."""
    linux, windows = facts.probe("gpu"), facts.probe("windows_gpus")
    if (fault := probe_fault(ID, linux) or probe_fault(ID, windows)) is not None:
        return fault
    cards, rows = parse_cards(windows), {row.uuid: row for row in parse_gpus(linux)}
    if not cards or not rows:
        return garbled(ID, windows if rows else linux)
    evidence = evidence_of(windows), evidence_of(facts.probe("windows_graphics"))
    shown = [rows[card.uuid] for card in cards if card.display and card.uuid in rows]
    tight = [row for row in shown if _left_mib(facts, row) < HEADROOM_MIB]
    if tight:
        left = max(0, round(_left_mib(facts, tight[0])))
        return warned(
            ID,
            message(
                "Windows shows the desktop on card {index}, and the server leaves it only {left} "
                "MiB there.",
                index=tight[0].index,
                left=left,
            ),
            Finding(
                _KIND,
                (("card", str(tight[0].index)), ("left_mib", str(left))),
                Severity.WARNING,
                ("cfg-lower-gpu-util", "win-free-vram"),
            ),
            *evidence,
        )
    unknown_card = any(card.display is None for card in cards)
    return passed(ID, _where(facts, shown, unknown_card), *evidence)


def _left_mib(facts: Facts, row: GpuRow) -> float:
    share = None if facts.profile is None else facts.profile.settings.get("gpu_memory_utilization")
    if not isinstance(share, (int, float)) or isinstance(share, bool) or not row.memory_total_mib:
        return float("inf")
    return row.memory_total_mib * (1 - float(share))


def _where(facts: Facts, shown: list[GpuRow], unknown_card: bool) -> Message:
    if shown:
        numbers = ", ".join(str(row.index) for row in shown)
        return message("Windows shows the desktop on card {numbers}", numbers=numbers)
    desktop = [line.split(" ", 2) for line in tagged(facts.probe("windows_graphics"), "display")]
    names = sorted({words[2] for words in desktop if len(words) == 3})
    if unknown_card and names:
        return message("Windows shows the desktop on {names}", names=", ".join(names))
    return message("Windows shows no desktop on these cards")


CHECK = Check(
    id=ID,
    title=N_("The desktop has room on its card"),
    probes=("gpu", "windows_gpus", "windows_graphics"),
    judge=judge,
    requires=("gpu-visible",),
    findings=(_KIND,),
)

"""Do Windows and Linux see the same cards and the same driver?

A UUID is the same on both sides. After an update of the driver the Linux side keeps the old one
until WSL is restarted.
"""

from __future__ import annotations

from twinrig.checks.gpu_facts import GpuRow, parse_gpus
from twinrig.checks.judging import evidence_of, failed, garbled, passed, probe_fault, warned
from twinrig.checks.windows_facts import WindowsCard, parse_cards
from twinrig.domain.checks import Check, CheckResult, Evidence, Facts, Finding, Severity
from twinrig.messages import N_, message

ID = "gpu-both-sides"
_KIND = "gpu-sides-differ"
_FIXES = ("wsl-restart", "win-reboot")


def judge(facts: Facts) -> CheckResult:
    """Cards that a profile hides are seen by both sides all the same."""
    linux, windows = facts.probe("gpu"), facts.probe("windows_gpus")
    if (fault := probe_fault(ID, linux) or probe_fault(ID, windows)) is not None:
        return fault
    rows, cards = parse_gpus(linux), parse_cards(windows)
    if not rows:
        return garbled(ID, linux)
    if not cards:
        return garbled(ID, windows)
    evidence = evidence_of(windows), evidence_of(linux)
    seen = {row.uuid for row in rows}
    missing = [card for card in cards if card.uuid not in seen]
    if missing:
        return failed(
            ID,
            message(
                "Windows has {windows} NVIDIA cards, Linux sees {linux}: {card} is missing there.",
                windows=len(cards),
                linux=len(rows),
                card=missing[0].name,
            ),
            Finding(_KIND, (("missing", missing[0].uuid),), fixes=_FIXES),
            *evidence,
        )
    return _drivers(rows, cards, evidence)


def _drivers(
    rows: tuple[GpuRow, ...], cards: tuple[WindowsCard, ...], evidence: tuple[Evidence, ...]
) -> CheckResult:
    inside = {row.driver_version for row in rows if row.driver_version[:1].isdecimal()}
    outside = {card.driver for card in cards if card.driver[:1].isdecimal()}
    if inside and outside and inside != outside:
        old, new = sorted(inside)[0], sorted(outside)[0]
        return warned(
            ID,
            message(
                "Windows has driver {windows}, Linux still works with {linux}.",
                windows=new,
                linux=old,
            ),
            Finding(_KIND, (("windows", new), ("linux", old)), Severity.WARNING, _FIXES),
            *evidence,
        )
    return passed(
        ID,
        message("The same {count} cards on both sides", count=len(cards)),
        *evidence,
    )


CHECK = Check(
    id=ID,
    title=N_("Windows and Linux see the same cards"),
    probes=("gpu", "windows_gpus"),
    judge=judge,
    requires=("gpu-visible",),
    findings=(_KIND,),
)

"""Which programs of the Linux side hold the cards, other than a server of ours?

``nvidia-smi`` names programs and sizes on plain Linux. Under WSL2 it knows neither, so there
processes that have the card's device open are named instead, without sizes.
"""

from __future__ import annotations

from dataclasses import dataclass

from twinrig.checks.gpu_facts import parse_gpus
from twinrig.checks.judging import (
    evidence_of,
    garbled,
    key_values,
    passed,
    probe_fault,
    tagged,
    warned,
)
from twinrig.domain.checks import Check, CheckResult, Facts, Finding, ProbeOutput, Severity
from twinrig.messages import N_, message

ID = "vram-holders"
LARGE_MIB = 1024
"""Below this a program is a desktop, a browser or a monitor, and is left alone."""


@dataclass(frozen=True)
class Holder:
    """A process with a card open. ``mib`` None: its size is not told."""

    pid: int
    command: str
    mib: int | None
    run_id: str = ""


def parse_holders(output: ProbeOutput) -> tuple[Holder, ...]:
    """Largest first; what nvidia-smi tells is joined with what /proc tells, by pid."""
    opened: dict[int, tuple[str, str]] = {}
    for line in tagged(output, "open"):
        pid, run_id, command = (*line.split(" ", 2), "", "")[:3]
        if pid.isdecimal():
            opened[int(pid)] = ("" if run_id == "-" else run_id, command.strip())
    found: dict[int, Holder] = {}
    for line in tagged(output, "app"):
        pid, size, name = (*line.split(" ", 2), "", "")[:3]
        if pid.isdecimal() and not name.startswith("["):
            run_id, command = opened.get(int(pid), ("", ""))
            mib = int(size) if size.isdecimal() else None
            found[int(pid)] = Holder(int(pid), command or name, mib, run_id)
    for number, (run_id, command) in opened.items():
        found.setdefault(number, Holder(number, command, None, run_id))
    return tuple(sorted(found.values(), key=lambda holder: -(holder.mib or 0)))


def judge(facts: Facts) -> CheckResult:
    """A foreign program counts when it is large, or of unknown size on a card that is used."""
    output = facts.probe("holders")
    if (fault := probe_fault(ID, output)) is not None:
        return fault
    if key_values(output).get("checked") != "yes":
        return garbled(ID, output)
    foreign = [h for h in parse_holders(output) if not h.run_id and _counts(facts, h)]
    if not foreign:
        text = message("Other programs on the Linux side that hold the cards: {count}", count=0)
        return passed(ID, text, evidence_of(output))
    names = ", ".join(_named(holder) for holder in foreign[:3])
    params = (("pids", ",".join(str(holder.pid) for holder in foreign)), ("names", names))
    return warned(
        ID,
        message("Other programs hold memory of the cards: {names}", names=names),
        Finding("vram-held", params, Severity.WARNING, ("stop-orphan-workers",)),
        evidence_of(output),
        next_step=message("End what you do not need, then check again."),
    )


def _counts(facts: Facts, holder: Holder) -> bool:
    if holder.mib is not None:
        return holder.mib >= LARGE_MIB
    used = [row.memory_used_mib or 0 for row in parse_gpus(facts.probe("gpu"))]
    return max(used, default=0) >= 2 * LARGE_MIB


def _named(holder: Holder) -> str:
    words = holder.command.split(" ")
    name = " ".join([words[0].rsplit("/", 1)[-1], *words[1:3]])[:60] or "?"
    size = "" if holder.mib is None else f", {holder.mib / 1024:.1f} GiB"
    return f"{name} ({holder.pid}{size})"


CHECK = Check(
    id=ID,
    title=N_("No other program holds the cards"),
    probes=("gpu", "holders"),
    judge=judge,
    requires=("gpu-visible",),
    findings=("vram-held",),
)

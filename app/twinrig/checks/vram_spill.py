"""Does memory of a card lie in RAM? Only Windows' counters tell; the server's log stays clean.

0.3 to 0.5 GB is normal under WSL2. From about 1 GB on a server is slowed down several times.
"""

from __future__ import annotations

from twinrig.checks.gpu_facts import parse_gpus
from twinrig.checks.judging import (
    evidence_of,
    garbled,
    gib,
    passed,
    probe_fault,
    unknown,
    warned,
)
from twinrig.checks.windows_facts import AdapterRow, parse_adapters
from twinrig.domain.checks import Check, CheckResult, Facts, Finding, ProbeOutput, Severity
from twinrig.messages import N_, message

ID = "vram-spill"
_KIND = "vram-sysmem-spill"
SPILL_BYTES = 1024**3


def judge(facts: Facts) -> CheckResult:
    """An adapter that is none of the cards (an integrated one) may use as much RAM as it likes."""
    output, linux = facts.probe("windows_counters"), facts.probe("gpu")
    if (fault := probe_fault(ID, output) or probe_fault(ID, linux)) is not None:
        return fault
    adapters = parse_adapters(output)
    rows = {row.uuid: row for row in parse_gpus(linux)}
    if not adapters or not rows:
        return garbled(ID, output if not adapters else linux)
    cards = [a for a in adapters if a.uuid in rows and a.shared_bytes is not None]
    if not cards:
        return _unplaced(adapters, output)
    worst = max(cards, key=lambda adapter: adapter.shared_bytes or 0)
    shared = worst.shared_bytes or 0
    index = rows[worst.uuid or ""].index
    if shared < SPILL_BYTES:
        return passed(
            ID,
            message("Memory of the cards that lies in RAM: at most {size} GiB", size=gib(shared)),
            evidence_of(output),
        )
    return warned(
        ID,
        message(
            "{size} GiB of card {index} lie in RAM: the server becomes several times slower.",
            size=gib(shared),
            index=index,
        ),
        Finding(
            _KIND,
            (("card", str(index)), ("shared_gib", gib(shared))),
            Severity.WARNING,
            ("cfg-lower-gpu-util", "win-free-vram", "win-sysmem-policy"),
        ),
        evidence_of(output),
    )


def _unplaced(adapters: tuple[AdapterRow, ...], output: ProbeOutput) -> CheckResult:
    """No adapter could be told to be a card: little RAM at all is proof, much is none."""
    highest = max((a.shared_bytes for a in adapters if a.shared_bytes is not None), default=None)
    if highest is not None and highest < SPILL_BYTES:
        return passed(
            ID,
            message("Memory of the cards that lies in RAM: at most {size} GiB", size=gib(highest)),
            evidence_of(output),
        )
    return unknown(
        ID,
        message("Windows counts memory in RAM, but not for which graphics card."),
        evidence_of(output),
    )


CHECK = Check(
    id=ID,
    title=N_("No memory of the cards lies in RAM"),
    probes=("gpu", "windows_counters"),
    judge=judge,
    requires=("gpu-visible",),
    findings=(_KIND,),
)

"""Is there enough RAM to load the model?

Weights are read through the page cache, so RAM smaller than the model is slow but no fault.
What must fit is what each worker process holds for itself, plus the largest file in flight
while it is copied to the card.
"""

from __future__ import annotations

import re

from twinrig.checks.judging import (
    evidence_of,
    failed,
    garbled,
    gib,
    on_wsl,
    passed,
    probe_fault,
    unknown,
    warned,
)
from twinrig.checks.model_facts import ModelAnswer, parse_model
from twinrig.checks.profile_facts import rank_count
from twinrig.domain.checks import Check, CheckResult, Evidence, Facts, Finding, Severity
from twinrig.messages import N_, message

ID = "ram-size"
_GIB = 1024**3
BASE_BYTES = 2 * _GIB
PER_RANK_BYTES = 3 * _GIB
_LINE = re.compile(r"^(\w+):\s+(\d+) kB$", re.MULTILINE)


def needed_bytes(model: ModelAnswer, ranks: int) -> int:
    """Least memory, RAM and swap together, that a load needs."""
    largest = max((size for _, size in model.weights), default=0)
    return BASE_BYTES + ranks * PER_RANK_BYTES + min(largest, 5 * _GIB)


def judge(facts: Facts) -> CheckResult:
    """FAIL when all of RAM and swap is less than needed, WARN when only what is free is."""
    memory, model = facts.probe("memory"), facts.probe("model")
    if (fault := probe_fault(ID, memory) or probe_fault(ID, model)) is not None:
        return fault
    values = {name: int(kib) * 1024 for name, kib in _LINE.findall(memory.stdout)}
    if "MemTotal" not in values:
        return garbled(ID, memory)
    if "MemAvailable" not in values:
        return unknown(ID, message("The kernel does not say how much RAM is free."))
    answer = parse_model(model)
    needed = needed_bytes(answer, rank_count(facts.profile))
    total = values["MemTotal"] + values.get("SwapTotal", 0)
    free = values["MemAvailable"] + values.get("SwapFree", 0)
    evidence = (evidence_of(memory), evidence_of(model, _weight_lines(answer)))
    if free >= needed:
        return passed(
            ID,
            message(
                "RAM: {total} GiB, free {free} GiB; the model has {model} GiB",
                total=gib(values["MemTotal"]),
                free=gib(values["MemAvailable"]),
                model=gib(answer.weight_bytes),
            ),
            *evidence,
        )
    return _short(facts, needed, total, free, evidence)


def _short(
    facts: Facts, needed: int, total: int, free: int, evidence: tuple[Evidence, ...]
) -> CheckResult:
    params = (
        ("needed_gib", gib(needed)),
        ("total_gib", gib(total)),
        ("free_gib", gib(free)),
    )
    fixes = ("wslconfig-memory", "wsl-restart") if on_wsl(facts) else ()
    if total < needed:
        return failed(
            ID,
            message(
                "Loading needs about {needed} GiB of RAM and swap; there are {total} GiB.",
                needed=gib(needed),
                total=gib(total),
            ),
            Finding("ram-oom-killed", params, fixes=fixes),
            *evidence,
            next_step=message("Give the Linux side more memory or swap, or use a smaller model."),
        )
    return warned(
        ID,
        message(
            "Loading needs about {needed} GiB of RAM and swap; {free} GiB are free now.",
            needed=gib(needed),
            free=gib(free),
        ),
        Finding("ram-oom-killed", params, Severity.WARNING, fixes),
        *evidence,
        next_step=message("Close programs that use much RAM before you start the server."),
    )


def _weight_lines(answer: ModelAnswer) -> list[str]:
    return [f"{size} {name}" for name, size in answer.weights]


CHECK = Check(
    id=ID,
    title=N_("RAM for loading the model"),
    probes=("system", "memory", "model"),
    judge=judge,
    requires=("model-folder",),
    needs_profile=True,
    findings=("ram-oom-killed",),
)

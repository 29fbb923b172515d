"""Is /dev/shm big enough for workers that talk through it?

NCCL's shared-memory transport and vLLM's message queues need some tens of MiB a card; 64 MiB
(a container's default) is too little, 1 GiB is plenty.
"""

from __future__ import annotations

from twinrig.checks.disk_facts import parse_df
from twinrig.checks.judging import (
    evidence_of,
    failed,
    garbled,
    gib,
    passed,
    probe_fault,
    skipped,
    tagged,
    warned,
)
from twinrig.checks.profile_facts import rank_count
from twinrig.domain.checks import Check, CheckResult, Facts, Finding, Severity
from twinrig.messages import N_, message

ID = "shm-size"
MINIMUM_BYTES = 256 * 1024**2
COMFORTABLE_BYTES = 1024**3


def judge(facts: Facts) -> CheckResult:
    """Judges what is free, not the size: leftovers of a dead server count."""
    if rank_count(facts.profile) < 2:
        return skipped(ID, message("The profile uses one card; shared memory is not needed."))
    output = facts.probe("shm")
    if (fault := probe_fault(ID, output)) is not None:
        return fault
    places = parse_df(output.stdout)
    if len(places) != 1:
        return garbled(ID, output)
    place = places[0]
    left = len(tagged(output, "left"))
    params = (
        ("free_mib", str(place.available_bytes // 1024**2)),
        ("size_mib", str(place.total_bytes // 1024**2)),
        ("leftovers", str(left)),
    )
    if place.available_bytes >= COMFORTABLE_BYTES:
        return passed(
            ID,
            message("Free in /dev/shm: {free} GiB", free=gib(place.available_bytes)),
            evidence_of(output),
        )
    summary = message(
        "Only {free} MiB are free in /dev/shm; files left there: {left}",
        free=place.available_bytes // 1024**2,
        left=left,
    )
    next_step = message(
        "Stop servers that still run and remove what they left, or give WSL more memory; "
        "a container needs --ipc=host or --shm-size."
    )
    if place.available_bytes >= MINIMUM_BYTES:
        finding = Finding("shm-too-small", params, Severity.WARNING, ("shm-size",))
        return warned(ID, summary, finding, evidence_of(output), next_step=next_step)
    finding = Finding("shm-too-small", params, fixes=("shm-size",))
    return failed(ID, summary, finding, evidence_of(output), next_step=next_step)


CHECK = Check(
    id=ID,
    title=N_("Shared memory for both cards"),
    probes=("shm",),
    judge=judge,
    needs_profile=True,
    findings=("shm-too-small",),
)

"""Are there workers of a vLLM whose API server is gone? They keep video memory and shared memory.

Seen in our own run of vLLM 0.32: after ``kill -9`` of the parent the children live on. Where an
API server runs, its workers are nobody's orphans.
"""

from __future__ import annotations

from twinrig.checks.judging import (
    evidence_of,
    failed,
    garbled,
    key_values,
    passed,
    probe_fault,
    tagged,
)
from twinrig.domain.checks import Check, CheckResult, Facts, Finding
from twinrig.messages import N_, message

ID = "orphan-workers"


def judge(facts: Facts) -> CheckResult:
    """FAIL when workers run and no API server does."""
    output = facts.probe("workers")
    if (fault := probe_fault(ID, output)) is not None:
        return fault
    if key_values(output).get("checked") != "yes":
        return garbled(ID, output)
    workers, servers = tagged(output, "worker"), tagged(output, "server")
    pids = [line.partition(" ")[0] for line in workers]
    if not workers or servers:
        text = message("Workers without a server: {count}", count=0)
        return passed(ID, text, evidence_of(output))
    return failed(
        ID,
        message(
            "Workers of a server that is gone still hold the cards: {pids}", pids=", ".join(pids)
        ),
        Finding("vllm-orphan-workers", (("pids", ",".join(pids)),), fixes=("stop-orphan-workers",)),
        evidence_of(output),
    )


CHECK = Check(
    id=ID,
    title=N_("No workers left over"),
    probes=("workers",),
    judge=judge,
    findings=("vllm-orphan-workers",),
)

"""Are the cards alike? Tensor parallelism cuts evenly, so the smaller card decides for both.

Different names alone are harmless (vLLM only mentions them); memory that differs by more than a
tenth wastes the larger card, and a split by layers uses it better.
"""

from __future__ import annotations

from twinrig.checks.gpu_facts import parse_gpus
from twinrig.checks.judging import evidence_of, garbled, passed, probe_fault, warned
from twinrig.checks.profile_facts import tensor_parallel_size
from twinrig.domain.checks import Check, CheckResult, Facts, Finding, Severity
from twinrig.messages import N_, message

ID = "gpu-mismatch"
_ALIKE = 0.9


def judge(facts: Facts) -> CheckResult:
    """One card, or a profile that does not split layers, has nothing to compare."""
    output = facts.probe("gpu")
    if (fault := probe_fault(ID, output)) is not None:
        return fault
    rows = [row for row in parse_gpus(output) if row.memory_total_mib]
    if not rows:
        return garbled(ID, output)
    sizes = sorted(row.memory_total_mib or 0 for row in rows)
    names = ", ".join(dict.fromkeys(row.name for row in rows))
    chosen = facts.profile is not None and "CUDA_VISIBLE_DEVICES" in facts.profile.env
    if tensor_parallel_size(facts.profile) < 2 or sizes[0] >= sizes[-1] * _ALIKE or chosen:
        return passed(ID, message("Cards: {names}", names=names), evidence_of(output))
    return warned(
        ID,
        message(
            "The cards differ in memory: {small} and {large} MiB; the smaller one decides.",
            small=sizes[0],
            large=sizes[-1],
        ),
        Finding(
            "gpu-mismatch",
            (("smallest_mib", str(sizes[0])), ("largest_mib", str(sizes[-1]))),
            Severity.WARNING,
            ("env-device-order", "cfg-lower-gpu-util", "tabby-gpu-split"),
        ),
        evidence_of(output),
    )


CHECK = Check(
    id=ID,
    title=N_("Cards are alike"),
    probes=("gpu",),
    judge=judge,
    requires=("gpu-visible",),
    needs_profile=True,
    findings=("gpu-mismatch",),
)

"""Is as much of each card free as the server is going to claim?

vLLM claims a share of the whole card at its start and ends when less is free (0.9 and newer).
Source: vLLM's gpu_worker; the share's default is 0.92. A server that runs already holds its part.
"""

from __future__ import annotations

from twinrig.checks.gpu_facts import GpuRow, parse_gpus
from twinrig.checks.judging import evidence_of, failed, garbled, passed, probe_fault, tagged
from twinrig.domain.checks import Check, CheckResult, Facts, Finding
from twinrig.domain.profile import Profile
from twinrig.messages import N_, message

ID = "vram-free"
DEFAULT_SHARE = 0.92
_MIB_PER_GIB = 1024


def judge(facts: Facts) -> CheckResult:
    """The tightest card decides. Cards that do not tell their memory are no reason to warn."""
    output, workers = facts.probe("gpu"), facts.probe("workers")
    if (fault := probe_fault(ID, output)) is not None:
        return fault
    rows = [r for r in parse_gpus(output) if r.memory_total_mib and r.memory_used_mib is not None]
    if not rows:
        return garbled(ID, output)
    share = _share(facts.profile)
    tight = min(rows, key=lambda row: _free(row) - share * (row.memory_total_mib or 0))
    free, total = _free(tight), tight.memory_total_mib or 0
    summary = message(
        "Free on {card} {index}: {free} GiB of {total} GiB, wanted: {wanted} GiB",
        card=tight.name,
        index=tight.index,
        free=f"{free / _MIB_PER_GIB:.1f}",
        total=f"{total / _MIB_PER_GIB:.1f}",
        wanted=f"{share * total / _MIB_PER_GIB:.1f}",
    )
    busy = tagged(workers, "server") or tagged(workers, "worker")
    if free >= share * total or busy:
        return passed(ID, summary, evidence_of(output))
    return failed(
        ID,
        summary,
        Finding(
            "vram-startup-not-free",
            (
                ("gpu", str(tight.index)),
                ("free_gib", f"{free / _MIB_PER_GIB:.2f}"),
                ("total_gib", f"{total / _MIB_PER_GIB:.2f}"),
            ),
            fixes=("cfg-lower-gpu-util", "win-free-vram"),
        ),
        evidence_of(output),
    )


def _free(row: GpuRow) -> int:
    return (row.memory_total_mib or 0) - (row.memory_used_mib or 0)


def _share(profile: Profile | None) -> float:
    value = profile.settings.get("gpu_memory_utilization") if profile else None
    plain = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if plain and isinstance(value, (int, float)) else DEFAULT_SHARE


CHECK = Check(
    id=ID,
    title=N_("Video memory is free"),
    probes=("gpu", "workers"),
    judge=judge,
    requires=("gpu-visible",),
    needs_profile=True,
    engines=("vllm",),
    findings=("vram-startup-not-free",),
)

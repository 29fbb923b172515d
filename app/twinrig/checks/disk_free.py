"""Is there room for logs, compile caches and temporary files?"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from twinrig.checks.disk_facts import DiskSpace, parse_df
from twinrig.checks.judging import (
    evidence_of,
    failed,
    garbled,
    gib,
    on_wsl,
    passed,
    probe_fault,
    warned,
)
from twinrig.domain.checks import Check, CheckResult, Facts, Finding, Severity
from twinrig.messages import N_, message

ID = "disk-free"
_GIB = 1024**3
# (fails below, warns below): vLLM's compile cache takes some hundred MiB a model, in the home.
LIMITS: Mapping[str, tuple[int, int]] = MappingProxyType(
    {"home": (_GIB, 5 * _GIB), "temporary": (_GIB // 4, _GIB)}
)


def judge(facts: Facts) -> CheckResult:
    """Places the server writes to; the model's own disk may be full to the brim."""
    output = facts.probe("disk")
    if (fault := probe_fault(ID, output)) is not None:
        return fault
    places = {place.label: place for place in parse_df(output.stdout)}
    if any(label not in places for label in LIMITS):
        return garbled(ID, output)
    full = [p for label, p in places.items() if p.available_bytes < LIMITS.get(label, (0, 0))[0]]
    low = [p for label, p in places.items() if p.available_bytes < LIMITS.get(label, (0, 0))[1]]
    if not low:
        home = places["home"]
        return passed(
            ID,
            message(
                "Free on {mount}: {free} GiB", mount=home.mount, free=gib(home.available_bytes)
            ),
            evidence_of(output),
        )
    worst = min(full or low, key=lambda place: place.available_bytes)
    summary = message(
        "Only {free} GiB are free on {mount}.",
        free=gib(worst.available_bytes),
        mount=worst.mount,
    )
    finding = _finding(worst, on_wsl(facts), blocking=bool(full))
    next_step = message("Remove models and caches that are not needed any more.")
    make = failed if full else warned
    return make(ID, summary, finding, evidence_of(output), next_step=next_step)


def _finding(place: DiskSpace, wsl: bool, *, blocking: bool) -> Finding:
    return Finding(
        "disk-full",
        (("mount", place.mount), ("free_mib", str(place.available_bytes // 1024**2))),
        Severity.BLOCKING if blocking else Severity.WARNING,
        ("free-disk", "wsl-resize-vhd") if wsl else ("free-disk",),
    )


CHECK = Check(
    id=ID,
    title=N_("Disk space"),
    probes=("system", "disk"),
    judge=judge,
    findings=("disk-full",),
)

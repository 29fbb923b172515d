"""Do the cards have the power that they are made for, and as much as each other?

In tensor parallelism the card with less power holds up the other one. A limit that somebody
lowered a little, for noise or heat, costs few per cent and is no reason to warn.
"""

from __future__ import annotations

from twinrig.checks.gpu_links import LinkRow, parse_links
from twinrig.checks.judging import evidence_of, passed, probe_fault, skipped, warned
from twinrig.domain.checks import Check, CheckResult, Facts, Finding, Severity
from twinrig.messages import N_, message

ID = "power-limit"
LOWEST_SHARE = 0.55
"""Of the maker's own limit; generation loses little down to about 60 %."""
DIFFERENT_SHARE = 0.15


def judge(facts: Facts) -> CheckResult:
    """A limit far below the maker's, or equal cards with unequal limits."""
    output = facts.probe("gpu")
    if (fault := probe_fault(ID, output)) is not None:
        return fault
    rows = [row for row in parse_links(output) if row.limit_w and row.usual_limit_w]
    if not rows:
        return skipped(ID, message("The driver does not tell the power limits."))
    low = min(rows, key=_share)
    high = max((row for row in rows if row.name == low.name), key=_share)
    params = (("gpu", str(low.index)), ("limit_w", f"{low.limit_w:.0f}"))
    if _share(low) < LOWEST_SHARE:
        summary = message(
            "{card} {index} may draw only {limit} W of {usual} W.",
            card=low.name,
            index=low.index,
            limit=f"{low.limit_w:.0f}",
            usual=f"{low.usual_limit_w:.0f}",
        )
    elif _share(high) - _share(low) > DIFFERENT_SHARE:
        summary = message(
            "The cards may draw {low} W and {high} W; the weaker one holds up the other.",
            low=f"{low.limit_w:.0f}",
            high=f"{high.limit_w:.0f}",
        )
    else:
        limits = ", ".join(f"{row.limit_w:.0f} W" for row in rows)
        return passed(ID, message("Power limits: {limits}", limits=limits), evidence_of(output))
    return warned(
        ID,
        summary,
        Finding("power-limit-low", params, Severity.WARNING),
        evidence_of(output),
        next_step=message(
            "Raise the limit in the tool that set it, such as MSI Afterburner, or with "
            "nvidia-smi as administrator: nvidia-smi -i {index} -pl {usual}",
            index=low.index,
            usual=f"{low.usual_limit_w:.0f}",
        ),
    )


def _share(row: LinkRow) -> float:
    return (row.limit_w or 0.0) / (row.usual_limit_w or 1.0)


CHECK = Check(
    id=ID,
    title=N_("Cards have their power"),
    probes=("gpu",),
    judge=judge,
    requires=("gpu-visible",),
    findings=("power-limit-low",),
)

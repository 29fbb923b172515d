"""Is each card's slot fast enough for what two cards tell each other?

With tensor parallelism every layer of every token crosses the slots, long prompts most of all.
Eight lanes of generation 3 or four of generation 4 (7.9 GB/s) are usual for two cards on one
consumer board; a riser or a chipset slot with less slows both cards down.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from twinrig.checks.gpu_links import LinkRow, parse_links
from twinrig.checks.judging import evidence_of, passed, probe_fault, skipped, warned
from twinrig.checks.profile_facts import rank_count
from twinrig.domain.checks import Check, CheckResult, Facts, Finding, Severity
from twinrig.messages import N_, message

ID = "pcie-link"
_LAYER_SPLIT: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"tabbyapi": ("tabby-disable-tp",), "vllm": ("cfg-pp-2",)}
)
"""The fix by which each engine gives a card half of the layers."""
USUAL_GBPS = 7.0


def judge(facts: Facts) -> CheckResult:
    """The slowest card decides; without a second card nothing crosses the slots."""
    output = facts.probe("gpu")
    if (fault := probe_fault(ID, output)) is not None:
        return fault
    rows = [row for row in parse_links(output) if row.gbps is not None]
    if not rows:
        return skipped(ID, message("The driver does not tell how the cards are connected."))
    slow = min(rows, key=lambda row: row.gbps or 0.0)
    summary = message(
        "Slowest slot: GPU {index} {card}, PCIe {generation} with {lanes} lanes ({gbps} GB/s)",
        card=slow.name,
        index=slow.index,
        generation=slow.generation or 0,
        lanes=slow.lanes or 0,
        gbps=f"{slow.gbps or 0.0:.1f}",
    )
    if (slow.gbps or 0.0) >= USUAL_GBPS or rank_count(facts.profile) < 2:
        return passed(ID, summary, evidence_of(output))
    return warned(
        ID,
        summary,
        Finding("pcie-link-narrow", _params(slow), Severity.WARNING, _fixes(facts)),
        evidence_of(output),
        next_step=message(
            "Put the card into a slot with more lanes, without a riser; look at the board's "
            "manual for which slots share lanes."
        ),
    )


def _params(row: LinkRow) -> tuple[tuple[str, str], ...]:
    return (("gpu", str(row.index)), ("lanes", str(row.lanes)), ("gbps", f"{row.gbps:.1f}"))


def _fixes(facts: Facts) -> tuple[str, ...]:
    """Halves of layers cross the slots once a token, where the engine offers them."""
    return _LAYER_SPLIT.get(facts.profile.engine.id, ()) if facts.profile else ()


CHECK = Check(
    id=ID,
    title=N_("Slots of the cards are fast enough"),
    probes=("gpu",),
    judge=judge,
    requires=("gpu-visible",),
    findings=("pcie-link-narrow",),
)

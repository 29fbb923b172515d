"""Are there as many cards as the profile splits the model over?"""

from __future__ import annotations

from twinrig.checks.gpu_facts import parse_gpus
from twinrig.checks.judging import evidence_of, failed, garbled, passed, probe_fault
from twinrig.checks.profile_facts import rank_count, visible_cards
from twinrig.domain.checks import Check, CheckResult, Evidence, Facts, Finding
from twinrig.messages import N_, message

ID = "gpu-count"


def judge(facts: Facts) -> CheckResult:
    """FAIL tp-exceeds-gpus when fewer cards are visible to the server than it needs."""
    output = facts.probe("gpu")
    if (fault := probe_fault(ID, output)) is not None:
        return fault
    rows = parse_gpus(output)
    if not rows:
        return garbled(ID, output)
    wanted = rank_count(facts.profile)
    chosen = visible_cards(facts.profile)
    usable = len(rows) if chosen is None else min(chosen, len(rows))
    through = "all" if chosen is None else str(chosen)
    asked = Evidence("profile", f"cards wanted: {wanted}, let through: {through}")
    if usable >= wanted:
        return passed(
            ID,
            message("Cards needed: {wanted}, usable: {usable}", wanted=wanted, usable=usable),
            asked,
            evidence_of(output),
        )
    return failed(
        ID,
        message(
            "The profile needs {wanted} cards, but the server can use {usable}.",
            wanted=wanted,
            usable=usable,
        ),
        Finding(
            "tp-exceeds-gpus",
            (("wanted", str(wanted)), ("usable", str(usable))),
            fixes=("cfg-gpu-select", "cfg-tp-1"),
        ),
        asked,
        evidence_of(output),
    )


CHECK = Check(
    id=ID,
    title=N_("Enough cards for the profile"),
    probes=("gpu",),
    judge=judge,
    requires=("gpu-visible",),
    needs_profile=True,
    findings=("tp-exceeds-gpus",),
)

"""Is WSL new enough for the cards? Before 2.7.0 capturing CUDA graphs on RTX 50 cards crashed.

Sources: vllm-project/vllm#37242, microsoft/WSL#14452.
"""

from __future__ import annotations

from twinrig.checks.engine_facts import within
from twinrig.checks.gpu_facts import parse_gpus
from twinrig.checks.judging import (
    evidence_of,
    failed,
    key_values,
    on_wsl,
    passed,
    probe_fault,
    unknown,
)
from twinrig.domain.checks import Check, CheckResult, Facts, Finding
from twinrig.messages import N_, message

ID = "wsl-version"
_BLACKWELL = (12, 0)


def judge(facts: Facts) -> CheckResult:
    """Older cards and a server without graphs are content with any WSL 2."""
    output = facts.probe("wsl")
    if (fault := probe_fault(ID, facts.probe("system")) or probe_fault(ID, output)) is not None:
        return fault
    if not on_wsl(facts):
        return passed(ID, message("Not under WSL"), evidence_of(facts.probe("system")))
    version = key_values(output).get("wsl_version", "") or _of_windows(facts)
    new = [
        row for row in parse_gpus(facts.probe("gpu")) if (row.capability or (0, 0)) >= _BLACKWELL
    ]
    eager = facts.profile is not None and facts.profile.settings.get("enforce_eager") is True
    old = within(version, "<2.7")
    if not new or eager or old is False:
        text = message("WSL {version}", version=version or "2")
        return passed(ID, text, evidence_of(facts.probe("system")), evidence_of(output))
    if old is None:
        return unknown(ID, message("The version of WSL could not be read."), evidence_of(output))
    return failed(
        ID,
        message(
            "WSL {version} crashes while it captures CUDA graphs on {card}; 2.7 does not.",
            version=version,
            card=new[0].name,
        ),
        Finding(
            "blackwell-graphs-wsl",
            (("wsl_version", version),),
            fixes=("wsl-update", "cfg-enforce-eager"),
        ),
        evidence_of(output),
    )


def _of_windows(facts: Facts) -> str:
    """For distributions without wslinfo: the version of the installed package."""
    return key_values(facts.probe("windows_wsl")).get("wsl_version", "")


CHECK = Check(
    id=ID,
    title=N_("WSL is new enough for the cards"),
    probes=("system", "wsl", "gpu"),
    judge=judge,
    requires=("gpu-visible",),
    findings=("blackwell-graphs-wsl",),
    optional=("windows_wsl",),
)

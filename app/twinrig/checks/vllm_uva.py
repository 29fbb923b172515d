"""Can this vLLM build its model runner under WSL2?

The V2 runner needs pinned memory, which vLLM switches off under WSL2. By version, as read in the
packages: 0.20 and 0.21 only when asked for; 0.22 to 0.24 for some architectures; 0.25 to 0.29 for
nearly every model; 0.30 falls back. The variable for pinned memory exists from 0.24 on.
"""

from __future__ import annotations

from twinrig.checks.engine_facts import within
from twinrig.checks.judging import evidence_of, failed, on_wsl, passed, probe_fault, unknown, warned
from twinrig.domain.checks import Check, CheckResult, Evidence, Facts, Finding, Severity
from twinrig.messages import N_, message

ID = "vllm-uva"
RUNNER, PINNED = "VLLM_USE_V2_MODEL_RUNNER", "VLLM_WSL2_ENABLE_PIN_MEMORY"


def judge(facts: Facts) -> CheckResult:
    """Native Linux and other versions are never concerned."""
    output = facts.probe("system")
    if (fault := probe_fault(ID, output)) is not None:
        return fault
    version = facts.install.version if facts.install else ""
    evidence = (Evidence("vLLM", version or "?"), evidence_of(output))
    if not on_wsl(facts):
        return passed(ID, message("Not under WSL"), *evidence)
    concerned = within(version, ">=0.20,<0.30")
    if concerned is None:
        return unknown(ID, message("The version of vLLM could not be read."), *evidence)
    if not concerned or _is_answered(facts, version):
        return passed(ID, message("vLLM {version} starts under WSL", version=version), *evidence)
    fixes = ("env-vllm-pin-memory",) if within(version, ">=0.24") else ()
    summary = message(
        "vLLM {version} needs pinned memory, which it switches off under WSL.", version=version
    )
    sure = within(version, ">=0.25,<0.30") or within(version, "<0.22")
    finding = Finding(
        "vllm-uva-wsl",
        (("version", version),),
        Severity.BLOCKING if sure else Severity.WARNING,
        (*fixes, "env-vllm-runner-v1", "pkg-upgrade-engine"),
    )
    return (failed if sure else warned)(ID, summary, finding, *evidence)


def _is_answered(facts: Facts, version: str) -> bool:
    env = facts.profile.env if facts.profile else {}
    runner = env[RUNNER].value if RUNNER in env else ""
    if within(version, "<0.22"):
        return runner != "1"
    pinned = PINNED in env and env[PINNED].value == "1" and bool(within(version, ">=0.24"))
    return runner == "0" or pinned


CHECK = Check(
    id=ID,
    title=N_("vLLM can start under WSL"),
    probes=("system",),
    judge=judge,
    requires=("engine-installed",),
    needs_profile=True,
    engines=("vllm",),
    findings=("vllm-uva-wsl",),
)

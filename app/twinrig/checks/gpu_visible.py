"""Does the Linux side see an NVIDIA card?"""

from __future__ import annotations

import re

from twinrig.checks.gpu_facts import parse_gpus
from twinrig.checks.judging import evidence_of, failed, garbled, on_wsl, passed, probe_fault
from twinrig.domain.checks import Check, CheckResult, Facts, Finding, ProbeOutput
from twinrig.messages import N_, message

ID = "gpu-visible"
_WSL_FIXES = (
    "wsl-restart",
    "wsl-ldpath-wsllib",
    "win-driver-update",
    "wsl-remove-linux-driver",
)
# Return codes of nvidia-smi: 6 no device, 9 driver not loaded, 12 no NVML library, 15 GPU lost.
_LOST_CODE = 15
_NO_GPU_CODES = frozenset({6, 9, 12, 18})
# Codes differ by version; these sentences have been the same since 2018.
_NO_NVML = re.compile(
    r"Failed to initialize NVML: (GPU access blocked|Driver/library version mismatch|N/A)"
    r"|NVML Shared Library Not Found"
)


def judge(facts: Facts) -> CheckResult:
    """FAIL without nvidia-smi, driver or card; ERROR when the answer makes no sense."""
    output = facts.probe("gpu")
    rows = parse_gpus(output)
    blocked = output.returncode != 0 and _NO_NVML.search(output.stdout + output.stderr)
    if output.missing_program or output.returncode in _NO_GPU_CODES or blocked:
        return _nothing_seen(facts, output)
    if output.returncode == _LOST_CODE or "GPU is lost" in output.stdout + output.stderr:
        return failed(
            ID,
            message("A graphics card does not answer any more."),
            Finding("gpu-lost-tdr", fixes=("win-reboot",) if on_wsl(facts) else ()),
            evidence_of(output),
            next_step=message("Restart the computer, then check power and temperature."),
        )
    if (fault := probe_fault(ID, output)) is not None:
        return fault
    if not rows:
        if "No devices were found" in output.stdout + output.stderr:
            return _nothing_seen(facts, output)
        return garbled(ID, output)
    names = ", ".join(row.name for row in rows)
    return passed(
        ID,
        message("NVIDIA cards: {count} ({names})", count=len(rows), names=names),
        evidence_of(output),
    )


def _nothing_seen(facts: Facts, output: ProbeOutput) -> CheckResult:
    if on_wsl(facts):
        return failed(
            ID,
            message("WSL does not see an NVIDIA card."),
            Finding("cuda-driver-missing-wsl", fixes=_WSL_FIXES),
            evidence_of(output),
            next_step=message(
                "Restart WSL with “wsl --shutdown”; if that does not help, update the NVIDIA "
                "driver on Windows. Never install a Linux driver inside WSL."
            ),
        )
    return failed(
        ID,
        message("This computer does not show an NVIDIA card."),
        Finding("gpu-not-visible"),
        evidence_of(output),
        next_step=message("Install the NVIDIA driver of your distribution and restart."),
    )


CHECK = Check(
    id=ID,
    title=N_("NVIDIA cards are visible"),
    probes=("system", "gpu"),
    judge=judge,
    findings=("cuda-driver-missing-wsl", "gpu-not-visible", "gpu-lost-tdr"),
)

"""Does the engine's compiled part really load, and does each card run a kernel?

What lies on disk may fit and still not load. Slow (torch alone takes seconds), so only when asked.
Sources of the signatures: failure catalogue B.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from twinrig.checks.judging import failed, garbled, passed, probe_fault
from twinrig.domain.checks import Check, CheckResult, Cost, Evidence, Facts, Finding, ProbeOutput
from twinrig.messages import N_, message

ID = "native-import"
_PATTERNS: Mapping[str, str] = MappingProxyType(
    {
        "cudart13-missing": r"libcudart\.so\.\d+: cannot open",
        "nccl-lib-mismatch": r"undefined symbol: nccl\w+",
        "torch-abi-mismatch": r"undefined symbol: \w+",
        "cuda-driver-missing-wsl": r"libcuda\.so\.1: cannot open|Failed to initialize NVML",
        "torch-cpu-build": r"Torch not compiled with CUDA enabled|libtorch_cuda\.so: cannot open",
        "driver-too-old": r"NVIDIA driver on your system is too old",
        "no-kernel-image": r"no kernel image is available"
        r"|is not compatible with the current PyTorch installation",
        "ptx-unsupported": r"unsupported toolchain|cudaErrorUnsupportedPtxVersion",
        "exl3-source-package": r"CUDA_HOME environment variable is not set|Ninja is required"
        r"|No module named 'exllamav3_ext'",
    }
)
FIXES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "cudart13-missing": ("pkg-cu12-wheels", "win-driver-update"),
        "nccl-lib-mismatch": ("env-unset-ld-library-path", "pkg-reinstall-matching"),
        "torch-abi-mismatch": ("pkg-reinstall-matching",),
        "cuda-driver-missing-wsl": ("wsl-restart", "wsl-ldpath-wsllib", "win-driver-update"),
        "torch-cpu-build": ("pkg-reinstall-matching",),
        "driver-too-old": ("pkg-cu12-wheels", "win-driver-update"),
        "no-kernel-image": ("pkg-cu128-wheels", "pkg-upgrade-engine"),
        "ptx-unsupported": ("pkg-cu12-wheels", "win-driver-update"),
        "exl3-source-package": ("pkg-exl3-wheel", "apt-cuda-nvcc"),
        "engine-import-failed": ("pkg-reinstall-matching",),
    }
)


def judge(facts: Facts) -> CheckResult:
    """PASS when every step went well; the first one that did not names the fault."""
    output = facts.probe("native_import")
    if output.returncode not in (0, None) and not output.missing_program:
        return _died(output)
    if (fault := probe_fault(ID, output)) is not None:
        return fault
    try:
        answer = json.loads(output.stdout)
        steps = [(str(s["name"]), bool(s["ok"]), str(s["text"])) for s in answer["steps"]]
        warnings = [str(text) for text in answer["warnings"]]
        versions: Mapping[str, Any] = dict(answer["versions"])
    except (ValueError, KeyError, TypeError):
        return garbled(ID, output)
    evidence = _evidence(steps, warnings)
    bad = [(name, text) for name, ok, text in steps if not ok]
    if not bad and steps:
        text = message(
            "Loaded with torch {torch}; each card computed", torch=str(versions.get("torch", "?"))
        )
        return passed(ID, text, evidence)
    if not bad:
        return garbled(ID, output)
    name, text_of_fault = bad[0]
    return _failed(name, "\n".join([text_of_fault, *warnings]), evidence)


def _failed(name: str, text: str, evidence: Evidence) -> CheckResult:
    kind = kind_of(text)
    return failed(
        ID,
        message(
            "{name} does not work on the engine's Python: {reason}",
            name=name,
            reason=text.splitlines()[0][:200] if text else "?",
        ),
        Finding(kind, (("step", name),), fixes=FIXES[kind]),
        evidence,
    )


def _died(output: ProbeOutput) -> CheckResult:
    """The Python itself ended, for example with a segmentation fault inside a library."""
    words = [line for line in output.stderr.splitlines() if line.strip()]
    name = f"code {output.returncode}"
    return _failed(name, "\n".join(reversed(words[-20:])), Evidence("output", "\n".join(words)))


def kind_of(text: str) -> str:
    """Finding id for what Python said."""
    found = (kind for kind, pattern in _PATTERNS.items() if re.search(pattern, text))
    return next(found, "engine-import-failed")


def _evidence(steps: Sequence[tuple[str, bool, str]], warnings: Sequence[str]) -> Evidence:
    lines = [f"{name}: {'ok' if ok else text}" for name, ok, text in steps]
    return Evidence("import", "\n".join([*lines, *(f"warning: {text}" for text in warnings)]))


CHECK = Check(
    id=ID,
    title=N_("The engine's compiled part loads"),
    probes=("native_import",),
    judge=judge,
    requires=("gpu-visible", "engine-installed"),
    timeout_s=20.0,
    cost=Cost.SLOW,
    needs_profile=True,
    engines=("vllm", "tabbyapi"),
    findings=tuple(FIXES),
)

"""Is there what Triton needs to compile at the first start: a C compiler and Python's headers?

Triton builds a small module with ``cc`` for every kernel launcher; without it vLLM ends with
"Failed to find C compiler", without headers with "Python.h: No such file or directory".
"""

from __future__ import annotations

from twinrig.checks.judging import evidence_of, failed, garbled, key_values, passed, probe_fault
from twinrig.domain.checks import Check, CheckResult, Facts, Finding
from twinrig.messages import N_, message

ID = "compiler"


def judge(facts: Facts) -> CheckResult:
    """A compiler that the profile names counts as well."""
    output = facts.probe("compiler")
    if (fault := probe_fault(ID, output)) is not None:
        return fault
    values = key_values(output)
    if "cc" not in values:
        return garbled(ID, output)
    named = facts.profile is not None and "CC" in facts.profile.env
    if values["cc"] == "none" and not named:
        return failed(
            ID,
            message("There is no C compiler; the engine compiles small kernels at its start."),
            Finding("jit-no-compiler", fixes=("apt-build-essential",)),
            evidence_of(output),
        )
    if values.get("headers") == "no":
        return failed(
            ID,
            message("The headers of the engine's Python are missing."),
            Finding(
                "jit-python-headers",
                (("include", values.get("include", "")),),
                fixes=("apt-python-dev",),
            ),
            evidence_of(output),
        )
    return passed(ID, message("C compiler: {path}", path=values["cc"]), evidence_of(output))


CHECK = Check(
    id=ID,
    title=N_("Compiler for kernels made at start"),
    probes=("compiler",),
    judge=judge,
    requires=("engine-installed",),
    needs_profile=True,
    engines=("vllm",),
    findings=("jit-no-compiler", "jit-python-headers"),
)

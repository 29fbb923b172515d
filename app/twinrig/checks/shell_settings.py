"""Are NCCL or allocator settings given to every program by a shell or by the login?

Servers that Twinrig starts get none of them (their environment is built from nothing), but every
other start does, and the two engines need opposite ones. So a server that works by hand differs
from the same one here, and the other way round.
"""

from __future__ import annotations

from twinrig.checks.judging import (
    evidence_of,
    garbled,
    key_values,
    passed,
    probe_fault,
    tagged,
    warned,
)
from twinrig.domain.checks import Check, CheckResult, Facts, Finding, Severity
from twinrig.messages import N_, message

ID = "shell-settings"


def judge(facts: Facts) -> CheckResult:
    """What the profile sets to the same value is no difference."""
    output = facts.probe("shell_settings")
    if (fault := probe_fault(ID, output)) is not None:
        return fault
    if key_values(output).get("checked") != "yes":
        return garbled(ID, output)
    own = {n: e.value for n, e in facts.profile.env.items()} if facts.profile else {}
    found = [_parts(line) for line in tagged(output, "set")]
    other = [(file, name) for file, name, value in found if name and own.get(name) != value]
    if not other:
        text = message("No shell settings of CUDA, NCCL or torch")
        return passed(ID, text, evidence_of(output))
    names = ", ".join(dict.fromkeys(name for _, name in other))
    files = ", ".join(dict.fromkeys(file for file, _ in other))
    return warned(
        ID,
        message(
            "{files} sets for every program: {names}. Servers that Twinrig starts do not get "
            "it, others do.",
            files=files,
            names=names,
        ),
        Finding("shell-settings", (("names", names), ("files", files)), Severity.WARNING),
        evidence_of(output),
        next_step=message(
            "Remove the lines from {files}; a setting that an engine needs belongs into its "
            "profile.",
            files=files,
        ),
    )


def _parts(line: str) -> tuple[str, str, str]:
    file, _, setting = line.partition(" ")
    name, _, value = setting.partition("=")
    return file, name, value


CHECK = Check(
    id=ID,
    title=N_("Shells set nothing for all programs"),
    probes=("shell_settings",),
    judge=judge,
    findings=("shell-settings",),
)

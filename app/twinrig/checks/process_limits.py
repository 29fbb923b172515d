"""May a server open enough files and lock enough memory?

Tensor parallelism with many experts opens a shared segment for each part, and engines raise the
soft limit of files themselves as far as the hard one allows. WSL gives 64 MiB of lockable memory,
older builds gave 64 KiB (WSL's init; microsoft/WSL#8447), on which pinned buffers fail.
"""

from __future__ import annotations

from twinrig.checks.judging import evidence_of, garbled, passed, probe_fault, tagged, warned
from twinrig.domain.checks import Check, CheckResult, Facts, Finding, Severity
from twinrig.messages import N_, message

ID = "process-limits"
ENOUGH_FILES = 8192
ENOUGH_MEMLOCK_BYTES = 1024 * 1024
_UNLIMITED = "unlimited"


def judge(facts: Facts) -> CheckResult:
    """Hard limits decide: what lies below them a server can raise itself."""
    output = facts.probe("limits")
    if (fault := probe_fault(ID, output)) is not None:
        return fault
    files, memlock = _hard(tagged(output, "files")), _hard(tagged(output, "memlock"))
    if files is None or memlock is None:
        return garbled(ID, output)
    if files < ENOUGH_FILES:
        return warned(
            ID,
            message("A server may open at most {count} files.", count=files),
            Finding(
                "too-many-open-files",
                (("limit", str(files)),),
                Severity.WARNING,
                ("env-nofile-limit",),
            ),
            evidence_of(output),
        )
    if memlock < ENOUGH_MEMLOCK_BYTES:
        return warned(
            ID,
            message("A server may lock only {kib} KiB of memory.", kib=memlock // 1024),
            Finding(
                "memlock-too-small",
                (("limit_bytes", str(memlock)),),
                Severity.WARNING,
                ("limits-memlock",),
            ),
            evidence_of(output),
        )
    return passed(ID, message("Open files and locked memory are allowed"), evidence_of(output))


def _hard(lines: tuple[str, ...]) -> int | None:
    words = lines[0].split() if lines else []
    if len(words) != 2:
        return None
    if words[1] == _UNLIMITED:
        return 1 << 62
    return int(words[1]) if words[1].isdecimal() else None


CHECK = Check(
    id=ID,
    title=N_("Limits of open files and locked memory"),
    probes=("limits",),
    judge=judge,
    findings=("too-many-open-files", "memlock-too-small"),
)

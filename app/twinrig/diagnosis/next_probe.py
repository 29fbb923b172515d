"""What to try for one start so that the next log tells more, where this one cannot decide.

Each is an ordinary fix: shown before it is applied, and taken back afterwards. Failure catalogue
1.4 (NCCL says its reason only with ``NCCL_DEBUG``) and 1.5 (CUDA reports faults late); whether
two cards matter at all is told by one card alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from twinrig.diagnosis.crashes import is_asynchronous
from twinrig.domain.checks import Finding
from twinrig.domain.supervision import Failure

UNKNOWN_CAUSE = "unknown-cause"
"""Finding id of a fault whose cause is not known; no rule and no check has it."""
BLOCKING, TALKING, ALONE = "env-cuda-launch-blocking", "env-nccl-debug-info", "cfg-tp-1"

_CUDA = re.compile(r"\bCUDA\b|\bcu(?:da|BLAS|DNN)|\.cu:\d|SIGSEGV|Segmentation|Segfault|Xid")
_NCCL = re.compile(r"\bNCCL\b|\bnccl|ProcessGroup|collective|all_?reduce", re.IGNORECASE)
_TALKING_LEVELS = ("INFO", "TRACE")


def next_probes(line: str, facts: Mapping[str, str]) -> tuple[str, ...]:
    """Fix ids, the one that tells most first; what is in force already is left out.

    ``line`` is the first real error, "" = none; ``facts`` as in ``FactBook``. Nothing is
    proposed for a fault that has no sign of CUDA or NCCL in it on a single card: these would
    cost speed and tell nothing.
    """
    several = facts.get("tensor_parallel", "1") not in ("", "0", "1")
    found = []
    if is_asynchronous(line) or _CUDA.search(line):
        found.append(BLOCKING)
    if _NCCL.search(line):
        found.insert(0, TALKING)
    elif several:
        found.append(TALKING)
    if several:
        found.append(ALONE)
    return tuple(probe for probe in found if not _in_force(probe, facts))


def _in_force(probe: str, facts: Mapping[str, str]) -> bool:
    if probe == BLOCKING:
        return facts.get("CUDA_LAUNCH_BLOCKING", "0") not in ("", "0")
    return probe == TALKING and facts.get("NCCL_DEBUG", "").upper() in _TALKING_LEVELS


def finding_of_failure(failure: Failure) -> Finding | None:
    """What fixes are offered for, None when nothing is known to help; probes of an unknown
    cause are kept in the journal under ``UNKNOWN_CAUSE``."""
    if not failure.fixes:
        return None
    return Finding(failure.finding_id or UNKNOWN_CAUSE, failure.params, fixes=failure.fixes)

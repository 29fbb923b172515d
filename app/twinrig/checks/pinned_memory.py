"""Does the profile want more page-locked RAM than Windows gives to WSL?

Windows caps it at about half of the RAM over all programs, on some machines far lower; a refusal
reads as "out of memory" of the card. Sources: vllm-project/vllm#1084, microsoft/WSL#14078.
"""

from __future__ import annotations

import re

from twinrig.checks.judging import (
    evidence_of,
    failed,
    garbled,
    gib,
    key_values,
    on_wsl,
    passed,
    probe_fault,
    warned,
)
from twinrig.checks.profile_facts import rank_count
from twinrig.domain.checks import Check, CheckResult, Evidence, Facts, Finding, Severity
from twinrig.messages import N_, message

ID = "pinned-memory"
_KIND = "pinned-memory-limit"
_GIB = 1024**3
_TOTAL = re.compile(r"^MemTotal:\s+(\d+) kB$", re.MULTILINE)
_OPTIONS = ("cpu_offload_gb", "kv_offloading_size")
_FIXES = ("cfg-lower-cpu-offload", "wslconfig-memory")


def wanted_bytes(facts: Facts) -> int:
    """RAM that the profile's offloading locks: weights for each rank, KV cache once."""
    settings = {} if facts.profile is None else facts.profile.settings
    sizes = [settings.get(name) for name in _OPTIONS]
    weights, cache = (
        float(size) if isinstance(size, (int, float)) and not isinstance(size, bool) else 0.0
        for size in sizes
    )
    return int((weights * rank_count(facts.profile) + cache) * _GIB)


def judge(facts: Facts) -> CheckResult:
    """Nothing offloaded, nothing to judge. The RAM of Windows counts where it is known."""
    memory = facts.probe("memory")
    if (fault := probe_fault(ID, facts.probe("system")) or probe_fault(ID, memory)) is not None:
        return fault
    found = _TOTAL.search(memory.stdout)
    if found is None:
        return garbled(ID, memory)
    if not on_wsl(facts):
        text = message("Not under WSL")
        return passed(ID, text, evidence_of(facts.probe("system")))
    wanted = wanted_bytes(facts)
    if not wanted:
        return passed(ID, message("The profile keeps nothing of the model in RAM"), _asked(0))
    limit = _ram_bytes(facts, int(found[1]) * 1024) // 2
    params = (("wanted_gib", gib(wanted)), ("limit_gib", gib(limit)))
    if wanted > limit:
        return failed(
            ID,
            message(
                "The profile wants {wanted} GiB of RAM that the cards read directly (page-locked); "
                "Windows gives at most about {limit} GiB.",
                wanted=gib(wanted),
                limit=gib(limit),
            ),
            Finding(_KIND, params, fixes=_FIXES),
            _asked(wanted),
            evidence_of(memory),
        )
    return warned(
        ID,
        message(
            "The profile wants {wanted} GiB of RAM that the cards read directly (page-locked); on "
            "some computers WSL gets less than 1 GiB of it.",
            wanted=gib(wanted),
        ),
        Finding(_KIND, params, Severity.WARNING, _FIXES),
        _asked(wanted),
        evidence_of(memory),
        next_step=message("Try it; if the server reports out of memory while it loads, lower it."),
    )


def _ram_bytes(facts: Facts, inside: int) -> int:
    text = key_values(facts.probe("windows_memory")).get("total_bytes", "")
    return int(text) if text.isdecimal() and len(text) < 16 else inside


def _asked(wanted: int) -> Evidence:
    return Evidence("profile", f"offloaded={gib(wanted)} GiB")


CHECK = Check(
    id=ID,
    title=N_("RAM that the cards read directly is enough"),
    probes=("system", "memory"),
    judge=judge,
    needs_profile=True,
    findings=(_KIND,),
    engines=("vllm",),
    optional=("windows_memory",),
)

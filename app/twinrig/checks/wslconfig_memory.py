"""Do the settings of WSL give it enough memory to load the model?

Without ``memory=`` WSL takes half of the computer's RAM, without ``swap=`` a quarter of that.
"""

from __future__ import annotations

from twinrig.checks.judging import (
    evidence_of,
    failed,
    garbled,
    gib,
    key_values,
    passed,
    probe_fault,
    warned,
)
from twinrig.checks.model_facts import parse_model
from twinrig.checks.profile_facts import rank_count
from twinrig.checks.ram_size import needed_bytes
from twinrig.checks.windows_facts import config_of
from twinrig.domain.checks import Check, CheckResult, Evidence, Facts, Finding, Severity
from twinrig.domain.wsl_config import ConfigFile, size_bytes
from twinrig.messages import N_, message

ID = "wslconfig-memory"
_KIND = "ram-oom-killed"
_GIB = 1024**3


def wsl_memory(config: ConfigFile, ram_bytes: int) -> tuple[int, int]:
    """Memory and swap that WSL takes from these settings on a computer with so much RAM."""
    ini = config.ini()
    written = size_bytes(ini.value("wsl2", "memory") or "")
    memory = ram_bytes // 2 if not written else min(written, ram_bytes)
    swap = size_bytes(ini.value("wsl2", "swap") or "")
    return memory, -(-memory // 4 // _GIB) * _GIB if swap is None else swap


def judge(facts: Facts) -> CheckResult:
    """Compares what is set with what a load needs; what is free now is asked by another check."""
    ram, model = facts.probe("windows_memory"), facts.probe("model")
    for output in (facts.probe("windows_wslconfig"), ram, model):
        if (fault := probe_fault(ID, output)) is not None:
            return fault
    config = config_of(facts)
    if config is None:
        return garbled(ID, facts.probe("windows_wslconfig"))
    text = key_values(ram).get("total_bytes", "")
    if not text.isdecimal() or int(text) < 1024**2:
        return garbled(ID, ram)
    total = int(text)
    memory, swap = wsl_memory(config, total)
    needed = needed_bytes(parse_model(model), rank_count(facts.profile))
    evidence = (
        Evidence(config.path, f"memory={gib(memory)} GiB\nswap={gib(swap)} GiB"),
        evidence_of(ram),
    )
    params = (
        ("needed_gib", gib(needed)),
        ("memory_gib", gib(memory)),
        ("swap_gib", gib(swap)),
        ("ram_gib", gib(total)),
    )
    if memory + swap < needed:
        return failed(
            ID,
            message(
                "Loading needs about {needed} GiB; WSL may use {memory} GiB of RAM and {swap} GiB "
                "of swap of this computer's {total} GiB.",
                needed=gib(needed),
                memory=gib(memory),
                swap=gib(swap),
                total=gib(total),
            ),
            Finding(_KIND, params, fixes=("wslconfig-memory",)),
            *evidence,
        )
    if memory >= total:
        return warned(
            ID,
            message("WSL may use all of this computer's {total} GiB of RAM.", total=gib(total)),
            Finding(_KIND, params, Severity.WARNING, ("wslconfig-memory",)),
            *evidence,
            next_step=message("Leave Windows at least 4 GiB, or it becomes slow."),
        )
    return passed(
        ID,
        message(
            "WSL may use {memory} GiB of RAM and {swap} GiB of swap",
            memory=gib(memory),
            swap=gib(swap),
        ),
        *evidence,
    )


CHECK = Check(
    id=ID,
    title=N_("WSL may use enough memory"),
    probes=("windows_wslconfig", "windows_memory", "model"),
    judge=judge,
    requires=("model-folder",),
    needs_profile=True,
    findings=(_KIND,),
)

"""Can programs on Windows reach the server's port?

WSL in its usual mode (NAT) opens each Linux port on 127.0.0.1 of Windows too, unless a program of
Windows has it. Sources: microsoft/WSL (wslrelay), #5317, #8825.
"""

from __future__ import annotations

from twinrig.checks.judging import (
    evidence_of,
    failed,
    garbled,
    key_values,
    passed,
    probe_fault,
    skipped,
    tagged,
)
from twinrig.checks.port_free import collides, next_free
from twinrig.checks.windows_facts import WindowsNetwork, config_of, parse_network
from twinrig.domain.checks import Check, CheckResult, Evidence, Facts, Finding
from twinrig.domain.ini_text import IniFile
from twinrig.domain.wsl_config import networking_mode, switch
from twinrig.messages import N_, message

ID = "wsl-network"
_RELAY, _TAKEN, _NONE = "wsl-localhost-relay", "port-in-use", "wsl-network-fallback"
_ANSWERS = frozenset({"ok", "refused", "timeout"})


def judge(facts: Facts) -> CheckResult:
    """With a server: does it answer from Windows. Without: would it."""
    if facts.profile is None:
        return skipped(ID, message("No profile was given."))
    for name in ("windows_network", "windows_wslconfig", "port"):
        if (fault := probe_fault(ID, facts.probe(name))) is not None:
            return fault
    config, network = config_of(facts), parse_network(facts.probe("windows_network"))
    port = facts.profile.network.port
    if config is None:
        return garbled(ID, facts.probe("windows_wslconfig"))
    if network.checked != port or network.connect not in _ANSWERS:
        return garbled(ID, facts.probe("windows_network"))
    if key_values(facts.probe("port")).get("checked") != str(port):
        return garbled(ID, facts.probe("port"))
    try:
        served = any(
            collides(line.split(" ")[0], "127.0.0.1")
            for line in tagged(facts.probe("port"), "listen")
        )
    except ValueError:
        return garbled(ID, facts.probe("port"))
    mode = networking_mode(config.ini())
    evidence = (
        evidence_of(facts.probe("windows_network")),
        Evidence(config.path, f"networkingMode={mode}"),
    )
    if mode == "none":
        return failed(
            ID,
            message("WSL has no network: networkingMode=none in .wslconfig."),
            Finding(_NONE, (("mode", mode),), fixes=("wslconfig-nat",)),
            *evidence,
        )
    if served:
        return _served(network, config.ini(), mode, evidence)
    return _free(facts, network, mode, evidence)


def _served(
    network: WindowsNetwork, config: IniFile, mode: str, evidence: tuple[Evidence, ...]
) -> CheckResult:
    port = network.checked or 0
    if network.connect == "ok":
        return passed(
            ID,
            message("Port {port} answers from Windows too ({mode})", port=port, mode=mode),
            *evidence,
        )
    off = mode == "nat" and not switch(config.value("wsl2", "localhostForwarding"), True)
    fixes: tuple[str, ...] = ("wslconfig-localhost",) if off else ("wsl-restart",)
    fixes += ("wslconfig-nat",) if mode == "mirrored" else ()
    return failed(
        ID,
        message(
            "The server listens on port {port} in Linux, but cannot be reached from Windows.",
            port=port,
        ),
        Finding(_RELAY, (("port", str(port)), ("mode", mode)), fixes=(*fixes, "use-vm-address")),
        *evidence,
    )


def _free(
    facts: Facts, network: WindowsNetwork, mode: str, evidence: tuple[Evidence, ...]
) -> CheckResult:
    port = network.checked or 0
    free = next_free(port, facts.probe("port"))
    while free and (network.is_excluded(free)):
        free = next_free(free, facts.probe("port"))
    params = (("port", str(port)), ("free_port", str(free)))
    holders = network.holders()
    if holders:
        program = holders[0].program if holders[0].program != "-" else "?"
        return failed(
            ID,
            message(
                "On Windows, {program} (process {pid}) uses port {port} already.",
                program=program,
                pid=holders[0].pid,
                port=port,
            ),
            Finding(
                _TAKEN,
                (*params, ("pid", str(holders[0].pid)), ("program", program)),
                fixes=("cfg-change-port",),
            ),
            *evidence,
        )
    if network.is_excluded(port):
        return failed(
            ID,
            message("Windows keeps port {port} for itself.", port=port),
            Finding(_TAKEN, params, fixes=("cfg-change-port",)),
            *evidence,
        )
    return passed(
        ID, message("Port {port} is free on Windows too ({mode})", port=port, mode=mode), *evidence
    )


CHECK = Check(
    id=ID,
    title=N_("Windows can reach the server"),
    probes=("windows_network", "windows_wslconfig", "port"),
    judge=judge,
    needs_profile=True,
    findings=(_RELAY, _TAKEN, _NONE),
)

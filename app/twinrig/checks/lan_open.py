"""Can other devices reach a server that is meant for them?

In NAT mode a rule of Windows passes connections on to the virtual machine, whose address changes
with each start of WSL. In mirrored mode the rule is one of a firewall that only an administrator
may read.
"""

from __future__ import annotations

from twinrig.checks.judging import (
    evidence_of,
    failed,
    garbled,
    passed,
    probe_fault,
    skipped,
    tagged,
)
from twinrig.checks.windows_facts import config_of, parse_network
from twinrig.domain.checks import Check, CheckResult, Facts, Finding, Severity
from twinrig.domain.wsl_config import networking_mode
from twinrig.engines.field_rules import is_loopback
from twinrig.messages import N_, message

ID = "lan-open"
_KIND = "lan-closed"


def judge(facts: Facts) -> CheckResult:
    """A server for this computer only needs nothing."""
    if facts.profile is None:
        return skipped(ID, message("No profile was given."))
    for name in ("windows_network", "windows_wslconfig", "address"):
        if (fault := probe_fault(ID, facts.probe(name))) is not None:
            return fault
    output, config = facts.probe("windows_network"), config_of(facts)
    network = parse_network(output)
    if config is None or not network.connect:
        return garbled(ID, output if config else facts.probe("windows_wslconfig"))
    own = tagged(facts.probe("address"), "address")
    if not own:
        return garbled(ID, facts.probe("address"))
    if is_loopback(facts.profile.network.host):
        return passed(ID, message("The server is for this computer only"), evidence_of(output))
    if networking_mode(config.ini()) != "nat":
        text = message("WSL shares the network of Windows; its firewall cannot be read from here")
        return passed(ID, text, evidence_of(output))
    port = facts.profile.network.port
    forward = network.forward(port)
    if forward is not None and forward.to_port == port and forward.to_address in own:
        text = message("Windows passes port {port} on to WSL", port=port)
        return passed(ID, text, evidence_of(output))
    params = (("port", str(port)), ("address", own[0]))
    old = message("Windows passes port {port} on to an address that WSL had earlier.", port=port)
    none = message("Other devices cannot reach port {port}: Windows passes nothing on.", port=port)
    return failed(
        ID,
        none if forward is None else old,
        Finding(_KIND, params, Severity.WARNING, ("lan-open",)),
        evidence_of(output),
        evidence_of(facts.probe("address")),
    )


CHECK = Check(
    id=ID,
    title=N_("Other devices can reach the server, if wanted"),
    probes=("windows_network", "windows_wslconfig", "address"),
    judge=judge,
    needs_profile=True,
    findings=(_KIND,),
)

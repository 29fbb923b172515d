"""Is the server's port free, and if not, who holds it?"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

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
from twinrig.domain.checks import Check, CheckResult, Facts, Finding, ProbeOutput
from twinrig.messages import N_, message

ID = "port-free"
_HIGHEST_PORT = 65535


@dataclass(frozen=True)
class Holder:
    """A process that listens on the port; ``run_id`` is "" when no Twinrig started it."""

    pid: int
    run_id: str
    command: str


def judge(facts: Facts) -> CheckResult:
    """A listener that carries a run id of ours is our own server: no fault."""
    if facts.profile is None:
        return skipped(ID, message("No profile was given."))
    output = facts.probe("port")
    if (fault := probe_fault(ID, output)) is not None:
        return fault
    network = facts.profile.network
    if key_values(output).get("checked") != str(network.port):
        return garbled(ID, output)
    addresses = [line.split(" ")[0] for line in tagged(output, "listen")]
    try:
        taken = any(collides(address, network.host) for address in addresses)
    except ValueError:
        return garbled(ID, output)
    if not taken:
        return passed(ID, message("Port {port} is free", port=network.port), evidence_of(output))
    holders = parse_holders(output)
    if holders and all(holder.run_id for holder in holders):
        return passed(
            ID,
            message("Port {port} is held by the server that runs already", port=network.port),
            evidence_of(output),
        )
    return _taken(network.port, holders, output)


def _taken(port: int, holders: tuple[Holder, ...], output: ProbeOutput) -> CheckResult:
    params = [("port", str(port)), ("free_port", str(next_free(port, output)))]
    if holders:
        first = next(holder for holder in holders if not holder.run_id)
        params += [("pid", str(first.pid)), ("program", first.command)]
        text = message(
            "Port {port} is in use by process {pid}: {program}",
            port=port,
            pid=first.pid,
            program=first.command or "?",
        )
    else:
        text = message(
            "Port {port} is in use by a process that cannot be seen from here.", port=port
        )
    fixes = ("stop-old-server", "cfg-change-port") if holders else ("cfg-change-port",)
    return failed(
        ID,
        text,
        Finding("port-in-use", tuple(params), fixes=fixes),
        evidence_of(output, [line for line in output.stdout.splitlines() if "busy" not in line]),
        next_step=message("Stop that program, or give the profile another port."),
    )


def parse_holders(output: ProbeOutput) -> tuple[Holder, ...]:
    """Processes that hold a listening socket of the port, each once."""
    found: dict[int, Holder] = {}
    for line in tagged(output, "holder"):
        pid, run_id, command = (*line.split(" ", 2), "", "")[:3]
        if pid.isdecimal():
            known = "" if run_id == "-" else run_id
            found.setdefault(int(pid), Holder(int(pid), known, command.strip()))
    return tuple(found.values())


def next_free(port: int, output: ProbeOutput) -> int:
    """The next port above on which nobody listens; 0 when there is none."""
    busy = {int(text) for text in tagged(output, "busy") if text.isdecimal()}
    return next((p for p in range(port + 1, _HIGHEST_PORT + 1) if p not in busy), 0)


def collides(kernel_hex: str, host: str) -> bool:
    """Whether a listener (address as in /proc/net/tcp) keeps ``host`` from being bound.

    Raises ValueError when the address is not one of the kernel's.
    """
    listener = _kernel_address(kernel_hex)
    name = "127.0.0.1" if host in ("", "localhost") else host.strip("[]")
    try:
        wanted = ipaddress.ip_address(name)
    except ValueError:
        return True  # a name: it may mean any address of this computer
    if listener.version == 6 and listener.is_unspecified:
        return True  # dual stack: it takes IPv4 too
    if listener.version != wanted.version:
        return False
    return listener == wanted or listener.is_unspecified or wanted.is_unspecified


def _kernel_address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    raw = bytes.fromhex(text)
    if len(raw) not in (4, 16):
        raise ValueError(f"not an address: {text!r}")
    # The kernel prints words of 32 bits in the machine's order, which is little endian here.
    swapped = b"".join(raw[i : i + 4][::-1] for i in range(0, len(raw), 4))
    address = ipaddress.ip_address(swapped)
    mapped = getattr(address, "ipv4_mapped", None)
    return mapped or address


CHECK = Check(
    id=ID,
    title=N_("Port is free"),
    probes=("port",),
    judge=judge,
    needs_profile=True,
    findings=("port-in-use",),
)

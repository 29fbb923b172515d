"""Do the cards really exchange data? Real collectives with compared values, one rank a card.

Sources of the rules: section A of the failure catalogue; NVIDIA's NCCL (message texts of 2.18 to
2.28). The signatures are read from what the ranks raised and from NCCL's own log.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType

from twinrig.checks.judging import (
    failed,
    garbled,
    on_wsl,
    passed,
    probe_fault,
    unknown,
    warned,
)
from twinrig.domain.checks import (
    Check,
    CheckResult,
    Cost,
    Evidence,
    Facts,
    Finding,
    Severity,
)
from twinrig.domain.collective import CollectiveReport, PeerCopy, parse_report
from twinrig.messages import N_, Message, message

ID = "collective"
EXPERIMENT = "nccl-experiment"
LARGE_BYTES = 524288

_PATTERNS: Mapping[str, str] = MappingProxyType(
    {
        "nccl-duplicate-gpu": r"Duplicate GPU detected",
        "tp-exceeds-gpus": r"needs CUDA device \d+, but \d+ are visible",
        "shm-too-small": r"/dev/shm.*No space left|failed to extend /dev/shm"
        r"|Error while creating shared memory segment|posix_fallocate failed",
        "pidfd-getfd-denied": r"pidfd_(getfd|open): Operation not permitted",
        "nccl-mempool-unsupported": r"init\.cc:4\d\d NCCL WARN Cuda failure 'operation not supp"
        r"|init\.cc:4\d\d NCCL WARN Cuda failure 801",
        "nccl-ifname-wrong": r"no socket interface found|failed to connect to any network address"
        r"|network addresses of .* cannot be retrieved",
        "nccl-lib-mismatch": r"undefined symbol: nccl\w+",
        "cuda-ipc-unsupported-wsl": r"invalid resource handle",
    }
)
_CUMEM_HOST = re.compile(r"Cuda failure 2 'out of memory'|shm\.cc:\d+ -> \d+")
_CUDA_ERROR = re.compile(r"unhandled cuda error|NCCL WARN Cuda failure|UnhandledCudaError")
_NO_CUDA = re.compile(r"torch sees no CUDA device|not compiled with CUDA enabled|No CUDA GPUs")
_NO_ROOM = re.compile(r"CUDA out of memory|Tried to allocate")
_NO_TORCH = re.compile(r"ModuleNotFoundError: No module named '(\w+)'")

FIXES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "nccl-duplicate-gpu": ("cfg-gpu-select", "cfg-tp-1"),
        "tp-exceeds-gpus": ("cfg-gpu-select", "cfg-tp-1"),
        "shm-too-small": ("shm-size",),
        "pidfd-getfd-denied": ("sysctl-ptrace-0", "env-expandable-off"),
        "nccl-mempool-unsupported": ("doc-vgpu-uvm",),
        "nccl-ifname-wrong": (EXPERIMENT, "env-nccl-socket-lo", "wsl-hosts-fix"),
        "nccl-lib-mismatch": ("env-unset-ld-library-path", "pkg-reinstall-matching"),
        "nccl-large-collective": ("pkg-nccl-upgrade", "pkg-upgrade-engine"),
        "p2p-reported-not-usable": (EXPERIMENT, "env-nccl-p2p-disable", "flag-disable-custom-ar"),
        "nccl-p2p-hang": (EXPERIMENT, "env-nccl-p2p-disable", "flag-disable-custom-ar"),
        "nccl-cumem-host": (EXPERIMENT, "env-nccl-cumem-host-0", "env-nccl-cumem-0"),
        "nccl-cumem-wsl": (EXPERIMENT, "env-nccl-cumem-0", "env-nccl-p2p-disable"),
        "cuda-ipc-unsupported-wsl": (EXPERIMENT, "env-expandable-on", "sysctl-ptrace-0"),
        "nccl-collective-failed": (EXPERIMENT,),
    }
)


def judge(facts: Facts) -> CheckResult:
    """PASS only when every rank ended well and every value was right."""
    output = facts.probe("collective")
    fault = probe_fault(ID, output)
    if fault is not None:
        return fault
    try:
        report = parse_report(json.loads(output.stdout))
    except ValueError:
        return garbled(ID, output)
    if report.passed:
        return (
            _copies(facts, report)
            or _slow_way(report)
            or passed(ID, _speed(report), *evidence(report))
        )
    return _could_not_tell(report) or _failure(facts, report)


def evidence(report: CollectiveReport) -> tuple[Evidence, ...]:
    """The table of steps, the copies, and what NCCL said."""
    rows = [_row(report, index) for index in range(len(report.steps))]
    parts = [Evidence("collectives", "\n".join(rows))]
    if report.peers:
        parts.append(Evidence("peer copies", "\n".join(_pair(pair) for pair in report.peers)))
    lines = [*(f"rank {r.rank}: {r.error}" for r in report.ranks if r.error), *report.log]
    lines = lines or list(report.output)
    if lines:
        parts.append(Evidence("NCCL", "\n".join(lines[:20])))
    return tuple(parts)


def _row(report: CollectiveReport, index: int) -> str:
    step = report.steps[index]
    speed = step.bus_mbps(report.world)
    words = [step.plan.op, step.plan.dtype, f"{step.plan.size_bytes} B", step.status]
    words += [f"{speed:.1f} MB/s"] if speed is not None else []
    words += [f"wrong values: {step.wrong_values}"] if step.wrong_values else []
    return "  ".join(words)


def _pair(pair: PeerCopy) -> str:
    speed = f"  {pair.mbps:.0f} MB/s" if pair.mbps else ""
    says = "yes" if pair.reported else "no"
    text = f"  {pair.text}" if pair.text else ""
    return f"{pair.source} -> {pair.target}  driver: {says}  copy: {pair.status}{speed}{text}"


def _speed(report: CollectiveReport) -> Message:
    speed = report.speed_mbps
    return message(
        "Ranks: {world}. All values right; {mbps} MB/s through {transport} (NCCL {nccl}).",
        world=report.world,
        mbps="-" if speed is None else f"{speed:.0f}",
        transport=", ".join(report.transports) or "-",
        nccl=report.nccl_version or "-",
    )


def _copies(facts: Facts, report: CollectiveReport) -> CheckResult | None:
    """NCCL works, but an engine's own kernels may still believe the driver about peers."""
    bad = [pair for pair in report.peers if pair.reported and pair.status != "ok"]
    if not bad or _own_kernels_off(facts):
        return None
    return warned(
        ID,
        message(
            "The driver reports peer access between the cards, but a copy is not right: {status}.",
            status=bad[0].status,
        ),
        Finding(
            "p2p-reported-not-usable",
            (("copy", bad[0].status), ("transport", ",".join(report.transports))),
            fixes=("flag-disable-custom-ar", "env-nccl-p2p-disable"),
        ),
        *evidence(report),
    )


def _slow_way(report: CollectiveReport) -> CheckResult | None:
    """NCCL's log names the way it took; over the network inside one computer is the last resort."""
    ways = report.transports
    if not ways or any(not way.startswith("NET") for way in ways):
        return None
    return warned(
        ID,
        message(
            "The cards talk over the network ({transport}) instead of memory: many times slower.",
            transport=", ".join(ways),
        ),
        Finding(
            "nccl-slow-transport",
            (("transport", ",".join(ways)),),
            Severity.WARNING,
            ("env-nccl-shm-on", EXPERIMENT),
        ),
        *evidence(report),
    )


def _own_kernels_off(facts: Facts) -> bool:
    return facts.profile is not None and bool(
        facts.profile.settings.get("disable_custom_all_reduce")
    )


def _could_not_tell(report: CollectiveReport) -> CheckResult | None:
    """Faults that say nothing about the cards."""
    text = report.complaints
    absent = _NO_TORCH.search(text)
    if absent:
        summary = message("The engine's Python has no module {name}.", name=absent[1])
    elif _NO_CUDA.search(text):
        summary = message("torch sees no card, so nothing could be exchanged.")
    elif _NO_ROOM.search(text):
        summary = message("The cards have no free memory for the test; stop what uses them.")
    elif report.ended == "late":
        summary = message("The collectives were still running when time was up.")
    else:
        return None
    return unknown(ID, summary, *evidence(report))


def _failure(facts: Facts, report: CollectiveReport) -> CheckResult:
    kind, extra = _kind(facts, report)
    params = (
        ("transport", ",".join(report.transports)),
        ("largest_ok_bytes", str(report.largest_ok_bytes)),
        *extra,
    )
    finding = Finding(kind, params, fixes=FIXES[kind])
    return failed(ID, _words(kind, report), finding, *evidence(report))


def _kind(facts: Facts, report: CollectiveReport) -> tuple[str, tuple[tuple[str, str], ...]]:
    text = report.complaints
    for kind, pattern in _PATTERNS.items():
        if re.search(pattern, text):
            return kind, ()
    first_bad = report.first_bad_bytes
    if first_bad is not None and first_bad >= LARGE_BYTES > report.largest_ok_bytes > 0:
        return "nccl-large-collective", (("first_bad_bytes", str(first_bad)),)
    for kind, applies in _CONDITIONS:
        if applies(facts, report, text):
            return kind, ()
    return "nccl-collective-failed", ()


def _over_p2p(report: CollectiveReport) -> bool:
    return any(name.startswith("P2P") for name in report.transports)


def _is_wrong(facts: Facts, report: CollectiveReport, text: str) -> bool:
    wrong = any(step.status == "wrong" for step in report.steps)
    copies = any(pair.reported and pair.status != "ok" for pair in report.peers)
    return (wrong and _over_p2p(report)) or (copies and report.ended != "complete")


def _hangs(facts: Facts, report: CollectiveReport, text: str) -> bool:
    return report.ended == "hang" and (_over_p2p(report) or not report.transports)


def _is_host_memory(facts: Facts, report: CollectiveReport, text: str) -> bool:
    env = facts.profile.env if facts.profile else {}
    off = "NCCL_CUMEM_HOST_ENABLE" in env and env["NCCL_CUMEM_HOST_ENABLE"].value == "0"
    return (
        not off
        and bool(re.search(r"Cuda failure 2 'out of memory'", text))
        and bool(_CUMEM_HOST.search(text))
    )


def _is_cumem(facts: Facts, report: CollectiveReport, text: str) -> bool:
    env = facts.profile.env if facts.profile else {}
    off = "NCCL_CUMEM_ENABLE" in env and env["NCCL_CUMEM_ENABLE"].value == "0"
    return on_wsl(facts) and not off and bool(_CUDA_ERROR.search(text))


_CONDITIONS: tuple[tuple[str, Callable[[Facts, CollectiveReport, str], bool]], ...] = (
    ("p2p-reported-not-usable", _is_wrong),
    ("nccl-p2p-hang", _hangs),
    ("nccl-cumem-host", _is_host_memory),
    ("nccl-cumem-wsl", _is_cumem),
)

_SENTENCES: Mapping[str, str] = MappingProxyType(
    {
        "nccl-duplicate-gpu": N_("Two ranks were given the same card."),
        "tp-exceeds-gpus": N_("There are more ranks than cards that CUDA sees."),
        "shm-too-small": N_("Shared memory is too small for what NCCL puts there."),
        "pidfd-getfd-denied": N_("The kernel forbids workers to share memory by descriptor."),
        "nccl-mempool-unsupported": N_("This virtual machine does not offer CUDA memory pools."),
        "nccl-ifname-wrong": N_("NCCL found no network interface for its first contact."),
        "nccl-lib-mismatch": N_("Another NCCL library is loaded than torch was built with."),
        "cuda-ipc-unsupported-wsl": N_("CUDA memory cannot be shared between processes here."),
        "p2p-reported-not-usable": N_(
            "Peer access is reported, but data arrives wrong or not at all."
        ),
        "nccl-p2p-hang": N_("The cards wait for each other and nothing arrives."),
        "nccl-cumem-host": N_("NCCL cannot get its shared host buffers through cuMem."),
        "nccl-cumem-wsl": N_("NCCL cannot join the cards through CUDA's virtual memory."),
        "nccl-collective-failed": N_("The cards could not exchange data."),
    }
)


def _words(kind: str, report: CollectiveReport) -> Message:
    if kind == "nccl-large-collective":
        return message(
            "Collectives work up to {ok} bytes and fail from {bad} bytes on.",
            ok=report.largest_ok_bytes,
            bad=report.first_bad_bytes or 0,
        )
    return Message(_SENTENCES[kind])


CHECK = Check(
    id=ID,
    title=N_("The cards exchange data"),
    probes=("system", "collective"),
    judge=judge,
    requires=("gpu-visible",),
    cost=Cost.SLOW,
    findings=(*FIXES, "nccl-slow-transport"),
)

"""Which programs hold memory of the cards, where the target can tell.

``nvidia-smi`` lists programs that compute, with their size on plain Linux. Under WSL2 it knows
neither names nor sizes of what Windows runs, and prints ``[N/A]`` or ``[Not Found]``; desktops
draw without computing and are in no list. What is not told is told as unknown, never as nobody.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath

from twinrig.domain.errors import HostError
from twinrig.domain.ports import Host

_PROGRAMS = ("nvidia-smi", "/usr/lib/wsl/lib/nvidia-smi")
_QUERY = (
    "--query-compute-apps=gpu_uuid,pid,process_name,used_gpu_memory",
    "--format=csv,noheader,nounits",
)
_FIELDS = 4
_TIMEOUT_S = 5.0
_MIB_PER_GIB = 1024


async def read_holders(host: Host) -> Mapping[str, tuple[str, ...]]:
    """Programs by the card's uuid, largest first; a card that is missing cannot be told."""
    for program in _PROGRAMS:
        try:
            done = await host.run([program, *_QUERY], timeout_s=_TIMEOUT_S)
        except HostError:
            continue
        if done.returncode == 0:
            return parse_holders(done.output)
    return {}


def parse_holders(text: str) -> Mapping[str, tuple[str, ...]]:
    """``vllm (pid 812, 9.5 GiB)`` for each program that has a name; the size only if told."""
    found: dict[str, list[tuple[int, str]]] = {}
    for line in text.splitlines():
        uuid, *rest = (part.strip() for part in line.split(","))
        if len(rest) < _FIELDS - 1:
            continue
        pid, name, size = rest[0], ",".join(rest[1:-1]), rest[-1]
        if not uuid or not pid.isdigit() or not name or name.startswith("["):
            continue
        mib = int(size) if size.isdigit() else 0
        told = f", {mib / _MIB_PER_GIB:.1f} GiB" if mib else ""
        short = PurePosixPath(name.split(" ")[0]).name or name
        found.setdefault(uuid, []).append((-mib, f"{short} (pid {pid}{told})"))
    return {uuid: tuple(text for _, text in sorted(items)) for uuid, items in found.items()}

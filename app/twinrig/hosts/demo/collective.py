"""The simulated cards exchange data: two cards on PCIe that talk through shared memory.

Speeds follow a start-up time of 20 us a call and 10 GB/s, about what two cards on PCIe 4.0 x8
reach through main memory.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

_LATENCY_S = 20e-6
_BYTES_PER_S = 10e9
_LOG = (
    "NCCL version 2.28.9+cuda13.0",
    "Channel 00 : 0[0] -> 1[1] via SHM/direct/direct",
    "Channel 00 : 1[1] -> 0[0] via SHM/direct/direct",
)


def is_collective(argv: Sequence[str]) -> bool:
    """Whether this command line is the collective check."""
    return argv[:1] == ("env",) and "twinrig-collective" in " ".join(argv)


def answer(argv: Sequence[str]) -> tuple[int, str, str]:
    """Return code, output and errors of the check; every value is right."""
    try:
        plan = json.loads(argv[-1])
        report = _report(plan)
        return 0, f"{plan['nonce']} {json.dumps(report)}\n", ""
    except (ValueError, KeyError, TypeError) as error:
        return 1, "", f"the demo rig does not understand this plan: {error}\n"


def _report(plan: Mapping[str, Any]) -> dict[str, Any]:
    world = int(plan["world"])
    enough = world <= 2
    return {
        "schema": 1,
        "world": world,
        "backend": plan["backend"],
        "ended": "complete" if enough else "failed",
        "ranks": [_rank(rank) for rank in range(world)],
        "steps": [_step(step, enough) for step in plan["steps"]],
        "peers": [_peer(*pair) for pair in ((0, 1), (1, 0))] if plan["peers"] else [],
        "log": list(_LOG),
        "output": [],
        "left_pids": [],
    }


def _rank(rank: int) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "rank": rank,
        "name": "NVIDIA GeForce RTX 3090",
        "uuid": "",
        "torch": "2.11.0+cu130",
        "nccl": "2.28.9",
        "exit": 0,
    }
    if rank > 1:
        text = f"rank {rank} needs CUDA device {rank}, but 2 are visible"
        facts |= {"exit": 1, "error": {"type": "RuntimeError", "text": text}}
    return facts


def _step(step: Mapping[str, Any], enough: bool) -> dict[str, Any]:
    seconds = _LATENCY_S + int(step["bytes"]) / _BYTES_PER_S
    status = "ok" if enough else "skipped"
    return {**step, "status": status, "wrong": 0, "seconds": seconds if enough else None}


def _peer(source: int, target: int) -> dict[str, Any]:
    size = 16 * 1024 * 1024
    return {
        "source": source,
        "target": target,
        "reported": False,
        "status": "ok",
        "bytes": size,
        "seconds": _LATENCY_S + size / _BYTES_PER_S,
    }

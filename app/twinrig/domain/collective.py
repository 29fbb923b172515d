"""What a real collective between the cards showed: values, speed, transport, and how it ended.

Written by ``resources/nccl`` on the engine's own Python; read here. Speeds are bus bandwidths in
decimal MB/s, as NVIDIA's nccl-tests define them, so that sizes and rank counts compare.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

REPORT_SCHEMA = 1
MIB = 1024 * 1024
FULL_SIZES_BYTES = (8, 512, 4096, 65536, 262144, 524288, MIB, 4 * MIB, 16 * MIB, 64 * MIB)
"""All-reduce in float16. From 512 KiB on NCCL uses another protocol, where some versions fault."""
QUICK_SIZES_BYTES = (4096, 262144, 524288, 4 * MIB)
VOCABULARY_BYTES = 248_320 * 2
"""Logits of one token of a large vocabulary in float16, gathered at every sampled token."""

_VIA = re.compile(r"\d+\[\w+\] -> \d+\[\w+\](?: \[\w+\])? via ((?:P2P|SHM|NET|COLLNET)\S*)")


@dataclass(frozen=True)
class StepPlan:
    """One collective to run: ``op`` is a name of ``resources/nccl/rank.py``."""

    op: str
    dtype: str
    size_bytes: int
    timed: bool = True


@dataclass(frozen=True)
class StepOutcome:
    """``status``: ok, wrong (values), error, hang, crash, late or skipped. ``seconds`` of one
    call on the slowest rank; None when not timed."""

    plan: StepPlan
    status: str
    wrong_values: int = 0
    seconds: float | None = None

    def bus_mbps(self, world: int) -> float | None:
        """Bus bandwidth; None for a single rank or a step without a time."""
        if not self.seconds or world < 2 or self.status != "ok":
            return None
        factor = {
            "all_reduce": 2 * (world - 1) / world,
            "all_gather": float(world - 1),
            "gather": (world - 1) / world,
        }.get(self.plan.op, 1.0)
        return self.plan.size_bytes * factor / self.seconds / 1e6


@dataclass(frozen=True)
class PeerCopy:
    """A copy between two cards beside what the driver reports about peer access."""

    source: int
    target: int
    reported: bool
    status: str
    mbps: float | None = None
    text: str = ""


@dataclass(frozen=True)
class RankFacts:
    """One process of the check. Versions are "" when it did not come so far."""

    rank: int
    name: str = ""
    uuid: str = ""
    torch: str = ""
    nccl: str = ""
    error: str = ""
    exit_code: int | None = None


@dataclass(frozen=True)
class CollectiveReport:
    """``ended``: complete, failed, hang, crash or late. ``left_pids`` could not even be killed."""

    world: int
    backend: str
    ended: str
    ranks: tuple[RankFacts, ...]
    steps: tuple[StepOutcome, ...]
    peers: tuple[PeerCopy, ...] = ()
    log: tuple[str, ...] = ()
    output: tuple[str, ...] = ()
    left_pids: tuple[int, ...] = ()

    @property
    def passed(self) -> bool:
        """All steps ran and every value was right."""
        fine = bool(self.steps) and all(step.status == "ok" for step in self.steps)
        return fine and self.ended == "complete"

    @property
    def transports(self) -> tuple[str, ...]:
        """As NCCL's log names them, such as ``P2P/CUMEM`` or ``SHM/direct``; most used first."""
        names = [found[1] for line in self.log if (found := _VIA.search(line))]
        return tuple(sorted(dict.fromkeys(names), key=lambda name: -names.count(name)))

    @property
    def speed_mbps(self) -> float | None:
        """Bus bandwidth of the largest timed all-reduce."""
        timed = [s for s in self.steps if s.plan.op == "all_reduce" and s.bus_mbps(self.world)]
        largest = max(timed, key=lambda s: s.plan.size_bytes, default=None)
        return None if largest is None else largest.bus_mbps(self.world)

    @property
    def largest_ok_bytes(self) -> int:
        """Largest all-reduce below the first bad one that was right; 0 when none was."""
        limit = self.first_bad_bytes
        sizes = [s.plan.size_bytes for s in self._all_reduces() if s.status == "ok"]
        return max((size for size in sizes if limit is None or size < limit), default=0)

    @property
    def first_bad_bytes(self) -> int | None:
        """Smallest all-reduce that did not work; None when all that ran did."""
        bad = [s for s in self._all_reduces() if s.status not in ("ok", "skipped")]
        return min((step.plan.size_bytes for step in bad), default=None)

    @property
    def torch_version(self) -> str:
        """Of the engine's environment."""
        return next((rank.torch for rank in self.ranks if rank.torch), "")

    @property
    def nccl_version(self) -> str:
        """As torch loaded it."""
        return next((rank.nccl for rank in self.ranks if rank.nccl), "")

    @property
    def complaints(self) -> str:
        """Everything that ranks and NCCL complained about, for signatures."""
        errors = [rank.error for rank in self.ranks if rank.error]
        return "\n".join([*errors, *self.log, *self.output])

    def _all_reduces(self) -> tuple[StepOutcome, ...]:
        return tuple(step for step in self.steps if step.plan.op == "all_reduce")


def step_plans(*, quick: bool = False) -> tuple[StepPlan, ...]:
    """Small sizes first: what works is known when a large one hangs."""
    sizes = QUICK_SIZES_BYTES if quick else FULL_SIZES_BYTES
    plans = [StepPlan("all_reduce", "float16", size) for size in sizes]
    if quick:
        return (*plans, StepPlan("gather", "float16", VOCABULARY_BYTES, timed=False))
    return (
        *plans,
        *(StepPlan("all_reduce", dtype, MIB) for dtype in ("bfloat16", "float32", "int32")),
        *(StepPlan(op, "float16", size) for op in _OTHERS for size in (4096, MIB, 16 * MIB)),
        StepPlan("gather", "float16", VOCABULARY_BYTES),
    )


_OTHERS = ("all_gather", "broadcast", "send_recv")


def parse_report(data: Mapping[str, Any]) -> CollectiveReport:
    """The coordinator's answer. Raises ValueError when it is not one."""
    try:
        if data["schema"] != REPORT_SCHEMA:
            raise ValueError(f"schema {data['schema']!r}")
        return CollectiveReport(
            world=int(data["world"]),
            backend=str(data["backend"]),
            ended=str(data["ended"]),
            ranks=tuple(_rank(rank) for rank in data["ranks"]),
            steps=tuple(_step(step) for step in data["steps"]),
            peers=tuple(_peer(pair) for pair in data.get("peers", [])),
            log=_texts(data["log"]),
            output=_texts(data["output"]),
            left_pids=tuple(int(pid) for pid in data["left_pids"]),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a report of the collective check: {error!r}") from error


def _texts(lines: Sequence[Any]) -> tuple[str, ...]:
    return tuple(str(line) for line in lines)


def _rank(data: Mapping[str, Any]) -> RankFacts:
    error = data.get("error")
    return RankFacts(
        rank=int(data["rank"]),
        name=str(data.get("name") or ""),
        uuid=str(data.get("uuid") or ""),
        torch=str(data.get("torch") or ""),
        nccl=str(data.get("nccl") or ""),
        error=f"{error['type']}: {error['text']}" if error else "",
        exit_code=data.get("exit"),
    )


def _step(data: Mapping[str, Any]) -> StepOutcome:
    plan = StepPlan(str(data["op"]), str(data["dtype"]), int(data["bytes"]), bool(data["timed"]))
    seconds = data["seconds"]
    return StepOutcome(
        plan, str(data["status"]), int(data["wrong"]), None if seconds is None else float(seconds)
    )


def _peer(data: Mapping[str, Any]) -> PeerCopy:
    seconds = data.get("seconds")
    return PeerCopy(
        source=int(data["source"]),
        target=int(data["target"]),
        reported=bool(data["reported"]),
        status=str(data["status"]),
        mbps=float(data["bytes"]) / float(seconds) / 1e6 if seconds else None,
        text=str(data.get("text") or ""),
    )

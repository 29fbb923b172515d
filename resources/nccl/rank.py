"""What one process of the collective check does, on the engine's own Python. Needs torch only.

The text of this file and of ``coordinator.py`` is joined and fed to that Python on standard input;
nothing is installed or written beside it. Each step is told before and after on a pipe, one JSON
object a line, so that the coordinator can name the step in which a rank hangs or dies.

Values are small whole numbers that depend on rank and index with a prime period: sums are exact
in every dtype used, and a part that arrives at the wrong place is as visible as one that is lost.
"""

import json
import os
import time

PERIOD = 61
ROUNDS = 2
VERIFY_CHUNK = 1 << 24


class Reporter:
    """Writes events of one process to a pipe; a reader that is gone ends the process."""

    def __init__(self, fd, rank):
        self._fd = fd
        self._rank = rank

    def tell(self, event, **facts):
        line = json.dumps({"event": event, "rank": self._rank, **facts}) + "\n"
        os.write(self._fd, line.encode())


def run_rank(plan, rank, fd):
    """Exit code of this rank. ``plan`` is the coordinator's: steps, world, backend, devices."""
    report = Reporter(fd, rank)
    report.tell("start", pid=os.getpid())
    step = None
    try:
        import torch
        import torch.distributed as dist

        device = _open_device(torch, plan, rank)
        report.tell("device", **_facts(torch, plan, device))
        _join(dist, plan, rank)
        report.tell("joined")
        for index, step in enumerate(plan["steps"]):
            report.tell("begin", step=index)
            wrong, seconds = _run_step(torch, dist, device, plan["world"], rank, step, report)
            report.tell("end", step=index, wrong=wrong, seconds=seconds)
        report.tell("done")
        dist.destroy_process_group()
    except BaseException as error:  # noqa: BLE001 - everything is told to the coordinator, which judges
        report.tell("error", type=type(error).__name__, text=str(error)[-4000:])
        return 1
    return 0


def run_peers(plan, fd):
    """Copy between each pair of cards, compare, and tell what the driver says about it."""
    report = Reporter(fd, -1)
    report.tell("start", pid=os.getpid())
    try:
        import torch

        cards = plan["devices"] or list(range(plan["world"]))
        cards = [card for card in dict.fromkeys(cards) if card < torch.cuda.device_count()]
        report.tell("device")
        for source in cards:
            for target in cards:
                if source != target:
                    reported = bool(torch.cuda.can_device_access_peer(target, source))
                    pair = {"source": source, "target": target, "reported": reported}
                    report.tell("pair", **pair)
                    report.tell(
                        "copied", **pair, **_copy(torch, source, target, plan["peer_bytes"])
                    )
        report.tell("done")
    except BaseException as error:  # noqa: BLE001 - told, not raised: the coordinator judges
        report.tell("error", type=type(error).__name__, text=str(error)[-4000:])
        return 1
    return 0


def _open_device(torch, plan, rank):
    if plan["backend"] != "nccl":
        torch.set_num_threads(1)  # ranks that share few cores must not fight for them
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise RuntimeError("torch sees no CUDA device")
    cards = plan["devices"] or list(range(plan["world"]))
    count = torch.cuda.device_count()
    if cards[rank] >= count:
        raise RuntimeError(f"rank {rank} needs CUDA device {cards[rank]}, but {count} are visible")
    torch.cuda.set_device(cards[rank])
    return torch.device("cuda", cards[rank])


def _facts(torch, plan, device):
    facts = {"torch": torch.__version__, "cuda": torch.version.cuda, "nccl": None, "name": "CPU"}
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        free, total = torch.cuda.mem_get_info(device)
        facts.update(
            nccl=".".join(str(part) for part in torch.cuda.nccl.version()),
            name=properties.name,
            uuid=str(getattr(properties, "uuid", "")),
            index=device.index,
            capability=f"{properties.major}.{properties.minor}",
            visible=torch.cuda.device_count(),
            free_bytes=free,
            total_bytes=total,
        )
    return facts


def _join(dist, plan, rank):
    from datetime import timedelta

    dist.init_process_group(
        plan["backend"],
        init_method="file://" + plan["folder"] + "/rendezvous",
        rank=rank,
        world_size=plan["world"],
        timeout=timedelta(seconds=plan["start_s"] + plan["step_s"]),
    )


def _pattern(torch, count, rank, salt, dtype, device, first=0):
    index = torch.arange(first, first + count, dtype=torch.int32, device=device)
    return ((index % PERIOD * 7 + rank * 13 + salt) % PERIOD).to(dtype)


def _sync(torch, device):
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _difference(torch, found, expected_of):
    """How many values differ, compared in parts so that little memory is needed."""
    count = 0
    for first in range(0, found.numel(), VERIFY_CHUNK):
        part = found[first : first + VERIFY_CHUNK]
        count += int((part != expected_of(first, part.numel())).sum().item())
    return count


def _run_step(torch, dist, device, world, rank, step, report):
    """Number of wrong values over all rounds, and the mean seconds of one call.

    Tells that it is alive between calls: what is slow on a busy machine must not look hung.
    """
    dtype = getattr(torch, step["dtype"])
    count = max(1, step["bytes"] // torch.empty((), dtype=dtype).element_size())
    operation = _OPERATIONS[step["op"]](torch, dist, device, world, rank, count, dtype)
    wrong = 0
    for salt in range(ROUNDS):
        operation.fill(salt)
        _sync(torch, device)
        report.tell("alive")
        operation.call()
        _sync(torch, device)
        report.tell("alive")
        wrong += operation.wrong(salt)
    repeats = max(2, min(20, (64 << 20) // max(1, step["bytes"]))) if step["timed"] else 0
    if not repeats:
        return wrong, None
    operation.clear()
    dist.barrier()
    _sync(torch, device)
    began = time.perf_counter()
    for _ in range(repeats):
        operation.call()
        if device.type == "cpu":
            report.tell("alive")
    _sync(torch, device)
    return wrong, (time.perf_counter() - began) / repeats


class _Operation:
    """``data`` is what this rank gives, or what is reduced in place; ``count`` elements."""

    def __init__(self, torch, dist, device, world, rank, count, dtype):
        self.torch, self.dist, self.device = torch, dist, device
        self.world, self.rank, self.count, self.dtype = world, rank, count, dtype
        self.data = torch.zeros(count, dtype=dtype, device=device)

    def part(self, rank, salt, first=0, count=None):
        count = self.count if count is None else count
        return _pattern(self.torch, count, rank, salt, self.dtype, self.device, first)

    def fill(self, salt):
        for first in range(0, self.count, VERIFY_CHUNK):
            count = min(VERIFY_CHUNK, self.count - first)
            self.data[first : first + count] = self.part(self.rank, salt, first, count)

    def clear(self):
        self.data.zero_()

    def differs(self, found, rank, salt):
        return _difference(self.torch, found, lambda f, n: self.part(rank, salt, f, n))


class _AllReduce(_Operation):
    def call(self):
        self.dist.all_reduce(self.data)

    def wrong(self, salt):
        return _difference(
            self.torch, self.data, lambda first, count: self._sum(salt, first, count)
        )

    def _sum(self, salt, first, count):
        total = self.part(0, salt, first, count)
        for rank in range(1, self.world):
            total = total + self.part(rank, salt, first, count)
        return total


class _AllGather(_Operation):
    """Every rank gives its part; the size is that of one part."""

    def fill(self, salt):
        super().fill(salt)
        self.found = [self.torch.zeros_like(self.data) for _ in range(self.world)]

    def call(self):
        self.dist.all_gather(self.found, self.data)

    def wrong(self, salt):
        return sum(self.differs(part, rank, salt) for rank, part in enumerate(self.found))


class _Broadcast(_Operation):
    """From the last rank, which most programs never let speak first."""

    def call(self):
        self.dist.broadcast(self.data, src=self.world - 1)

    def wrong(self, salt):
        return self.differs(self.data, self.world - 1, salt)


class _SendRecv(_Operation):
    """Each rank sends to the next one and receives from the one before."""

    def fill(self, salt):
        super().fill(salt)
        self.found = self.torch.zeros_like(self.data)

    def call(self):
        ahead, behind = (self.rank + 1) % self.world, (self.rank - 1) % self.world
        if self.world == 1:
            self.found.copy_(self.data)
            return
        pair = [
            self.dist.P2POp(self.dist.isend, self.data, ahead),
            self.dist.P2POp(self.dist.irecv, self.found, behind),
        ]
        for work in self.dist.batch_isend_irecv(pair):
            work.wait()

    def wrong(self, salt):
        return self.differs(self.found, (self.rank - 1) % self.world, salt)


class _Gather(_Operation):
    """The logits of a vocabulary split over the ranks, put together on rank 0."""

    def __init__(self, torch, dist, device, world, rank, count, dtype):
        super().__init__(torch, dist, device, world, rank, -(-count // world), dtype)
        self.found = None

    def fill(self, salt):
        super().fill(salt)
        if self.rank == 0:
            self.found = [self.torch.zeros_like(self.data) for _ in range(self.world)]

    def call(self):
        self.dist.gather(self.data, self.found, dst=0)

    def wrong(self, salt):
        parts = self.found or []
        return sum(self.differs(part, rank, salt) for rank, part in enumerate(parts))


_OPERATIONS = {
    "all_reduce": _AllReduce,
    "all_gather": _AllGather,
    "broadcast": _Broadcast,
    "send_recv": _SendRecv,
    "gather": _Gather,
}


def _copy(torch, source, target, size_bytes):
    """A copy from card to card, compared with the same copy through host memory."""
    count, repeats = size_bytes // 4, 10
    wrong = 0
    for salt in range(ROUNDS):
        data = _pattern(torch, count, source, salt, torch.float32, torch.device("cuda", source))
        there = torch.zeros(count, dtype=torch.float32, device=torch.device("cuda", target))
        torch.cuda.synchronize(source)
        there.copy_(data)
        torch.cuda.synchronize(source)
        torch.cuda.synchronize(target)
        wrong += int((there.cpu() != data.cpu()).sum().item())
    began = time.perf_counter()
    for _ in range(repeats):
        there.copy_(data)
    torch.cuda.synchronize(source)
    torch.cuda.synchronize(target)
    seconds = (time.perf_counter() - began) / repeats
    return {"wrong": wrong, "seconds": seconds, "bytes": count * 4}

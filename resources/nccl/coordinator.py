"""Starts the ranks of the collective check, watches them, and leaves nothing behind.

Joined behind ``rank.py``. ``sys.argv[1]`` is the plan as JSON: nonce, world, backend, devices
(null = one card a rank), steps (op, dtype, bytes, timed), peers, peer_bytes, start_s, step_s,
grace_s, total_s. The answer is one line: the nonce, a blank and a JSON object. The exit code is 0
also when ranks failed.

Every rank is a process of its own. A janitor in a session of its own waits for our end: even when
we are killed, ranks, shared memory and temporary files are gone a moment later.
"""

import contextlib
import ctypes
import json
import os
import re
import select
import shutil
import signal
import sys
import tempfile
import time

SHM = "/dev/shm"
LOG_LINES = 80
LOG_LINE = re.compile(
    r" via |NCCL WARN|NCCL version|set by environment|^\S+\.cc:\d+ -> \d+|Duplicate GPU|NVLS"
)
LOG_PREFIX = re.compile(r"^\S+:\d+:\d+ (\[\d+\] )?(NCCL INFO )?")
PR_SET_PDEATHSIG = 1


def main(plan):
    """The answer to ``plan``; whatever ends this process, ``clean`` has run."""
    # Two cards on PCIe have no use for NVLink multicast, and a fault in it can take a whole
    # switched machine down: never let a check depend on it.
    os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
    os.environ.setdefault("TORCH_SYMM_MEM_DISABLE_MULTICAST", "1")
    plan["folder"] = tempfile.mkdtemp(prefix="twinrig-collective-")
    janitor = start_janitor(plan["folder"])
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(143))
    before = segments()
    watched = []
    answer = {"schema": 1, "world": plan["world"], "backend": plan["backend"]}
    try:
        deadline = time.monotonic() + plan["total_s"]
        if plan.get("peers"):
            peers = Run(plan, janitor, deadline)
            watched.append(peers)
            peers.start([lambda fd: run_peers(plan, fd)])  # noqa: F821
            peers.watch()
            answer["peers"] = peer_copies(peers.events, peers.ended)
        ranks = Run(plan, janitor, deadline)
        watched.append(ranks)
        world = range(plan["world"])
        ranks.start([lambda fd, rank=rank: run_rank(plan, rank, fd) for rank in world])  # noqa: F821
        ranks.watch()
        answer.update(rank_answer(plan, ranks))
    finally:
        left = [pid for run in watched for pid in run.kill()]
        answer["log"] = read_log(plan["folder"])
        answer["output"] = read_output(plan["folder"])
        seen = {path for run in watched for path in run.shm}
        answer["removed_shm"] = remove_segments(seen, before)
        answer["left_pids"] = left
        shutil.rmtree(plan["folder"], ignore_errors=True)
    return answer


def start_janitor(folder):
    """Write end of a pipe; when its last holder is gone, the recorded processes are ended.

    Ranks close their copy, so the last holder is the coordinator.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child:
        os.close(reading)
        os.waitpid(child, 0)
        return writing
    os.setsid()
    if os.fork() == 0:
        os.close(writing)
        clean_up_after(reading, folder)
    os._exit(0)


def clean_up_after(reading, folder):
    """In the janitor: wait for the end of the pipe, then end and remove what was recorded."""
    for fd in (0, 1, 2):
        os.dup2(os.open(os.devnull, os.O_RDWR), fd)
    records = b""
    while chunk := os.read(reading, 65536):
        records += chunk
    pairs = [line.partition(" ") for line in records.decode().splitlines()]
    processes = [rest.partition(" ") for kind, _, rest in pairs if kind == "pid"]
    paths = {rest for kind, _, rest in pairs if kind == "shm"}
    for _ in range(200):
        living = [int(pid) for pid, _, ticks in processes if ticks and start_ticks(pid) == ticks]
        for pid in living:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        if not living:
            break
        time.sleep(0.05)
    for path in paths - mapped_by_anyone(paths):
        with contextlib.suppress(OSError):
            os.unlink(path)
    shutil.rmtree(folder, ignore_errors=True)


def start_ticks(pid):
    """Start time of a live process as /proc tells it; "" when it is gone or a zombie."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] == b"Z" else fields[19].decode()


class Run:
    """Processes that work together. ``ended``: complete, failed, hang, crash or late."""

    def __init__(self, plan, janitor, deadline):
        self._plan, self._janitor, self._deadline = plan, janitor, deadline
        self._pipes, self._partial = {}, {}
        self.pids, self.exits, self.events, self.shm = [], {}, [], set()
        self.ended = "complete"
        self.heard = {}

    def start(self, bodies):
        for body in bodies:
            reading, writing = os.pipe()
            pid = os.fork()
            if pid == 0:
                os.close(reading)
                self._become(body, writing)
            os.close(writing)
            self.pids.append(pid)
            self._pipes[reading] = pid
            self._partial[reading] = b""
            self.heard[pid] = [time.monotonic(), self._plan["start_s"]]

    def _become(self, body, fd):
        code = 1
        try:
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            ticks = start_ticks(os.getpid())
            os.write(self._janitor, f"pid {os.getpid()} {ticks}\n".encode())
            os.close(self._janitor)
            os.setpgid(0, 0)
            for other in self._pipes:
                os.close(other)
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                signal.signal(number, signal.SIG_DFL)
            name = f"{self._plan['folder']}/output.{os.getpid()}"
            output = os.open(name, os.O_WRONLY | os.O_CREAT, 0o600)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(output, 1)
            os.dup2(output, 2)
            os.environ["NCCL_DEBUG"] = "INFO"
            os.environ["NCCL_DEBUG_SUBSYS"] = "INIT,ENV"
            os.environ["NCCL_DEBUG_FILE"] = f"{self._plan['folder']}/nccl.%p"
            code = body(fd)
        finally:
            os._exit(code)

    def watch(self):
        """Until all have ended, one has failed (the others get a moment), or nothing moves."""
        grace = None
        while len(self.exits) < len(self.pids):
            self._listen()
            self._look()
            now = time.monotonic()
            if self._all_done() or self._has_crash() or self._has_error():
                grace = grace or now + self._plan["grace_s"]
                if now > grace:
                    break
            elif now > self._deadline:
                self.ended = "late"
                return
            elif any(now - since > limit for since, limit in self.heard.values()):
                self.ended = "hang"
                return
        self._listen()
        if self._all_done():
            return
        if self._has_error():
            self.ended = "failed"
        elif self._has_crash():
            self.ended = "crash"

    def _all_done(self):
        """All ranks did all their work; a library that hangs while it is closed proves nothing."""
        return sum(event["event"] == "done" for event in self.events) == len(self.pids)

    def _has_crash(self):
        return any(code != 0 for code in self.exits.values())

    def _has_error(self):
        return any(event["event"] == "error" for event in self.events)

    def _listen(self):
        ready = select.select(list(self._pipes), [], [], 0.1)[0] if self._pipes else []
        for fd in ready:
            chunk = os.read(fd, 65536)
            pid = self._pipes[fd]
            if not chunk:
                os.close(fd)
                del self._pipes[fd]
                continue
            *lines, self._partial[fd] = (self._partial[fd] + chunk).split(b"\n")
            for line in lines:
                self._hear(pid, json.loads(line))

    def _hear(self, pid, event):
        """What moves is alive; the first step builds the communicator and may take long."""
        kind = event["event"]
        since, limit = self.heard.get(pid, (0.0, self._plan["start_s"]))
        if kind != "alive":
            self.events.append(event)
            slow = kind in ("start", "device", "joined") or event.get("step") == 0
            limit = self._plan["start_s" if slow else "step_s"]
        if pid not in self.exits:
            self.heard[pid] = [max(since, time.monotonic()), limit]

    def _look(self):
        if not self._pipes:
            time.sleep(0.02)
        for pid in self.pids:
            if pid in self.exits:
                continue
            for path in mapped_segments(pid) - self.shm:
                self.shm.add(path)
                os.write(self._janitor, f"shm {path}\n".encode())
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                self.exits[pid] = os.waitstatus_to_exitcode(status)
                self.heard.pop(pid, None)

    def kill(self):
        """End what still runs; pids that even then do not go (stuck in the driver)."""
        for pid in self.pids:
            if pid not in self.exits:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
        until = time.monotonic() + 10.0
        while len(self.exits) < len(self.pids) and time.monotonic() < until:
            self._look()
            time.sleep(0.02)
        for fd in list(self._pipes):
            os.close(fd)
            del self._pipes[fd]
        return [pid for pid in self.pids if pid not in self.exits]


def segments():
    """Files of NCCL and torch in shared memory now."""
    try:
        names = os.listdir(SHM)
    except OSError:
        return set()
    return {f"{SHM}/{name}" for name in names if name.startswith(("nccl-", "torch_"))}


def mapped_segments(pid):
    """Files of shared memory that a process has mapped or open, by name."""
    found = set()
    with contextlib.suppress(OSError), open(f"/proc/{pid}/maps") as file:
        for line in file:
            _, sign, rest = line.rstrip("\n").partition(f" {SHM}/")
            if sign and not rest.endswith(" (deleted)"):
                found.add(f"{SHM}/{rest}")
    with contextlib.suppress(OSError):
        for entry in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                target = os.readlink(f"/proc/{pid}/fd/{entry}")
                if target.startswith(f"{SHM}/") and not target.endswith(" (deleted)"):
                    found.add(target)
    return found


def mapped_by_anyone(paths):
    """Those of ``paths`` that a live process uses."""
    used = set()
    for name in os.listdir("/proc") if paths else []:
        if name.isdigit():
            used |= mapped_segments(name) & set(paths)
    return used


def remove_segments(seen, before):
    """Remove what our ranks mapped, and new files of ours that nobody uses."""
    new = set()
    for path in segments() - before:
        with contextlib.suppress(OSError):
            if os.stat(path).st_uid == os.getuid():
                new.add(path)
    removed = []
    for path in sorted((seen | new) - mapped_by_anyone(seen | new)):
        with contextlib.suppress(OSError):
            os.unlink(path)
            removed.append(path)
    return removed


def rank_answer(plan, run):
    """What the ranks told, put together by step."""
    ranks = [{"rank": rank} for rank in range(plan["world"])]
    for event in run.events:
        facts = {name: value for name, value in event.items() if name not in ("event", "rank")}
        if event["event"] in ("start", "device"):
            ranks[event["rank"]].update(facts)
        elif event["event"] == "error":
            ranks[event["rank"]]["error"] = facts
        elif event["event"] == "joined":
            ranks[event["rank"]]["joined"] = True
    for rank, pid in zip(ranks, run.pids, strict=True):
        rank["exit"] = run.exits.get(pid)
    steps = [step_answer(plan, run, index) for index in range(len(plan["steps"]))]
    return {"ended": run.ended, "ranks": ranks, "steps": steps}


def step_answer(plan, run, index):
    """ok, wrong, error, hang, crash, late or skipped; seconds of the slowest rank."""
    step = plan["steps"][index]
    mine = [event for event in run.events if event.get("step") == index]
    ends = [event for event in mine if event["event"] == "end"]
    wrong = sum(event["wrong"] for event in ends)
    if len(ends) == plan["world"]:
        status = "wrong" if wrong else "ok"
    elif not mine:
        status = "skipped"
    else:
        status = "error" if run.ended in ("failed", "complete") else run.ended
    times = [event["seconds"] for event in ends if event["seconds"]]
    seconds = max(times) if len(times) == plan["world"] else None
    return {**step, "status": status, "wrong": wrong, "seconds": seconds}


def peer_copies(events, ended):
    """One entry a pair; a pair that never came back carries how the run ended."""
    pairs = {}
    for event in events:
        if event["event"] in ("pair", "copied"):
            key = event["source"], event["target"]
            facts = {name: value for name, value in event.items() if name not in ("event", "rank")}
            pairs[key] = facts
    errors = [event["text"] for event in events if event["event"] == "error"]
    for pair in pairs.values():
        if "wrong" not in pair:
            pair["status"] = "error" if ended == "failed" else ended
            pair["text"] = errors[0] if errors else ""
        else:
            pair["status"] = "wrong" if pair["wrong"] else "ok"
    return list(pairs.values())


def read_log(folder):
    """Lines of NCCL's logs that tell transports, versions, settings and faults, each once."""
    lines = {}
    for name in sorted(os.listdir(folder)):
        if name.startswith("nccl."):
            with open(f"{folder}/{name}", errors="replace") as file:
                for line in file:
                    text = LOG_PREFIX.sub("", line.strip())
                    if LOG_LINE.search(text):
                        lines.setdefault(text[:400], None)
    faults = [line for line in lines if "WARN" in line or (" -> " in line and ".cc:" in line)]
    return [*faults, *(line for line in lines if line not in faults)][:LOG_LINES]


def read_output(folder):
    """Last lines of what the ranks printed."""
    lines = []
    for name in sorted(os.listdir(folder)):
        if name.startswith("output."):
            with open(f"{folder}/{name}", errors="replace") as file:
                lines += [line.rstrip()[:400] for line in file][-20:]
    return lines[-40:]


if __name__ == "__main__":
    request = json.loads(sys.argv[1])
    answered = main(request)
    sys.stdout.write(request["nonce"] + " " + json.dumps(answered) + "\n")
    sys.stdout.flush()

"""Drives the product against a real vLLM: home, engine, model, and what is left on the machine.

``TWINRIG_REAL_VLLM`` names the environment (``.ci/vllm-env`` makes one). The product is driven
as a user drives it: by its command line, in processes of its own.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from twinrig.domain.profile import EngineRef, EnvEntry, ModelRef, Network, Profile
from twinrig.services.profiles import dump_profile

CPU_ENV = {"VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
CONTEXT = 1024


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Rig:
    """A home, an engine and a model; ``twinrig`` runs the product against them."""

    home: Path
    engine: Path
    model: Path
    environ: Mapping[str, str] = field(default_factory=dict)

    def twinrig(self, *args: str, timeout_s: float = 300.0) -> subprocess.CompletedProcess[str]:
        """Run one verb on target local; text output."""
        return subprocess.run(
            [sys.executable, "-m", "twinrig", "--target", "local", *args],
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
            stdin=subprocess.DEVNULL,
        )

    def add_profile(self, profile_id: str, port: int, **changes: Any) -> Profile:
        """Write a profile for the tiny model straight into the home; ``changes`` override."""
        values: dict[str, Any] = {
            "engine": EngineRef("vllm", str(self.engine)),
            "model": ModelRef(str(self.model), "tiny"),
            "settings": {"context_length": CONTEXT, "enforce_eager": True, "max_num_seqs": 8},
            "env": {name: EnvEntry(value, "runs on the CPU") for name, value in CPU_ENV.items()},
            **changes,
        }
        profile = Profile(
            id=profile_id,
            name=profile_id,
            target="local",
            network=Network("127.0.0.1", port),
            **values,
        )
        folder = self.home / "config" / "profiles"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{profile_id}.yaml").write_text(dump_profile(profile), encoding="utf-8")
        return profile

    def record(self, profile_id: str) -> dict[str, Any]:
        """The supervisor's record as plain data; {} while there is none."""
        path = self.home / "state" / "local" / "servers" / profile_id / "state.json"
        return json.loads(path.read_text("utf-8")) if path.exists() else {}

    def processes_of(self, profile_id: str) -> dict[tuple[int, str], str]:
        """The server's process and all below it: ``(pid, start time)`` -> command line.

        vLLM's workers retitle themselves over their environment, so ancestry tells, not run id.
        """
        table = process_table()
        found, parents = {}, {self.record(profile_id)["server_pid"]}
        while parents:
            below = set()
            for pid, (parent, started, command) in table.items():
                if pid in parents:
                    found[pid, started] = command
                if parent in parents:
                    below.add(pid)
            parents = below
        return found


def process_table() -> dict[int, tuple[int, str, str]]:
    """Live processes: pid -> (parent pid, start time in ticks, command line)."""
    table = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            command = (
                (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            )
            stat = (folder / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
        except OSError:
            continue
        if stat[0] != "Z":
            table[int(folder.name)] = (int(stat[1]), stat[19], command.strip())
    return table


def still_alive(processes: Collection[tuple[int, str]]) -> list[str]:
    """Command lines of those that live, pid reuse excluded by start time."""
    table = process_table()
    return [
        table[pid][2] for pid, started in processes if pid in table and table[pid][1] == started
    ]


def shared_memory() -> set[str]:
    """Paths under ``/dev/shm`` now."""
    return {str(path) for path in Path("/dev/shm").iterdir()}


def shared_memory_of(pids: Iterable[int]) -> set[str]:
    """Files under ``/dev/shm`` that these processes have mapped."""
    found = set()
    for pid in pids:
        try:
            maps = Path(f"/proc/{pid}/maps").read_text("utf-8", "replace")
        except OSError:
            continue
        for line in maps.splitlines():
            path = line.split(maxsplit=5)[-1]
            if path.startswith("/dev/shm/") and not path.endswith("(deleted)"):
                found.add(path)
    return found


def wait_until(question: Any, timeout_s: float, what: str) -> float:
    """Seconds until ``question()`` is true; fails the test after ``timeout_s``."""
    began = time.monotonic()
    while not question():
        if time.monotonic() - began > timeout_s:
            pytest.fail(f"not within {timeout_s} s: {what}")
        time.sleep(0.2)
    return time.monotonic() - began

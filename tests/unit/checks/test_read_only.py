"""No probe changes anything: files, times, sizes and kernel settings before = after."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from twinrig.checks.registry import CHECKS
from twinrig.domain.checks import Cost

from .test_probe_script import ask, program, put

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the script is for Linux")


def tree(folder: Path) -> dict[str, tuple[int, int, int, bytes]]:
    found = {}
    for path in sorted(folder.rglob("*")):
        info = path.lstat()
        data = path.read_bytes() if path.is_file() else b""
        found[str(path)] = info.st_mtime_ns, info.st_mode, info.st_size, data
    return found


def test_all_probes_leave_a_machine_as_it_was(tmp_path: Path) -> None:
    put(tmp_path, "proc/sys/kernel/osrelease", "6.6.114.1-microsoft-standard-WSL2\n")
    put(tmp_path, "proc/sys/kernel/yama/ptrace_scope", "1\n")
    put(tmp_path, "proc/meminfo", "MemTotal: 1 kB\nMemAvailable: 1 kB\n")
    put(tmp_path, "proc/net/tcp", "  sl  local_address\n")
    put(tmp_path, "proc/512/cmdline", "VLLM::Worker_TP0\0")
    put(tmp_path, "etc/sysctl.d/60-twinrig-ptrace.conf", "kernel.yama.ptrace_scope = 0\n")
    put(tmp_path, "dev/shm/nccl-abc", "x")
    put(tmp_path, "usr/lib/wsl/lib/libcuda.so.1", "")
    put(tmp_path, "model/config.json", "{}")
    put(tmp_path, "model/model.safetensors", "x" * 64)
    put(tmp_path, "venv/pyvenv.cfg", "version = 3.12.3\n")
    program(tmp_path / "venv/bin", "python", "echo /usr/include/python3.12")
    names = sorted({n for c in CHECKS if c.cost is Cost.CHEAP for n in c.probes} | {"ptrace_file"})
    before = tree(tmp_path)
    answers = ask(
        *names,
        sysroot=str(tmp_path),
        model_path=str(tmp_path / "model"),
        environment=str(tmp_path / "venv"),
        endpoint="127.0.0.1:8000",
    )

    assert set(answers) == set(names) and len(names) >= 14
    assert tree(tmp_path) == before

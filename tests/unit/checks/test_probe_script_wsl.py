"""Probes of WSL, compiler and workers, by a real bash against a tree that stands for a machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from .test_probe_script import ask, program, put

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the script is for Linux")


def test_windows_driver_and_a_linux_driver_beside_it(tmp_path: Path) -> None:
    put(tmp_path, "usr/lib/wsl/lib/libcuda.so.1", "")
    put(tmp_path, "usr/lib/x86_64-linux-gnu/libcuda.so.580.82", "")
    link = tmp_path / "usr/lib/x86_64-linux-gnu/libcuda.so.1"
    link.symlink_to(tmp_path / "usr/lib/wsl/lib/libcuda.so.1")
    put(
        tmp_path,
        "var/lib/dpkg/status",
        "Package: libnvidia-compute-580\nStatus: install ok installed\n\n"
        "Package: nvidia-driver-535\nStatus: deinstall ok config-files\n\n"
        "Package: python3\nStatus: install ok installed\n",
    )
    program(
        tmp_path / "bin",
        "ldconfig",
        "printf '\\tlibcuda.so.1 (libc6,x86-64) => /usr/lib/x86_64-linux-gnu/libcuda.so.1\\n"
        "\\tlibcuda.so (libc6,x86-64) => /usr/lib/x86_64-linux-gnu/libcuda.so\\n"
        "\\tlibcuda.so.1 (libc6,x86-64) => /usr/lib/wsl/lib/libcuda.so.1\\n'",
    )
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    output = ask("wsl", path=path, sysroot=str(tmp_path))["wsl"]

    assert output.returncode == 0
    assert output.stdout.splitlines() == [
        "driver=yes",
        "foreign /usr/lib/x86_64-linux-gnu/libcuda.so.580.82",
        "package libnvidia-compute-580",
        "library /usr/lib/x86_64-linux-gnu/libcuda.so.1",
        "library /usr/lib/wsl/lib/libcuda.so.1",
        "libraries=listed",
    ]


def test_version_of_wsl_comes_from_its_own_tool(tmp_path: Path) -> None:
    program(tmp_path / "bin", "wslinfo", 'printf "2.7.11.0\\r\\n"')
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    lines = ask("wsl", path=path, sysroot=str(tmp_path))["wsl"].stdout.splitlines()

    assert lines[:2] == ["driver=no", "wsl_version=2.7.11.0"]


def test_compiler_and_headers_of_the_environments_python(tmp_path: Path) -> None:
    include = tmp_path / "include"
    program(tmp_path / "venv/bin", "python", f"echo {include}")
    program(tmp_path / "tools", "cc", "exit 0")
    path = f"{tmp_path / 'tools'}:{os.environ['PATH']}"

    def answer() -> list[str]:
        output = ask("compiler", path=path, environment=str(tmp_path / "venv"))["compiler"]
        return output.stdout.splitlines()

    found = [f"cc={tmp_path / 'tools/cc'}", f"include={include}"]
    assert answer() == [*found, "headers=no"]
    put(tmp_path, "include/Python.h", "")
    assert answer() == [*found, "headers=yes"]


def test_no_environment_leaves_the_headers_open() -> None:
    lines = ask("compiler")["compiler"].stdout.splitlines()
    assert len(lines) == 1 and lines[0].startswith("cc=")


def test_workers_and_servers_are_told_by_their_titles(tmp_path: Path) -> None:
    put(tmp_path, "proc/512/cmdline", "VLLM::Worker_TP0\0")
    put(tmp_path, "proc/512/status", "Name:\tVLLM::Worker_TP\nPPid:\t1\n")
    put(tmp_path, "proc/512/environ", "A=b\0TWINRIG_RUN_ID=run-7\0")
    put(tmp_path, "proc/600/cmdline", "/venv/bin/python\0/venv/bin/vllm\0serve\0/m\0")
    put(tmp_path, "proc/700/cmdline", "vim\0VLLM::notes\0")
    lines = ask("workers", sysroot=str(tmp_path))["workers"].stdout.splitlines()

    assert lines[0] == "checked=yes"
    assert sorted(line.strip() for line in lines[1:]) == [
        "server 600",
        "worker 512 1 run-7 VLLM::Worker_TP0",
    ]

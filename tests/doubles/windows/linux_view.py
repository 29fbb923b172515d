"""What a private distribution sees of its machine: files, kernel, devices and cards of its own.

Nothing of this computer is changed: everything is mounted in a namespace of the distribution's
init. Needs root.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import stat
from pathlib import Path
from typing import Any

LIBC = ctypes.CDLL(None, use_errno=True)
UID = 61234
_NEW_MOUNTS, _BIND, _READ_ONLY, _REMOUNT, _PRIVATE, _REC = (
    0x20000,
    0x1000,
    0x1,
    0x20,
    0x40000,
    0x4000,
)
KERNELS = {
    "5.15": "5.15.167.4-microsoft-standard-WSL2",
    "6.6": "6.6.87.2-microsoft-standard-WSL2",
    "6.18": "6.18.9.1-microsoft-standard-WSL2",
}
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")

# The stand-in for NVIDIA's program; CARDS is "index|uuid|name|total|used" a line.
_SMI = """#!/bin/sh
mode='{mode}'
case $mode in
  segfault) kill -SEGV $$ ;;
  no_driver)
    echo "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."
    echo "Make sure that the latest NVIDIA driver is installed and running."
    exit 9 ;;
esac
cards='{cards}'
one() {{
  case $1 in
    index) echo "$index" ;; uuid) echo "$uuid" ;; name) echo "$name" ;;
    memory.total) echo "$total" ;; driver_version) echo '{driver}' ;;
    memory.used) if [ "$mode" = na ]; then echo '[N/A]'; else echo "$used"; fi ;;
    compute_cap) echo 8.6 ;;
    *) echo '[N/A]' ;;
  esac
}}
query=
for word; do case $word in
  --query-gpu=*) query=${{word#*=}} ;;
  --query-compute-apps=*) exit 0 ;;
esac; done
if [ -n "$query" ]; then
  echo "$cards" | while IFS='|' read -r index uuid name total used; do
    [ -n "$uuid" ] || continue
    line=; for field in $(echo "$query" | tr , ' '); do line="$line, $(one "$field")"; done
    echo "${{line#, }}"
  done
  exit 0
fi
echo '+-----------------------------------------------------------------------------------------+'
if [ "$mode" = new_head ]; then
  echo '| NVIDIA-SMI {library}   KMD Version: {driver}   CUDA UMD Version: {cuda}     |'
else
  echo '| NVIDIA-SMI {library}   Driver Version: {driver}   CUDA Version: {cuda}     |'
fi
"""


def make_private(store: Any, folder: Path, state: dict[str, Any]) -> None:
    """Own ``/etc``, homes, ``/usr/local/bin`` and kernel; with ``gpu`` also a driver."""
    flags, etc = set(state["flags"]), folder / "etc"
    if not etc.exists():
        shutil.copytree("/etc", etc, symlinks=True, ignore_dangling_symlinks=True)
        with (etc / "passwd").open("a") as passwd:
            passwd.write(f"me:x:{UID}:{UID}::/home/me:/bin/bash\n")
        (etc / "sysctl.d").mkdir(exist_ok=True)
    (folder / "bin").mkdir(exist_ok=True)
    if LIBC.unshare(_NEW_MOUNTS):
        raise OSError(ctypes.get_errno(), "unshare")
    _mount(None, "/", None, _PRIVATE | _REC)
    for source, target in (
        (etc, "/etc"),
        (folder / "home", "/home"),
        (folder / "root", "/root"),
        (folder / "bin", "/usr/local/bin"),
        (store.home / "kernel", "/proc/sys/kernel"),
    ):
        _mount(str(source), target, None, _BIND)
    if state["gpu"]:
        _give_driver(folder, state)
    if "readonly_etc" in flags:
        _mount(None, "/etc", None, _BIND | _REMOUNT | _READ_ONLY)
    if "disk_full" in flags:
        _mount("tmpfs", "/home", "tmpfs", 0, "size=64k,mode=755")
        Path("/home/me").mkdir()
        os.chown("/home/me", UID, UID)


def make_kernel(folder: Path, line: str, scope: str) -> None:
    """What a kernel of WSL answers where this one is asked; one for the whole virtual machine."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "random").mkdir(parents=True)
    for name in ("hostname", "pid_max", "ostype", "version", "random/boot_id", "cap_last_cap"):
        source = Path("/proc/sys/kernel") / name
        (folder / name).write_text(source.read_text() if source.exists() else "")
    (folder / "osrelease").write_text(f"{KERNELS[line]}\n")
    if line != "5.15":  # Yama came with the line 6.6
        (folder / "yama").mkdir()
        (folder / "yama" / "ptrace_scope").write_text(f"{scope}\n")


def apply_sysctl(kernel: Path, etc: Path) -> None:
    """What systemd does at its start: ``/etc/sysctl.d`` in the order of names."""
    scope = kernel / "yama" / "ptrace_scope"
    for file in sorted((etc / "sysctl.d").glob("*.conf")):
        for line in file.read_text("utf-8", "replace").splitlines():
            name, equals, value = line.partition("=")
            if equals and name.strip() == "kernel.yama.ptrace_scope" and scope.exists():
                scope.write_text(f"{value.strip()}\n")


def _give_driver(folder: Path, state: dict[str, Any]) -> None:
    """``/usr/lib/wsl/lib`` with NVIDIA's program, and ``/dev/dxg``."""
    layer = folder / "layer"
    layer.mkdir(exist_ok=True)
    _mount("tmpfs", str(layer), "tmpfs", 0, "mode=755")
    upper, work = layer / "upper", layer / "work"
    libraries = upper / "wsl" / "lib"
    libraries.mkdir(parents=True)
    work.mkdir()
    for name in ("libcuda.so.1", "libnvidia-ml.so.1"):
        (libraries / name).write_bytes(b"")
    driver = state["driver"]
    cards = "\n".join(
        f"{index}|{card['uuid']}|{card['name']}|{card['total_mib']}|{card['used_mib']}"
        for index, card in enumerate(state["gpus"])
        if not card.get("hidden")
    )
    smi = libraries / "nvidia-smi"
    smi.write_text(
        _SMI.format(
            mode=state["gpu"],
            cards=cards,
            driver=driver["inside"],
            library=driver["library"],
            cuda=driver["cuda"],
        )
    )
    smi.chmod(0o755)
    _mount(
        "overlay", "/usr/lib", "overlay", 0, f"lowerdir=/usr/lib,upperdir={upper},workdir={work}"
    )
    _own_devices(layer / "dev")


def _own_devices(folder: Path) -> None:
    folder.mkdir()
    for name in _DEVICES:
        (folder / name).touch()
        _mount(f"/dev/{name}", str(folder / name), None, _BIND)
    for name in ("pts", "shm"):
        (folder / name).mkdir()
        _mount(f"/dev/{name}", str(folder / name), None, _BIND | _REC)
    for name, target in (
        ("ptmx", "pts/ptmx"),
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
    ):
        (folder / name).symlink_to(target)
    with contextlib.suppress(OSError):
        (folder / "pts" / "ptmx").chmod(stat.S_IRUSR | stat.S_IWUSR | 0o066)
    (folder / "dxg").touch()
    _mount(str(folder), "/dev", None, _BIND | _REC)


def _mount(source: str | None, target: str, kind: str | None, flags: int, data: str = "") -> None:
    words = [None if w is None else w.encode() for w in (source, target, kind)]
    if LIBC.mount(*words, ctypes.c_ulong(flags), data.encode() or None):
        raise OSError(ctypes.get_errno(), f"mount {target}")

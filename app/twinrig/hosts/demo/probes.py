"""Answers of the simulated machine to the probe script, in the form that the script prints."""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from twinrig.domain.checks import ProbeOutput
from twinrig.domain.probes import ProbeRequest
from twinrig.hosts.demo.gpus import (
    CARD_NAME,
    COMPUTE_CAPABILITY,
    CUDA_VERSION,
    DRIVER_VERSION,
    UUIDS,
)
from twinrig.hosts.demo.load import DemoLoad
from twinrig.hosts.demo.models import header_end
from twinrig.hosts.demo.physics import CARD_TOTAL_BYTES, IDLE_USED_BYTES, MIB, POWER_LIMIT_W
from twinrig.hosts.demo.rig import MAX_HEADER_FILE_BYTES, VENV, RigFiles

SMI = "/usr/lib/wsl/lib/nvidia-smi"
KERNEL = "6.6.87.2-microsoft-standard-WSL2"
PTRACE_DROP_IN = "/etc/sysctl.d/60-twinrig-ptrace.conf"
_GIB_KB = 1024 * 1024
_CONNECT_S = 0.5


@dataclass(frozen=True)
class ProbeAnswers:
    """What the simulated machine says now; ``load`` is that of the demo server, if it runs."""

    files: RigFiles
    load: DemoLoad | None

    async def answer(self, name: str, request: ProbeRequest) -> ProbeOutput:
        """One probe; an unknown name gives return code 3, as the script does."""
        if name == "port":
            return await self._port(request)
        answers: Mapping[str, Callable[[ProbeRequest], str]] = {
            "system": self._system,
            "gpu": self._gpu,
            "driver": self._driver,
            "environment": self._environment,
            "tabby_config": lambda _request: "checked=yes\n",
            "memory": self._memory,
            "shm": self._shm,
            "disk": self._disk,
            "ptrace": self._ptrace,
            "ptrace_file": self._ptrace_file,
            "model": self._model,
            "wsl": lambda _request: "driver=yes\nwsl_version=2.7.1.0\n",
            "compiler": lambda _request: (
                "cc=/usr/bin/cc\ninclude=/usr/include/python3.12\nheaders=yes\n"
            ),
            "workers": lambda _request: "checked=yes\n",
            "holders": lambda _request: "checked=yes\n",
            "limits": lambda _request: "files 10240 1048576\nmemlock 67108864 67108864\n",
            "session": lambda _request: "systemd=yes\nlinger=no\nuser=demo\n",
            "shell_settings": lambda _request: "checked=yes\n",
            "model_config": self._model_config,
            "hosts": lambda _request: "hostname=demo\nknown=yes\n",
            "drop_ins": lambda _request: "absent /etc/security/limits.d/60-twinrig.conf\n",
            "init": lambda _request: "systemd=yes\n",
            "address": lambda _request: "address 172.20.1.5\n",
            "wsl_conf": lambda _request: "absent\n",
        }
        if name not in answers:
            return ProbeOutput(name, 3, "", "no such probe\n")
        return ProbeOutput(name, 0, answers[name](request))

    def _system(self, _request: ProbeRequest) -> str:
        return f"kernel={KERNEL}\nwsl=yes\nos=Ubuntu 24.04.3 LTS\nuser=demo\n"

    def _gpu(self, _request: ProbeRequest) -> str:
        used = self.load.used_bytes if self.load is not None else IDLE_USED_BYTES
        capability = ".".join(map(str, COMPUTE_CAPABILITY))
        rows = [
            f"{index}, {uuid}, {CARD_NAME}, {CARD_TOTAL_BYTES // MIB}, {used[index] // MIB}, "
            f"{DRIVER_VERSION}, {capability}, 4, 8, 16, {POWER_LIMIT_W:.2f}, {POWER_LIMIT_W:.2f}\n"
            for index, uuid in enumerate(UUIDS)
        ]
        return f"# {SMI}\n" + "".join(rows)

    def _driver(self, _request: ProbeRequest) -> str:
        cuda = f"{CUDA_VERSION[0]}.{CUDA_VERSION[1]}"
        line = "+" + "-" * 89 + "+\n"
        versions = (
            f"NVIDIA-SMI 590.48.01    Driver Version: {DRIVER_VERSION}    CUDA Version: {cuda}"
        )
        return f"{line}| {versions:<87} |\n{line}"

    def _environment(self, request: ProbeRequest) -> str:
        if not request.environment:
            return ""
        if request.environment.rstrip("/") != VENV:
            return "missing=yes\n"
        return (
            "python=3.12.3\ninterpreter=ok\nsite=python3.12\n"
            "dist torch 2.11.0+cu130\ntorch_cuda=13.0\ncudart=13\n"
        )

    def _memory(self, _request: ProbeRequest) -> str:
        rows = {"MemTotal": 48, "MemAvailable": 43, "SwapTotal": 16, "SwapFree": 16}
        return "".join(f"{name + ':':<15} {gib * _GIB_KB:>8} kB\n" for name, gib in rows.items())

    def _shm(self, _request: ProbeRequest) -> str:
        return _df("none", 24, 0, "/dev/shm")

    def _disk(self, request: ProbeRequest) -> str:
        places = {
            "model": request.model_path,
            "environment": request.environment,
            "home": "/home/demo",
            "temporary": "/tmp",
        }
        return "".join(
            f"disk {label}\n{_df('/dev/sdd', 1007, 391, '/')}"
            for label, place in places.items()
            if place
        )

    def _ptrace(self, _request: ProbeRequest) -> str:
        return f"{self.files.ptrace_scope}\n"

    def _ptrace_file(self, _request: ProbeRequest) -> str:
        data = self.files.read(PTRACE_DROP_IN, MAX_HEADER_FILE_BYTES)
        return "absent\n" if data is None else f"sha256={hashlib.sha256(data).hexdigest()}\n"

    def _model(self, request: ProbeRequest) -> str:
        path = request.model_path.rstrip("/")
        if not path:
            return ""
        if not self.files.is_folder(path):
            return self._no_model(path)
        lines = ["exists=yes", f"real={path}", "filesystem=ext2/ext3"]
        names = []
        for entry in self.files.entries(path):
            if not entry.is_dir:
                lines.append(f"file {entry.size_bytes or 0} {entry.name}")
                names.append(entry.name)
        if "model.safetensors.index.json" in names:
            lines += self._index(f"{path}/model.safetensors.index.json")
        lines += [
            self._header(f"{path}/{name}", name) for name in names if name.endswith(".safetensors")
        ]
        return "".join(f"{line}\n" for line in lines)

    def _model_config(self, request: ProbeRequest) -> str:
        path = f"{request.model_path.rstrip('/')}/config.json"
        data = self.files.read(path, MAX_HEADER_FILE_BYTES) if request.model_path else None
        return "" if data is None else " ".join(data.decode("utf-8", "replace").split())

    def _no_model(self, path: str) -> str:
        parent, _, name = path.rpartition("/")
        siblings = self.files.entries(parent or "/")
        if any(entry.name == name for entry in siblings):
            return "exists=file\n"
        near = "".join(f"near {parent}/{entry.name}\n" for entry in siblings if entry.is_dir)
        return "exists=no\n" + near

    def _index(self, path: str) -> list[str]:
        try:
            index = json.loads(self.files.read(path, MAX_HEADER_FILE_BYTES) or b"")
            shards = sorted({str(name) for name in index["weight_map"].values()})
            total = int(index["metadata"]["total_size"])
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return []
        return [*(f"shard {name}" for name in shards), f"index_bytes={total}"]

    def _header(self, path: str, name: str) -> str:
        data = self.files.read(path, MAX_HEADER_FILE_BYTES) or b""
        end = header_end(data)
        length = int.from_bytes(data[:8], "little") if len(data) >= 8 else "-"
        return f"header {length} {'-' if end is None else end} {name}"

    async def _port(self, request: ProbeRequest) -> ProbeOutput:
        """The one real question: the demo server listens on this computer's loopback."""
        if not request.endpoint:
            return ProbeOutput("port", 0, "")
        host, _, text = request.endpoint.rpartition(":")
        if not text.isdecimal():
            return ProbeOutput("port", 1, "", f"not a port: {text}\n")
        port = int(text)
        lines = [f"checked={port}"]
        if await _listens(host, port):
            address = "0" * 24 + "01000000" if ":" in host else "0100007F"
            lines.append(f"listen {address} 0 1000")
            if self.load is not None and self.load.port == port:
                lines.append(
                    f"holder {self.load.pid} {self.load.run_id or '-'} twinrig demo-server"
                )
        for other in range(port + 1, min(port + 4, 65536)):
            if await _listens(host, other):
                lines.append(f"busy {other}")
        return ProbeOutput("port", 0, "".join(f"{line}\n" for line in lines))


async def _listens(host: str, port: int) -> bool:
    try:
        async with asyncio.timeout(_CONNECT_S):
            _, writer = await asyncio.open_connection(host.strip("[]") or "127.0.0.1", port)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True


def _df(device: str, total_gib: int, used_gib: int, mount: str) -> str:
    total, used = total_gib * _GIB_KB, used_gib * _GIB_KB
    percent = math.ceil(100 * used_gib / total_gib)
    return (
        "Filesystem     1024-blocks      Used Available Capacity Mounted on\n"
        f"{device:<14} {total:>11} {used:>9} {total - used:>9} {percent:>7}% {mount}\n"
    )

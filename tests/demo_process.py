"""Starts the demo server as a process of its own, for tests of whatever talks to it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path

CODE = (
    "import sys; from twinrig.hosts.demo.server import run_demo_server;"
    "sys.exit(run_demo_server(sys.argv[1]))"
)
READY = "Application startup complete."
PATIENCE_S = 20.0


@dataclass
class DemoProcess:
    """A running demo server; ``lines`` is its log so far."""

    process: asyncio.subprocess.Process
    port: int
    load_file: Path
    lines: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def line_with(self, words: str) -> str:
        """Read the log up to a line with these words; fails when the process ends before."""
        assert self.process.stdout is not None
        async with asyncio.timeout(PATIENCE_S):
            while True:
                data = await self.process.stdout.readline()
                assert data, f"ended without {words!r}: {self.lines}"
                self.lines.append(data.decode().rstrip())
                if words in self.lines[-1]:
                    return self.lines[-1]

    async def exit_code(self) -> int:
        """Wait for the end and keep the rest of the log."""
        assert self.process.stdout is not None
        async with asyncio.timeout(PATIENCE_S):
            rest = await self.process.stdout.read()
            self.lines += rest.decode().splitlines()
            return await self.process.wait()


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.asynccontextmanager
async def demo_process(
    folder: Path, *, env: dict[str, str] | None = None, ready: bool = True, **settings: object
) -> AsyncIterator[DemoProcess]:
    """Loads at once and talks 20 times faster than the rig would, unless told otherwise."""
    path, port, load_file = _write_config(folder, settings)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        CODE,
        str(path),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, "PYTHONUNBUFFERED": "1", **(env or {})},
    )
    server = DemoProcess(process, port, load_file)
    try:
        if ready:
            await server.line_with(READY)
        yield server
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        # Reading to the end closes the pipe's transport before the loop does.
        assert process.stdout is not None
        await process.stdout.read()


@dataclass(frozen=True)
class Address:
    """Where a demo server shared by several tests answers."""

    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextlib.contextmanager
def shared_demo_process(folder: Path) -> Iterator[Address]:
    """One server for many tests that only ask; starting one costs half a second."""
    path, port, _ = _write_config(folder, {})
    with subprocess.Popen(
        [sys.executable, "-c", CODE, str(path)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            assert any(READY in line for line in process.stdout)
            yield Address(port)
        finally:
            process.kill()


def _write_config(folder: Path, settings: dict[str, object]) -> tuple[Path, int, Path]:
    port = settings.setdefault("port", free_port())
    assert isinstance(port, int)
    load_file = folder / "servers" / "one" / "demo-load.json"
    values = {
        "tensor_parallel_size": 2,
        "load_scale": 0.0,
        "speed_scale": 20.0,
        "load_file": str(load_file),
        **settings,
    }
    path = folder / "demo.json"
    path.write_text(json.dumps(values))
    return path, port, load_file

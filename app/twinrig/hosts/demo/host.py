"""The demo rig as a target: two cards, WSL2, one real problem, and nothing of this computer."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

from twinrig.domain.install import EngineInstall
from twinrig.domain.ports import CommandResult, FolderEntry, Glimpse, ProcessInfo, Script
from twinrig.domain.probes import PROBE_SCRIPT, ProbeRequest, format_frames
from twinrig.hosts.demo.collective import answer, is_collective
from twinrig.hosts.demo.load import DemoLoad, load_files, newest_load
from twinrig.hosts.demo.probes import ProbeAnswers
from twinrig.hosts.demo.rig import HOME, PTRACE_KEY, VENV, RigFiles
from twinrig.messages import N_

_SETTING = re.compile(r"([a-z0-9_.]+) ?= ?(.*)")


class DemoHost:
    """``domain.ports.Host`` for the simulated machine.

    ``state_root`` is the demo target's state folder; the machine's files lie in ``rig`` below
    it. It knows the probe script and ``sysctl``; every other program is missing (127).
    """

    def __init__(self, state_root: Path) -> None:
        self._state_root = state_root
        self._files = RigFiles(state_root / "rig")
        self._prepared = False

    @property
    def label(self) -> str:
        """Marked sentence."""
        return N_("Demo rig")

    @property
    def demo(self) -> bool:
        """Simulated."""
        return True

    async def run(
        self,
        command: Sequence[str] | Script,
        *,
        root: bool = False,
        timeout_s: float = 30.0,
        stdin: bytes | None = None,
    ) -> CommandResult:
        """Answer at once; nothing is started on this computer."""
        files = await self._ready()
        started_s = time.monotonic()
        if isinstance(command, Script):
            argv: tuple[str, ...] = ("bash", "-s", "--", *command.args)
            code, out, err = await self._script(command)
        else:
            argv = tuple(command)
            code, out, err = await asyncio.to_thread(run_program, files, argv, root)
        duration_s = time.monotonic() - started_s
        return CommandResult(argv, code, out.encode(), err.encode(), duration_s)

    async def stream(
        self, command: Sequence[str] | Script, *, root: bool = False
    ) -> AsyncGenerator[bytes, None]:
        """Output and errors of ``run``, in one piece each."""
        result = await self.run(command, root=root)
        for part in (result.stdout, result.stderr):
            if part:
                yield part

    async def read_file(self, path: str, *, limit_bytes: int = 4 * 1024 * 1024) -> bytes | None:
        """A file of the simulated machine."""
        return await asyncio.to_thread((await self._ready()).read, path, limit_bytes)

    async def list_folder(self, path: str) -> tuple[FolderEntry, ...]:
        """A folder of the simulated machine."""
        return await asyncio.to_thread((await self._ready()).entries, path)

    async def glance(self, folders: Sequence[str], files: Sequence[str]) -> Glimpse | None:
        """Asking one by one is as quick."""
        return None

    async def home(self) -> str:
        """Always the same."""
        await self._ready()
        return HOME

    async def write_file(
        self,
        path: str,
        data: bytes | None,
        *,
        mode: int = 0o644,
        root: bool = False,
        expected_sha256: str | None = None,
    ) -> None:
        """Change a file of the simulated machine; outside the home only root may."""
        files = await self._ready()
        await asyncio.to_thread(files.write, path, data, mode, root, expected_sha256)

    async def processes(self) -> tuple[ProcessInfo, ...]:
        """The demo server, when it runs."""
        load = await asyncio.to_thread(self._load)
        if load is None:
            return ()
        return (ProcessInfo(load.pid, 0, "twinrig demo-server", load.run_id or None),)

    async def _ready(self) -> RigFiles:
        if not self._prepared:
            await asyncio.to_thread(self._files.prepare)
            self._prepared = True
        return self._files

    def _load(self) -> DemoLoad | None:
        return newest_load(load_files(self._state_root), time.time())

    async def _script(self, script: Script) -> tuple[int, str, str]:
        if script.name != PROBE_SCRIPT:
            return 127, "", f"{script.name}: the demo rig does not know this script\n"
        try:
            request = ProbeRequest.from_args(script.args)
        except ValueError as error:
            return 2, "", f"{error}\n"
        answers = ProbeAnswers(self._files, await asyncio.to_thread(self._load))
        outputs = [await answers.answer(name, request) for name in request.names]
        return 0, format_frames(request.nonce, outputs), ""


def demo_install(executable: str, version: str) -> EngineInstall:
    """The demo engine as found on the rig; ``executable`` is the Python that runs Twinrig."""
    return EngineInstall(
        engine_id="demo",
        environment=VENV,
        version=version,
        executable=executable,
        python_version="3.12.3",
        torch_version="2.11.0+cu130",
        torch_cuda=(13, 0),
    )


def run_program(files: RigFiles, argv: Sequence[str], root: bool) -> tuple[int, str, str]:
    """Return code, output and errors of the few programs that the rig has."""
    if is_collective(argv):
        return answer(argv)
    if not argv or argv[0] not in ("sysctl", "/usr/sbin/sysctl", "/sbin/sysctl"):
        return 127, "", f"{argv[0] if argv else ''}: command not found\n"
    return _sysctl(files, list(argv[1:]), root)


def _sysctl(files: RigFiles, arguments: list[str], root: bool) -> tuple[int, str, str]:
    words = [a for a in arguments if not a.startswith("-")]
    flags = {a for a in arguments if a.startswith("-")}
    setting = _SETTING.fullmatch(words[0]) if len(words) == 1 else None
    key = setting[1] if setting else (words[0] if len(words) == 1 else "")
    if not key or flags - {"-w", "-n"}:
        return 1, "", "sysctl: the demo rig knows sysctl [-n] KEY and sysctl -w KEY=VALUE\n"
    if key != PTRACE_KEY:
        place = key.replace(".", "/")
        return 255, "", f"sysctl: cannot stat /proc/sys/{place}: No such file or directory\n"
    if setting is None:
        value = files.ptrace_scope
        return 0, f"{value}\n" if "-n" in flags else f"{key} = {value}\n", ""
    if not root:
        return 255, "", f'sysctl: permission denied on key "{key}"\n'
    if setting[2] not in ("0", "1", "2", "3") or files.ptrace_scope == "3":
        return 255, "", f'sysctl: setting key "{key}": Invalid argument\n'
    files.set_ptrace_scope(setting[2])
    return 0, f"{key} = {setting[2]}\n", ""

"""Starts servers on this machine, and finds what is left of them."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from twinrig.domain.errors import HostError
from twinrig.domain.launch import FileSpec, LaunchSpec, StopSignal
from twinrig.domain.ports import ProcessInfo
from twinrig.files import write_atomic
from twinrig.hosts.local import proc_table, signals
from twinrig.hosts.local.proc_table import RUN_ID_VARIABLE, ProcEntry
from twinrig.hosts.local.run_ledger import (
    RunLedger,
    drop_ledger,
    load_ledger,
    members_of,
    save_ledger,
)
from twinrig.hosts.local.server_environment import server_environment
from twinrig.hosts.local.server_process import OutputPipe, ServerProcess
from twinrig.messages import message

_WATCH_EACH_S = ((60.0, 1.0), (300.0, 3.0), (math.inf, 10.0))
"""Up to this age of the server, so often: a look at all processes costs 10 ms of a core."""


class LocalServerLauncher:
    """``ServerLauncher`` for Linux. ``run_folder`` keeps which processes belong to which run."""

    def __init__(self, environ: Mapping[str, str], run_folder: Path) -> None:
        self._environ = environ
        self._run_folder = run_folder
        self._seen: dict[int, int] = {}
        self._running: set[str] = set()

    async def launch(
        self, spec: LaunchSpec, run_id: str, on_output: Callable[[bytes], None]
    ) -> ServerProcess:
        """Files, then the process in a session of its own. Raises HostError."""
        for file in spec.files:
            _write(file)
        pipe = OutputPipe(on_output)
        try:
            process = await asyncio.create_subprocess_exec(
                *spec.argv,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=pipe.writing,
                stderr=asyncio.subprocess.STDOUT,
                env=server_environment(self._environ, spec, run_id),
                cwd=spec.cwd or self._environ.get("HOME") or "/",
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            pipe.close()
            raise _cannot_start(spec, error) from error
        finally:
            pipe.close_writing()
        self._running.add(run_id)
        await self._note_members(run_id)
        watch = asyncio.ensure_future(self._watch(run_id))

        def ended() -> None:
            watch.cancel()
            self._note_session(run_id, process.pid)
            self._running.discard(run_id)

        return ServerProcess(process, pipe, ended)

    async def survivors(self, run_id: str) -> tuple[ProcessInfo, ...]:
        """Live processes of the run, the server itself included, in the order of their start."""
        entries = await asyncio.to_thread(self._members, run_id)
        self._note(run_id, entries)
        if not entries and run_id not in self._running:
            drop_ledger(self._run_folder, run_id)
        self._seen.update({entry.pid: entry.start_ticks for entry in entries})
        return tuple(proc_table.process_info(entry) for entry in entries)

    async def signal_processes(self, pids: Sequence[int], signal: StopSignal) -> None:
        """Signal processes that ``survivors`` gave; any other pid is left alone."""
        for pid in pids:
            if (start_ticks := self._seen.get(pid)) is not None:
                signals.send(pid, start_ticks, signals.NUMBERS[signal])

    async def environment_of(self, pid: int) -> Mapping[str, str] | None:
        """Environment of a live process, None when it cannot be read."""
        return proc_table.read_environ(pid)

    async def shared_memory_of(self, pids: Sequence[int]) -> tuple[str, ...]:
        """Files below ``/dev/shm`` that these processes have mapped or open."""
        return tuple(sorted(await asyncio.to_thread(_shared_memory, pids)))

    async def remove_shared_memory(self, names: Sequence[str]) -> None:
        """Remove files of this user, directly in ``/dev/shm``, that nobody has mapped or open.

        Processes of other users cannot be looked into; they cannot open files of mode 0600.
        """
        await asyncio.to_thread(_remove_unused, names)

    def _members(self, run_id: str) -> list[ProcEntry]:
        table = proc_table.read_table()
        ledger = load_ledger(self._run_folder, run_id, proc_table.boot_id())
        pids = members_of(ledger, table, _run_id_of)
        return sorted((table[pid] for pid in pids), key=lambda entry: entry.start_ticks)

    async def _note_members(self, run_id: str) -> None:
        self._note(run_id, await asyncio.to_thread(self._members, run_id))

    def _note_session(self, run_id: str, session: int) -> None:
        """To be called the moment the server is gone: who is in its session then is of the run.

        As long as they live the kernel gives the session's number to nobody else.
        """
        table = proc_table.read_table().values()
        known = {entry.pid: entry for entry in self._members(run_id)}
        known.update({entry.pid: entry for entry in table if entry.session == session})
        self._note(run_id, list(known.values()))

    def _note(self, run_id: str, entries: Sequence[ProcEntry]) -> None:
        boot_id = proc_table.boot_id()
        before = load_ledger(self._run_folder, run_id, boot_id)
        members = {entry.pid: entry.start_ticks for entry in entries}
        if members and members != before.members:
            save_ledger(self._run_folder, RunLedger(run_id, boot_id, members))

    async def _watch(self, run_id: str) -> None:
        """Write new processes down: often while a server loads, seldom later."""
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        while True:
            age_s = loop.time() - began_s
            await asyncio.sleep(next(each for limit, each in _WATCH_EACH_S if age_s < limit))
            await self._note_members(run_id)


def _run_id_of(entry: ProcEntry) -> str | None:
    return (proc_table.read_environ(entry.pid) or {}).get(RUN_ID_VARIABLE)


def _write(file: FileSpec) -> None:
    path = Path(file.path)
    data = file.content.encode("utf-8")
    try:
        if file.keep_previous and path.is_file() and path.read_bytes() == data:
            return
        write_atomic(path, data, mode=file.mode, keep_previous=file.keep_previous)
    except OSError as error:
        raise HostError(
            message(
                "{path} cannot be written: {reason}.",
                path=file.path,
                reason=error.strerror or str(error),
            ),
            message("Make the folder writable for this user, then start again."),
        ) from error


def _cannot_start(spec: LaunchSpec, error: OSError | ValueError) -> HostError:
    reason = getattr(error, "strerror", None) or str(error)
    if isinstance(error, FileNotFoundError) and spec.cwd and not Path(spec.cwd).is_dir():
        return HostError(
            message("The folder {path} does not exist.", path=spec.cwd),
            message("Correct the folder in the profile, then start again."),
        )
    return HostError(
        message("{program} cannot be started: {reason}.", program=spec.argv[0], reason=reason),
        message("Check that the engine is installed in the environment that the profile names."),
    )


def _shared_memory(pids: Iterable[int]) -> set[str]:
    names: set[str] = set()
    for pid in pids:
        names |= proc_table.shared_memory_of(pid)
    return names


def _remove_unused(names: Sequence[str]) -> None:
    candidates = [path for name in names if _is_ours(path := Path(name))]
    if not candidates:
        return
    used = _shared_memory(proc_table.read_table())
    for path in candidates:
        if str(path) not in used:
            with contextlib.suppress(OSError):
                path.unlink()


def _is_ours(path: Path) -> bool:
    if path.parent != proc_table.SHARED_MEMORY:
        return False
    try:
        found = path.lstat()
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid()

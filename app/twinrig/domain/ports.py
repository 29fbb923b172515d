"""Ports: what the core needs from a machine. Adapters in ``hosts`` implement them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from twinrig.domain.errors import HostError
from twinrig.domain.gpu import DriverInfo, GpuInfo, GpuSample
from twinrig.domain.launch import LaunchSpec, StopSignal
from twinrig.domain.wsl import WslDistro


@dataclass(frozen=True)
class Script:
    """A bash script with a name for logs; ``args`` become ``$1`` ..., never quoted into it."""

    name: str
    text: str
    args: tuple[str, ...] = ()


@dataclass(frozen=True)
class CommandResult:
    """Outcome of a command. ``returncode`` None: it never ended by itself (see ``timed_out``)."""

    argv: tuple[str, ...]
    returncode: int | None
    stdout: bytes
    stderr: bytes
    duration_s: float
    timed_out: bool = False

    @property
    def output(self) -> str:
        """Standard output as text; undecodable bytes are shown, not fatal."""
        return self.stdout.decode("utf-8", "replace")


@dataclass(frozen=True)
class ProcessInfo:
    """One process of the target; ``run_id`` is ours from its environment, if it has one."""

    pid: int
    parent_pid: int
    title: str
    run_id: str | None = None


@dataclass(frozen=True)
class FolderEntry:
    """One entry of a folder, links followed. ``size_bytes`` None: a folder or a broken link."""

    name: str
    is_dir: bool
    size_bytes: int | None = None


@dataclass(frozen=True)
class Glimpse:
    """Many folders and files, seen at once. What is not in it is not there, or cannot be read;
    a file of which the content is None is there and was not taken."""

    home: str
    folders: Mapping[str, tuple[FolderEntry, ...]]
    files: Mapping[str, bytes | None]


class Host(Protocol):
    """The Linux side of a target. Paths are the target's. Raises HostError when unreachable."""

    @property
    def label(self) -> str:
        """Name to show, such as "This computer" or "Demo rig" (a marked sentence)."""
        ...

    @property
    def demo(self) -> bool:
        """True for the simulated machine, whose data must be labelled."""
        ...

    async def run(
        self,
        command: Sequence[str] | Script,
        *,
        root: bool = False,
        timeout_s: float = 30.0,
        stdin: bytes | None = None,
    ) -> CommandResult:
        """Run to the end; a program that is missing gives 127; on time-out the tree is killed."""
        ...

    def stream(
        self, command: Sequence[str] | Script, *, root: bool = False
    ) -> AsyncGenerator[bytes, None]:
        """Output in chunks as it comes; closing the iterator kills the tree."""
        ...

    async def read_file(self, path: str, *, limit_bytes: int = 4 * 1024 * 1024) -> bytes | None:
        """Content, or None when there is no such file. Raises HostError when unreadable."""
        ...

    async def list_folder(self, path: str) -> tuple[FolderEntry, ...]:
        """Entries by name; empty when there is no such folder. Raises HostError when unreadable."""
        ...

    async def glance(self, folders: Sequence[str], files: Sequence[str]) -> Glimpse | None:
        """Folders and small files by pattern, below ``/`` or ``~/``, in one question. None where
        asking one by one is as quick, or where the answer did not come whole."""
        ...

    async def home(self) -> str:
        """Absolute home folder of the target's user."""
        ...

    async def write_file(
        self,
        path: str,
        data: bytes | None,
        *,
        mode: int = 0o644,
        root: bool = False,
        expected_sha256: str | None = None,
    ) -> None:
        """Atomic replace (None removes). Raises ConflictError when the present content differs
        from ``expected_sha256`` ("" = must not exist), HostError when it cannot be written."""
        ...

    async def processes(self) -> tuple[ProcessInfo, ...]:
        """Processes of the target that this user may see."""
        ...


class WslDistros(Protocol):
    """Distributions of WSL. No question starts one. Raises HostError when WSL does not answer."""

    async def list(self) -> tuple[WslDistro, ...]:
        """All of them, those of other programs too; empty when none is installed."""
        ...

    async def running(self) -> frozenset[str]:
        """Names of those that run now."""
        ...

    async def choose(self, wanted: str = "") -> WslDistro:
        """The wanted one, else the default; see ``domain.wsl.choose_distro``."""
        ...

    async def terminate(self, name: str) -> None:
        """Stop one now, with everything in it; one that does not run is no error."""
        ...

    async def shutdown(self) -> None:
        """Stop all, those of other programs (Docker Desktop) too, and the virtual machine."""
        ...


class GpuProbe(Protocol):
    """Blocking; call from one thread of its own. Raises GpuUnavailableError."""

    def devices(self) -> tuple[GpuInfo, ...]:
        """Cards in PCI order."""
        ...

    def driver(self) -> DriverInfo:
        """Driver facts."""
        ...

    def sample(self) -> tuple[GpuSample, ...]:
        """One reading of each card, cheap calls only; a lost card repeats its last as stale."""
        ...

    def detailed(self, samples: tuple[GpuSample, ...]) -> tuple[GpuSample, ...]:
        """These samples with PCIe traffic and energy: 20 ms a card and direction, 3 ms a card."""
        ...

    def close(self) -> None:
        """Give the library back; safe to call twice."""
        ...


@dataclass(frozen=True)
class HttpResponse:
    """Status and whole body."""

    status: int
    body: bytes


class HttpClient(Protocol):
    """HTTP without surprises: loopback ignores proxies. Raises HostError when nobody answers."""

    async def get(
        self, url: str, *, timeout_s: float, token: str | None = None
    ) -> HttpResponse: ...

    async def post_json(
        self, url: str, body: Mapping[str, object], *, timeout_s: float, token: str | None = None
    ) -> HttpResponse: ...

    def stream_events(
        self, url: str, body: Mapping[str, object], *, timeout_s: float, token: str | None = None
    ) -> AsyncIterator[str]:
        """Data of each server-sent event, without the ``data:`` prefix.

        Raises HttpFaultError for a status other than 200.
        """
        ...

    async def close(self) -> None: ...


@dataclass(frozen=True)
class ExitStatus:
    """How a server process ended: exit code, or the signal's number in ``signal``.

    ``machine_gone``: the Linux it ran on went away under it; then nothing else is known.
    """

    code: int | None
    signal: int | None = None
    machine_gone: bool = False

    def __str__(self) -> str:
        if self.machine_gone:
            return "WSL went away"
        return f"signal {self.signal}" if self.signal is not None else f"exit code {self.code}"


class RunningServer(Protocol):
    """A launched server process."""

    @property
    def pid(self) -> int: ...

    async def wait(self) -> ExitStatus:
        """May be awaited by several tasks; returns the same status to all."""
        ...

    async def signal(self, signal: StopSignal) -> None:
        """Send to the server's own process; a process that is gone is no error."""
        ...


class ServerLauncher(Protocol):
    """Starts server processes on a target, and finds what is left of them."""

    async def launch(
        self, spec: LaunchSpec, run_id: str, on_output: Callable[[bytes], None]
    ) -> RunningServer:
        """Write ``spec.files``, start ``argv`` in a session of its own with ``TWINRIG_RUN_ID``;
        ``on_output`` gets stdout and stderr, merged, as chunks. Raises HostError."""
        ...

    async def survivors(self, run_id: str) -> tuple[ProcessInfo, ...]:
        """Processes that carry the run id."""
        ...

    async def signal_processes(self, pids: Sequence[int], signal: StopSignal) -> None: ...

    async def environment_of(self, pid: int) -> Mapping[str, str] | None:
        """Environment of a live process, None when it cannot be read."""
        ...

    async def shared_memory_of(self, pids: Sequence[int]) -> tuple[str, ...]:
        """Files under ``/dev/shm`` that these processes have mapped or open."""
        ...

    async def remove_shared_memory(self, names: Sequence[str]) -> None:
        """Remove those that no live process has mapped any more."""
        ...


class MachineWatch(Protocol):
    """Tells of sleep, and whether the Linux side still answers after it."""

    async def woke(self) -> None:
        """Returns when the computer woke from sleep."""
        ...

    async def fault(self) -> HostError | None:
        """One cheap question with a time-out; None = it answers. Starts nothing."""
        ...


class ServiceManager(Protocol):
    """Owns the supervisor: Windows task, systemd user unit, or detached session."""

    @property
    def kind(self) -> str:
        """ "windows-task", "systemd-user" or "detached"."""
        ...

    async def start(self, profile_id: str) -> None:
        """Start the supervisor of a profile; one that runs already is no error."""
        ...

    async def kill(self, profile_id: str) -> None:
        """Last resort: end the supervisor and with it the server."""
        ...

    async def is_running(self, profile_id: str) -> bool | None:
        """None = it cannot tell."""
        ...

    async def set_autostart(self, profile_id: str, enabled: bool) -> None:
        """Raises HostError when this kind cannot start at logon."""
        ...

    async def autostart(self, profile_id: str) -> bool | None: ...

    async def unregister_all(self, profile_ids: Sequence[str] = ()) -> tuple[str, ...]:
        """Remove whatever it made to start supervisors of this target; names of what stays.

        ``profile_ids`` are the known ones: where nothing can be listed, theirs are removed.
        """
        ...


class Lock(Protocol):
    """A lock between processes that vanishes with its holder."""

    def acquire(self, name: str) -> bool:
        """False when somebody else holds it."""
        ...

    def release(self) -> None: ...

    def holder(self, name: str) -> int | None:
        """Process id of the holder; None when free or unknown."""
        ...

    def holder_note(self, name: str) -> str:
        """What the holder says of itself, such as a profile id; "" when free or unknown."""
        ...


class SecretStore(Protocol):
    """Keys and tokens; values never appear in logs or profiles."""

    async def get(self, name: str) -> str | None: ...

    async def set(self, name: str, value: str) -> None: ...

    async def delete(self, name: str) -> None: ...

    @property
    def place(self) -> str:
        """Where secrets are kept, for the user (a marked sentence)."""
        ...

    @property
    def lasting(self) -> bool:
        """Whether what is stored outlives this program, as learnt by the last call."""
        ...

    async def allow_file(self) -> None:
        """The user agrees to keep secrets in a file that only this user can read."""
        ...


class Clock(Protocol):
    """Time, replaceable in tests."""

    def now(self) -> float:
        """Epoch seconds."""
        ...

    def monotonic(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...


OnOutput = Callable[[bytes], None]
AsyncAction = Callable[[], Awaitable[None]]

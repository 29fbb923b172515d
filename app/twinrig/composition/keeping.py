"""Who keeps servers on this machine: the owner of supervisors, and what launches for them."""

from __future__ import annotations

import contextlib
import os
import sys
import uuid
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from twinrig.composition.rig import Rig
from twinrig.composition.wsl_target import wants_awake
from twinrig.domain.errors import DamagedFileError
from twinrig.domain.launch import Endpoint
from twinrig.domain.ports import MachineWatch, ServerLauncher, ServiceManager
from twinrig.domain.server import ACTIVE_STATES
from twinrig.domain.supervision import Desired, DesiredState, StateLayout
from twinrig.domain.wsl import is_wsl
from twinrig.hosts.clock import SystemClock, boot_at_s
from twinrig.hosts.locks import FileLock
from twinrig.hosts.paths import HOME_VARIABLE
from twinrig.hosts.windows.power import kept_awake, set_execution_state
from twinrig.hosts.windows.schtasks import Schtasks, find_schtasks
from twinrig.services.controller import PICKUP_TIMEOUT_S, SUPERVISOR_OUTPUT
from twinrig.services.server_files import ServerFiles
from twinrig.supervisor.parts import nothing_between

_FRESH_S = 2 * PICKUP_TIMEOUT_S
_OUTPUT_LIMIT_BYTES = 1024 * 1024


def service_manager(
    target: str, root: Path, environ: Mapping[str, str], distro: str = ""
) -> ServiceManager:
    """A task on Windows; else systemd where this user's runs, else a detached session."""
    named = ("--distro", distro) if distro else ()
    words = ("-m", "twinrig", "--target", target, *named, "supervise")
    schtasks = find_schtasks(environ)
    if schtasks is not None:
        return _task_manager(schtasks, words, root, environ)
    from twinrig.hosts.local.service_managers import choose_manager

    def command(profile_id: str) -> tuple[str, ...]:
        return (sys.executable, *words, profile_id)

    output = root / SUPERVISOR_OUTPUT
    return choose_manager(target, command, FileLock(root), environ, output, SystemClock())


def _task_manager(
    schtasks: str, words: tuple[str, ...], root: Path, environ: Mapping[str, str]
) -> ServiceManager:
    from twinrig.hosts.windows.task_manager import WindowsTaskManager
    from twinrig.hosts.windows.task_names import TaskNames
    from twinrig.hosts.windows.user_sid import user_sid

    home = environ.get(HOME_VARIABLE, "").strip()
    place = str(Path(home).expanduser().absolute()) if home else ""
    # A task gets the user's environment from the registry, none of this process.
    told = ("--home", place) if place else ()
    program = windowless(Path(sys.executable))

    def command(profile_id: str) -> tuple[str, ...]:
        return (str(program), *words, profile_id, *told)

    return WindowsTaskManager(
        Schtasks(schtasks, environ),
        TaskNames(user_sid(environ), place),
        command,
        root,
        FileLock(root),
        SystemClock(),
    )


def windowless(python: Path) -> Path:
    """The Python beside this one that opens no console, where there is one."""
    other = python.with_name(python.name.lower().replace("python.exe", "pythonw.exe"))
    return other if python.name.lower() == "python.exe" and other.is_file() else python


def server_launcher(rig: Rig, root: Path, environ: Mapping[str, str]) -> ServerLauncher:
    """What starts servers of this target."""
    if is_wsl(rig.target):
        from twinrig.composition.windows import open_launcher

        return open_launcher(rig, environ)
    if sys.platform == "win32":
        from twinrig.hosts.windows.launcher import WindowsServerLauncher

        return WindowsServerLauncher(environ)
    from twinrig.hosts.local.launcher import LocalServerLauncher

    return LocalServerLauncher(environ, root / "runs")


def machine_watch(rig: Rig) -> MachineWatch | None:
    """Tells of sleep, where that can take the Linux side away."""
    if rig.distros is None:
        return None
    from twinrig.hosts.wsl.wake import WakeWatch

    return WakeWatch(rig.distros, SystemClock())


def cut_off(rig: Rig) -> Callable[[Endpoint], Awaitable[bool]]:
    """Tells a server that cannot be reached from here from one that does not listen."""
    if rig.distros is None:
        return nothing_between
    from twinrig.hosts.wsl.reach import InsideLook

    return InsideLook(rig.onlooker, SystemClock()).cut_off


def staying_awake(
    config: Path, environ: Mapping[str, str]
) -> contextlib.AbstractContextManager[bool]:
    """As long as a supervisor has a server to keep, where the user wants that."""
    if not wants_awake(config, environ):
        return contextlib.nullcontext(False)
    return kept_awake(set_execution_state)


def be_a_task(root: Path, profile_id: str, environ: Mapping[str, str]) -> None:
    """To be called by a supervisor that may have been started by a task of Windows.

    What it prints goes into a file, as nobody sees it; what it starts ends with it.
    """
    if find_schtasks(environ) is None or (sys.stderr is not None and sys.stderr.isatty()):
        return
    renew_wish(ServerFiles(StateLayout(root)), profile_id, SystemClock().now())
    path = root / SUPERVISOR_OUTPUT
    with contextlib.suppress(OSError):
        root.mkdir(parents=True, exist_ok=True)
        full = path.is_file() and path.stat().st_size > _OUTPUT_LIMIT_BYTES
        file = path.open("w" if full else "a", buffering=1, encoding="utf-8", errors="replace")
        sys.stdout = sys.stderr = file
    if sys.platform == "win32":
        from twinrig.hosts.windows.job import KillOnCloseJob

        this_process = -1  # the pseudo handle of GetCurrentProcess
        with contextlib.suppress(OSError):
            # Never closed by us: Windows does it when this process ends, in whatever way.
            KillOnCloseJob().assign(this_process)


def be_a_unit(root: Path, profile_id: str, environ: Mapping[str, str]) -> None:
    """To be called by a supervisor that may have been started by a unit of systemd.

    A stop that was cut off is carried out when systemd starts a crashed supervisor again.
    """
    # systemd.exec(5): the process that systemd itself started; its children have another id.
    if environ.get("SYSTEMD_EXEC_PID") != str(os.getpid()):
        return
    files, clock = ServerFiles(StateLayout(root)), SystemClock()
    try:
        record = files.record(profile_id)
    except DamagedFileError:
        return
    cut_off = record is not None and record.state in ACTIVE_STATES
    if record is None or not cut_off or record.updated_at_s < (boot_at_s() or 0.0):
        renew_wish(files, profile_id, clock.now())


def renew_wish(files: ServerFiles, profile_id: str, now_s: float) -> None:
    """A stop of earlier does not hold for a start that nobody asked for just now.

    Whoever starts or stops from Twinrig writes a wish right before. Without a fresh one it was the
    logon, or the user by the means of the system: then the server shall run.
    """
    try:
        last = files.desired(profile_id)
    except DamagedFileError:
        return
    stopped = last is not None and last.desired is Desired.STOPPED
    if last is not None and stopped and now_s - last.requested_at_s > _FRESH_S:
        wish = DesiredState(Desired.RUNNING, uuid.uuid4().hex, "logon", now_s)
        files.request(profile_id, wish)


def use_home(words: tuple[str, ...]) -> None:
    """Take over the place of files that the command line of a supervisor names."""
    if "supervise" in words and "--home" in words[:-1]:
        os.environ[HOME_VARIABLE] = words[words.index("--home") + 1]

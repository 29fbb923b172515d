"""Starts servers in a WSL distribution, and finds what is left of them."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Callable, Mapping, Sequence

from twinrig.domain.errors import HostAwayError, HostError
from twinrig.domain.launch import LaunchSpec, StopSignal
from twinrig.domain.ports import Host, ProcessInfo, Script, WslDistros
from twinrig.hosts.wsl import client, server_scripts
from twinrig.hosts.wsl.call import WslCall, wsl_environment
from twinrig.hosts.wsl.decoding import decode_own
from twinrig.hosts.wsl.framing import Frame
from twinrig.hosts.wsl.outcome import cannot_carry, failure, slow_start
from twinrig.hosts.wsl.server import WslConnection, WslServer
from twinrig.hosts.wsl.times import WslTimes
from twinrig.messages import message

_RUN_ID = re.compile(r"[A-Za-z0-9_.-]{1,100}")
_ASK_S = 20.0


class WslServerLauncher:
    """``ServerLauncher``. The server runs in the foreground of one ``wsl.exe``, which keeps the
    distribution up as long as it runs and ends with us.

    ``executable`` gives the program's path; ``wanted`` names the distribution, "" = default.
    """

    def __init__(
        self,
        executable: Callable[[], str],
        environ: Mapping[str, str],
        host: Host,
        distros: WslDistros,
        wanted: str = "",
        times: WslTimes | None = None,
        oem: str = "cp437",
    ) -> None:
        self._executable = executable
        self._environ = wsl_environment(environ)
        self._host = host
        self._distros = distros
        self._wanted = wanted
        self._times = times or WslTimes()
        self._oem = oem
        self._name = ""
        self._seen: dict[int, int] = {}
        self._running: set[str] = set()

    async def launch(
        self, spec: LaunchSpec, run_id: str, on_output: Callable[[bytes], None]
    ) -> WslServer:
        """Files and process by one call, on the Linux side. Raises HostError."""
        self._name = distro = (await self._distros.choose(self._wanted)).name
        script = Script("launch", server_scripts.LAUNCH)
        frame = Frame(secrets.token_hex(16), script, _launch_input(spec, run_id), merged=True)
        call = WslCall(self._executable(), distro)
        started = await client.start(call.argv(), self._environ)
        connection = WslConnection(started, frame.nonce, frame.request(), on_output)
        try:
            pid, start_ticks = await self._first_words(connection, distro, spec)
        except BaseException:
            await connection.close()
            raise
        self._running.add(run_id)
        return WslServer(
            connection, pid, start_ticks, self._send, lambda: self._running.discard(run_id)
        )

    async def survivors(self, run_id: str) -> tuple[ProcessInfo, ...]:
        """Live processes of the run, the server included; none in a distribution that is stopped,
        which is not started for the question. Raises HostError when WSL does not answer."""
        if not _RUN_ID.fullmatch(run_id) or not await self._awake():
            return ()
        drop = "" if run_id in self._running else "drop"
        output = await self._ask("survivors", server_scripts.SURVIVORS, run_id, drop)
        found = [words for line in output.splitlines() if len(words := line.split(" ", 3)) == 4]
        self._seen.update({int(pid): int(start) for pid, _, start, _ in found})
        ordered = sorted(found, key=lambda words: int(words[2]))
        return tuple(
            ProcessInfo(int(pid), int(parent), title.strip(), run_id)
            for pid, parent, _, title in ordered
        )

    async def signal_processes(self, pids: Sequence[int], signal: StopSignal) -> None:
        """Signal processes that ``survivors`` gave; any other pid is left alone."""
        words = [f"{pid}:{self._seen[pid]}" for pid in pids if pid in self._seen]
        if words and await self._awake():
            await self._ask("signal", server_scripts.SIGNAL, signal.value, *words)

    async def environment_of(self, pid: int) -> Mapping[str, str] | None:
        """Environment of a live process, None when it cannot be read."""
        try:
            script = Script("environment", server_scripts.ENVIRONMENT, (str(pid),))
            result = await self._host.run(script, timeout_s=_ASK_S)
        except HostError:
            return None
        if result.returncode != 0:
            return None
        entries = result.stdout.decode("utf-8", "surrogateescape").split("\0")
        pairs = (entry.partition("=") for entry in entries)
        return {name: value for name, equals, value in pairs if equals and name}

    async def shared_memory_of(self, pids: Sequence[int]) -> tuple[str, ...]:
        """Files below ``/dev/shm`` that these processes have mapped or open."""
        if not pids or not await self._awake():
            return ()
        words = [str(pid) for pid in pids]
        output = await self._ask("shared-memory", server_scripts.SHARED_MEMORY, *words)
        return tuple(sorted(filter(None, output.split("\n"))))

    async def remove_shared_memory(self, names: Sequence[str]) -> None:
        """Remove files of this user, directly in ``/dev/shm``, that nobody uses any more."""
        if names and await self._awake():
            await self._ask("remove-memory", server_scripts.REMOVE_SHARED_MEMORY, *names)

    async def _send(self, pid: int, start_ticks: int, signal: StopSignal) -> None:
        await self._ask("signal", server_scripts.SIGNAL, signal.value, f"{pid}:{start_ticks}")

    async def _awake(self) -> bool:
        """A question must not start a distribution: with it, everything in it has ended."""
        if self._running:
            return True
        if not self._name:
            self._name = (await self._distros.choose(self._wanted)).name
        running = {one.casefold() for one in await self._distros.running()}
        return self._name.casefold() in running

    async def _ask(self, name: str, text: str, *args: str) -> str:
        result = await self._host.run(Script(name, text, args), timeout_s=_ASK_S)
        if result.returncode != 0:
            raise HostAwayError(
                message("Linux does not tell what is left of the server."),
                message('Restart WSL with "wsl --shutdown" in a terminal, then try again.'),
            )
        return result.output

    async def _first_words(
        self, connection: WslConnection, distro: str, spec: LaunchSpec
    ) -> tuple[int, int]:
        """Process id and start time of the server. Raises HostError when it was not started."""
        came, line = await connection.first_line(self._times.doubt_s)
        if not came:
            await self._distros.running()  # raises when WSL as a whole hangs
            came, line = await connection.first_line(self._times.start_s - self._times.doubt_s)
        if not came:
            raise slow_start(distro, self._times.start_s)
        if line is None:
            code = await asyncio.wait_for(connection.client.ended(), self._times.linger_s)
            text = decode_own(connection.reader.noise + bytes(connection.errors), self._oem)
            raise failure(distro, code, connection.reader.began, text)
        word, *rest = line.split("\t")
        if word == server_scripts.STARTED and len(rest) == 2 and all(w.isdigit() for w in rest):
            return int(rest[0]), int(rest[1])
        raise _refused(spec, [*rest, "", "", ""])


def _launch_input(spec: LaunchSpec, run_id: str) -> bytes:
    """Nothing of a launch stands on a command line, which everybody can read: keys are in it."""
    files = [
        word
        for file in spec.files
        for word in (
            f"{file.mode:o}",
            "keep" if file.keep_previous else "",
            file.path,
            file.content,
        )
    ]
    variables = [f"{name}={value}" for name, value in spec.env.items()]
    words = (
        *(run_id, spec.cwd or ""),
        *(str(len(spec.files)), *files),
        *(str(len(spec.unset)), *spec.unset),
        *(str(len(variables)), *variables),
        *(*spec.argv, "END"),
    )
    if any("\0" in word for word in words):
        raise cannot_carry("a NUL character")
    return b"".join(word.encode("utf-8", "surrogateescape") + b"\0" for word in words)


def _refused(spec: LaunchSpec, words: Sequence[str]) -> HostError:
    kind, what, reason = words[:3]
    if kind == "file":
        return HostError(
            message("{path} cannot be written: {reason}.", path=what, reason=reason),
            message("Check the permissions and the free space, then try again."),
        )
    if kind == "folder":
        return HostError(
            message("The folder {path} does not exist.", path=what),
            message("Correct the folder in the profile, then start again."),
        )
    return HostError(
        message("{program} cannot be started: {reason}.", program=spec.argv[0], reason=reason),
        message("Check that the engine is installed in the environment that the profile names."),
    )

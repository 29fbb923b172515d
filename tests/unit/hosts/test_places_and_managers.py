"""Paths, secrets, the systemd unit and the detached session."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from pathlib import Path

import pytest

from fixtures.modes import modes_bind
from twinrig.domain.errors import DamagedFileError, HostError
from twinrig.domain.ports import CommandResult
from twinrig.hosts.clock import SystemClock
from twinrig.hosts.local.detached_manager import DetachedManager
from twinrig.hosts.local.proc_table import read_entry
from twinrig.hosts.local.service_managers import choose_manager
from twinrig.hosts.local.systemd_manager import SystemdUserManager, user_systemd_answers
from twinrig.hosts.local.systemd_unit import unit_name, unit_text
from twinrig.hosts.locks import FileLock
from twinrig.hosts.paths import find_paths
from twinrig.hosts.secrets import KeyringSecrets, variable_name


class Ring(dict):
    def get_password(self, _service, name):
        return self.get(name)

    def set_password(self, _service, name, value):
        self[name] = value

    def delete_password(self, _service, name):
        del self[name]


def no_ring():
    from keyring.backends.fail import Keyring

    return Keyring()


def test_paths_below_the_home_variable_or_of_the_platform(tmp_path):
    paths = find_paths({"TWINRIG_HOME": str(tmp_path)})
    assert paths.profiles == tmp_path / "config" / "profiles"
    assert paths.target_state("wsl:U/../x").parent == tmp_path / "state"
    assert "twinrig" in str(find_paths({}).config)


async def test_secrets_environment_first_then_keyring():
    ring = Ring()
    store = KeyringSecrets({"TWINRIG_SECRET_API_KEY": "env"}, open_keyring=lambda: ring)
    await store.set("api-key", "ring")
    await store.set("other", "x")
    assert ring == {"api-key": "ring", "other": "x"}
    assert await store.get("api-key") == "env"
    assert await store.get("other") == "x"
    assert store.place == "The system's keyring"
    await store.delete("other")
    await store.delete("other")
    assert await store.get("other") is None
    assert variable_name("api-key") == "TWINRIG_SECRET_API_KEY"


async def test_without_keyring_and_consent_secrets_live_in_memory_only(tmp_path):
    file = tmp_path / "secrets.json"
    store = KeyringSecrets({}, file=file, open_keyring=no_ring)
    await store.set("k", "v")
    assert await store.get("k") == "v"
    assert "no keyring" in store.place
    assert not file.exists()
    assert await KeyringSecrets({}, open_keyring=no_ring).get("k") is None


async def test_a_file_only_with_consent_and_only_for_this_user(tmp_path):
    file = tmp_path / "secrets.json"
    store = KeyringSecrets({}, file=file, file_consent=True, open_keyring=no_ring)
    await store.set("k", "v")
    assert file.stat().st_mode & 0o777 == 0o600
    assert await store.get("k") == "v"
    file.write_bytes(b"\xff")
    with pytest.raises(DamagedFileError):
        await store.set("k2", "v")
    assert file.read_bytes() == b"\xff"


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"[]",
        b"7",
        b"\x00\xff",
        b'{"k": 1}',
        b'{"schema_version": 2, "secrets": {"k": "v"}}',
        b"[" * 100_000,
        b" " * (5 * 1024 * 1024),
    ],
)
async def test_a_damaged_or_newer_file_is_told_and_left_alone(tmp_path, text):
    file = tmp_path / "secrets.json"
    file.write_bytes(text)
    store = KeyringSecrets({}, file=file, file_consent=True, open_keyring=no_ring)
    for use in (store.get("k"), store.set("k", "v"), store.delete("k")):
        with pytest.raises(DamagedFileError, match=r"secrets\.json"):
            await use
    assert file.read_bytes() == text


async def test_a_read_only_file_is_told_and_left_alone(tmp_path):
    folder = tmp_path / "config"
    folder.mkdir()
    file = folder / "secrets.json"
    file.write_bytes(b'{"k": "v"}')
    file.chmod(0o400)
    folder.chmod(0o500)
    store = KeyringSecrets({}, file=file, file_consent=True, open_keyring=no_ring)
    try:
        with modes_bind(), pytest.raises(HostError, match="cannot be written"):
            await store.set("k2", "v")
        assert await store.get("k") == "v"
    finally:
        folder.chmod(0o700)
    assert file.read_bytes() == b'{"k": "v"}'


def test_the_unit():
    text = unit_text("local", "main", ["/p y/python", "-m", 'a"b', "50%", "$X"], {"A": "b c%"})
    assert 'ExecStart="/p y/python" "-m" "a\\"b" "50%%" "$$X"\n' in text
    assert 'Environment="A=b c%%"\n' in text
    for line in (
        "KillMode=mixed",
        "TimeoutStopSec=45",
        "Restart=on-failure",
        "WantedBy=default.target",
    ):
        assert f"{line}\n" in text
    assert "RestartPreventExitStatus=1 2 3\n" in text
    assert unit_name("wsl:Ubuntu 24", "main") == "twinrig-wsl_Ubuntu_24-main.service"


async def test_systemd_calls(tmp_path):
    calls, answers = [], {}

    async def run(argv, _timeout_s):
        calls.append(tuple(argv[2:]))
        code, out = answers.get(argv[2], (0, b""))
        return CommandResult(tuple(argv), code, out, b"boom", 0.0)

    manager = SystemdUserManager("local", lambda i: ["/py", i], run, tmp_path, {})
    unit = "twinrig-local-main.service"
    assert await manager.autostart("main") is False
    await manager.start("main")
    assert calls == [("daemon-reload",), ("reset-failed", unit), ("start", unit)]
    await manager.start("main")
    assert calls.count(("daemon-reload",)) == 1
    await manager.set_autostart("main", True)
    assert calls[-1] == ("enable", unit)
    for word, expected in (
        (b"active", True),
        (b"deactivating", True),
        (b"failed", False),
        (b"", None),
    ):
        answers["is-active"] = (3, word + b"\n")
        assert await manager.is_running("main") is expected
    answers["start"] = (1, b"")
    with pytest.raises(HostError, match="boom"):
        await manager.start("main")


async def test_units_are_removed_and_others_left_alone(tmp_path):
    calls = []

    async def run(argv, _timeout_s):
        calls.append(tuple(argv[2:]))
        return CommandResult(tuple(argv), 0, b"", b"", 0.0)

    manager = SystemdUserManager("local", lambda i: ["/py", i], run, tmp_path, {})
    await manager.start("main")
    (tmp_path / "twinrig-demo-main.service").write_text("of another target")
    calls.clear()
    assert await manager.unregister_all(["main", "never-started"]) == ()
    unit = "twinrig-local-main.service"
    assert calls == [("disable", unit), ("daemon-reload",)]
    assert [path.name for path in tmp_path.iterdir()] == ["twinrig-demo-main.service"]
    (tmp_path / unit).mkdir()  # a thing that cannot be unlinked
    assert await manager.unregister_all(["main"]) == (unit,)


def test_a_stale_socket_is_no_systemd(tmp_path):
    (tmp_path / "systemd" / "system").mkdir(parents=True)
    environ = {"XDG_RUNTIME_DIR": str(tmp_path)}
    assert not user_systemd_answers({}, tmp_path)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "systemd" / "private"))
        assert not user_systemd_answers(environ, tmp_path)
        server.listen()
        assert user_systemd_answers(environ, tmp_path)
    assert not user_systemd_answers(environ, tmp_path)


SUPERVISOR = """
import sys, time, signal
from pathlib import Path
from twinrig.hosts.locks import FileLock
lock = FileLock(Path(sys.argv[1]), "main")
lock.acquire("supervisor")
print("hello", flush=True)
time.sleep(60)
"""


async def test_a_detached_supervisor(tmp_path):
    output = tmp_path / "log" / "out.txt"
    manager = choose_manager(
        "local",
        lambda _id: [sys.executable, "-c", SUPERVISOR, str(tmp_path)],
        FileLock(tmp_path),
        {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path)},
        output,
        SystemClock(),
    )
    assert isinstance(manager, DetachedManager)
    assert await manager.is_running("main") is False
    await manager.start("main")
    pid = FileLock(tmp_path).holder("supervisor")
    entry = read_entry(pid)
    try:
        await manager.start("main")
        assert FileLock(tmp_path).holder("supervisor") == pid
        assert entry.session != os.getsid(0)
        assert entry.parent_pid != os.getpid()
        assert Path(f"/proc/{pid}/fd/0").resolve() == Path("/dev/null")
        assert await manager.is_running("main") is True
        assert await manager.is_running("other") is False
        with pytest.raises(HostError):
            await manager.set_autostart("main", True)
        assert await manager.autostart("main") is False
        await manager.kill("main")
        assert read_entry(pid) is None
        assert await manager.is_running("main") is False
    finally:
        if read_entry(pid) == entry:
            os.kill(pid, signal.SIGKILL)


async def test_a_detached_supervisor_that_dies_at_once_is_not_waited_for(tmp_path):
    clock = SystemClock()
    output = tmp_path / "out.txt"
    manager = DetachedManager(
        lambda _id: [sys.executable, "-c", "raise SystemExit('no module named yaml')"],
        FileLock(tmp_path),
        {"PATH": os.environ["PATH"]},
        output,
        clock,
    )
    begun = clock.monotonic()
    await manager.start("main")
    assert clock.monotonic() - begun < 4.0
    assert await manager.is_running("main") is False
    assert "no module named yaml" in output.read_text()


async def test_a_detached_supervisor_on_its_way_counts_as_running(tmp_path):
    class Impatient(SystemClock):
        async def sleep(self, seconds):
            self.ahead_s = getattr(self, "ahead_s", 0.0) + 10.0

        def monotonic(self):
            return super().monotonic() + getattr(self, "ahead_s", 0.0)

    script = "import os, time; open(os.environ['P'], 'w').write(str(os.getpid())); time.sleep(60)"
    manager = DetachedManager(
        lambda _id: [sys.executable, "-c", script],
        FileLock(tmp_path),
        {"PATH": os.environ["PATH"], "P": str(tmp_path / "pid")},
        tmp_path / "out.txt",
        Impatient(),
    )
    await manager.start("main")
    try:
        assert await manager.is_running("main") is True
    finally:
        assert manager._launched is not None
        os.kill(manager._launched.pid, signal.SIGKILL)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
async def test_a_detached_supervisor_that_gave_its_lock_back_is_not_on_its_way(tmp_path):
    """It lives on for a moment while it ends; the next one must be started all the same."""
    script = (
        "import sys, time; from pathlib import Path; from twinrig.hosts.locks import FileLock;"
        "lock = FileLock(Path(sys.argv[1]), sys.argv[2]); lock.acquire('supervisor');"
        "stop = Path(sys.argv[1], 'stop-' + sys.argv[2])\n"
        "while not stop.exists(): time.sleep(0.01)\n"
        "lock.release(); time.sleep(60)"
    )
    manager = DetachedManager(
        lambda profile: [sys.executable, "-c", script, str(tmp_path), profile],
        FileLock(tmp_path),
        dict(os.environ),
        tmp_path / "out.txt",
        SystemClock(),
    )
    lock, pids = FileLock(tmp_path), []
    try:
        for profile in ("one", "two"):
            await manager.start(profile)
            pids.append(lock.holder("supervisor"))
            assert lock.holder_note("supervisor") == profile
            (tmp_path / f"stop-{profile}").touch()
            while lock.holder("supervisor") is not None:
                await asyncio.sleep(0.01)
            assert await manager.is_running(profile) is False
        assert None not in pids and pids[0] != pids[1]
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
async def test_a_detached_supervisor_at_its_end_is_waited_for_before_the_next_is_started(tmp_path):
    """Nobody saw it hold the lock: it took longer to get there than a start waits."""
    script = (
        "import sys, time; from pathlib import Path; from twinrig.hosts.locks import FileLock;"
        "name = sys.argv[2]; time.sleep(0.5 if name == 'one' else 60)\n"
        "lock = FileLock(Path(sys.argv[1]), name); lock.acquire('supervisor')"
    )
    manager = DetachedManager(
        lambda profile: [sys.executable, "-c", script, str(tmp_path), profile],
        FileLock(tmp_path),
        dict(os.environ),
        tmp_path / "out.txt",
        SystemClock(),
    )
    manager._until = lambda _condition, _limit_s: asyncio.sleep(0)
    await manager.start("one")
    del manager._until
    assert await manager.is_running("one") is True
    await asyncio.wait_for(manager.start("two"), 30)
    assert manager._launched is not None
    try:
        assert "two" in Path(f"/proc/{manager._launched.pid}/cmdline").read_text()
    finally:
        os.kill(manager._launched.pid, signal.SIGKILL)

"""A server in WSL, kept by a supervisor on the Windows side, through all that may go wrong."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from fixtures.supervision import own_log
from fixtures.windows_computer import may_mount
from fixtures.wsl_server_rig import FAST, WslRig, alive
from twinrig.domain.launch import FileSpec
from twinrig.domain.server import ServerState
from twinrig.hosts.http import HttpxClient

S = ServerState
needs_root = pytest.mark.skipif(not may_mount(), reason="a network of one's own needs root")
pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="the double stands for Windows"),
    pytest.mark.timeout(300),
]


@pytest_asyncio.fixture
async def rig(tmp_path):
    http = HttpxClient()
    made = WslRig(tmp_path, http)
    yield made
    await made.close()
    await http.close()


async def test_a_whole_life(rig):
    rig.changes = {
        "env": {"WANTED": 'a b\n\'"$HOME"', "KEY": "secret-key-1"},
        "files": (FileSpec(str(rig.root / "made" / "it.yaml"), "text: 日本\n", mode=0o600),),
    }
    rig.start()
    record = await rig.ready()
    assert record.server_pid == rig.pids["server"]
    assert record.environment_mismatch == ()
    shown = b""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            shown += path.read_bytes()
    assert b"secret-key-1" not in shown, "everybody can read a command line"
    made = rig.root / "made" / "it.yaml"
    assert (made.read_text("utf-8"), made.stat().st_mode & 0o777) == ("text: 日本\n", 0o600)
    assert rig.running() == ["Ubuntu"]
    assert await rig.stop() == 0
    assert not alive(record.server_pid)
    assert rig.record.state is S.STOPPED
    assert rig.layout.log("main").read_text() == "loading weights\nlistening\n"


async def test_a_home_with_blanks_brackets_and_japanese(rig):
    """Of the Linux user; files of runs lie below it."""
    rig.store.set_distro("Ubuntu", user="me [x] 山田 *")
    rig.config(grandchildren=["plain", "escaped"])
    rig.start()
    await rig.ready()
    pids = rig.pids
    assert "me [x] 山田 *" in await rig.host().home()
    await asyncio.sleep(1.5)
    assert await rig.stop() == 0
    assert {name for name, pid in pids.items() if alive(pid)} == set()


async def test_the_environment_is_clean_and_its_own(rig):
    rig.changes = {"unset": ("LANG",), "env": {"WANTED": "1"}}
    rig.start()
    record = await rig.ready()
    environ = await rig.launcher().environment_of(record.server_pid)
    assert environ is not None
    assert environ["TWINRIG_RUN_ID"] == record.run_id
    assert list(environ)[-1] == "TWINRIG_RUN_ID", "a title overwrites the beginning first"
    assert "LANG" not in environ
    assert "TWINRIG_CALL" not in environ
    assert "/mnt/c" not in environ["PATH"]
    assert environ["WSL_DISTRO_NAME"] == "Ubuntu"


async def test_a_stop_takes_all_descendants(rig):
    rig.config(grandchildren=["plain", "wiped", "escaped", "stubborn"])
    rig.start()
    await rig.ready()
    pids = rig.pids
    assert all(alive(pid) for pid in pids.values())
    await asyncio.sleep(1.5)  # the watcher looks once a second at first
    await rig.stop()
    assert {name for name, pid in pids.items() if alive(pid)} == set()
    assert rig.record.state is S.STOPPED


@pytest.mark.slow
async def test_a_server_that_ignores_the_signal(rig):
    rig.config(ignore_term=True)
    rig.start()
    record = await rig.ready()
    await rig.stop()
    assert not alive(record.server_pid)
    assert "KILL" in own_log(rig.layout)


async def test_a_server_that_is_killed_is_told_from_wsl_going_away(rig):
    rig.start()
    record = await rig.ready()
    os.kill(record.server_pid, signal.SIGKILL)
    again = await rig.until(lambda r: r.state is S.READY and r.run_id != record.run_id)
    assert again.last_exit == "signal 9"


async def test_exit_codes_of_the_server(rig):
    rig.start()
    record = await rig.ready()
    (rig.control / "exit-67").touch()  # wsl.exe itself never reports this one
    again = await rig.until(lambda r: r.state is S.READY and r.run_id != record.run_id)
    assert again.last_exit == "exit code 67"


@pytest.mark.parametrize("how", ["terminate", "update", "shutdown"])
async def test_wsl_that_goes_away_is_explained_and_the_server_comes_back(rig, how):
    rig.start()
    record = await rig.ready()
    if how == "terminate":
        await rig.distros().terminate("Ubuntu")
    elif how == "shutdown":
        await rig.distros().shutdown()
    else:
        rig.store.stop_all()  # as --update does in mid-flight
    waiting = await rig.until(lambda r: r.state is S.BACKOFF)
    assert "WSL went away under the server" in str(waiting.failure.text)
    assert waiting.last_exit == "WSL went away"
    assert not alive(record.server_pid)
    again = await rig.until(lambda r: r.state is S.READY and r.run_id != record.run_id)
    assert again.restarts == 1
    assert await rig.stop() == 0


async def test_looking_after_it_went_away_does_not_start_it_again(rig):
    rig.timing = type(rig.timing)(**{**vars(rig.timing), "gone_pause_s": 30.0})
    rig.start()
    await rig.ready()
    await rig.distros().terminate("Ubuntu")
    await rig.until(lambda r: r.state is S.BACKOFF)
    await asyncio.sleep(1.0)
    assert rig.running() == []
    assert await rig.stop() == 0
    assert rig.running() == []


async def test_an_update_that_takes_a_while_is_waited_for(rig):
    rig.start()
    record = await rig.ready()
    rig.store.flag("e_unexpected")
    rig.store.stop_all()
    await rig.until(lambda r: r.quick_failures >= 2)
    rig.store.flag()
    again = await rig.until(lambda r: r.state is S.READY and r.run_id != record.run_id)
    assert again.failure is None


async def test_a_wsl_exe_that_is_ended_from_outside(rig):
    """The connection is cut: Linux hangs up, and what ignores that is swept."""
    rig.config(grandchildren=["escaped", "stubborn"])
    rig.start()
    record = await rig.ready()
    pids = rig.pids
    await asyncio.sleep(1.5)
    clients = sorted((rig.store.home / "session").glob("*"), key=lambda p: p.stat().st_mtime)
    os.kill(int(clients[0].name), signal.SIGKILL)  # the server's own is the oldest
    await rig.until(lambda r: r.state is S.READY and r.run_id != record.run_id)
    assert {name for name, pid in pids.items() if alive(pid)} == set()


class Nap:
    """A computer that wakes when the test says so, and the question that is asked then."""

    def __init__(self, rig):
        self.awake = asyncio.Event()
        self.asked = 0
        self._rig = rig

    async def woke(self):
        await self.awake.wait()
        self.awake.clear()

    async def fault(self):
        from twinrig.domain.errors import HostError

        self.asked += 1
        try:
            await self._rig.distros().running()
        except HostError as error:
            return error
        return None


async def test_sleep_that_harms_nothing(rig):
    rig.machine = nap = Nap(rig)
    rig.start()
    record = await rig.ready()
    nap.awake.set()
    await asyncio.sleep(0.5)
    assert nap.asked == 0, "it answers; nothing else is asked"
    assert rig.record.run_id == record.run_id
    assert "woke from sleep" in own_log(rig.layout)


@pytest.mark.slow
async def test_a_wsl_that_hangs_after_sleep_is_told_and_not_tried_for_ever(rig):
    rig.machine = nap = Nap(rig)
    rig.start()
    record = await rig.ready()
    rig.store.flag("hang_all")
    os.kill(record.server_pid, signal.SIGSTOP)  # the relay of localhost is dead, too
    nap.awake.set()
    assert await rig.end() == 1
    failed = rig.record
    assert failed.state is S.FAILED
    assert "does not answer" in str(failed.failure.text)
    assert "wsl --shutdown" in str(failed.failure.next_step)
    with contextlib.suppress(ProcessLookupError):  # its connection was cut: a hang-up
        os.kill(record.server_pid, signal.SIGCONT)
    rig.store.flag()
    rig.start()  # after the cure what is left of before is swept first
    again = await rig.until(lambda r: r.state is S.READY and r.run_id != record.run_id)
    assert not alive(record.server_pid)
    assert again.server_pid != record.server_pid


@pytest.mark.slow
async def test_a_stop_while_wsl_hangs_says_that_nobody_can_tell(rig):
    rig.start()
    record = await rig.ready()
    rig.store.flag("hang_all")
    assert await rig.stop() == 1
    assert rig.record.state is S.FAILED
    assert rig.record.run_id == record.run_id, "for the next supervisor to sweep"


@needs_root
async def test_a_dead_relay_of_localhost_kills_no_server(rig, monkeypatch):
    """It answers inside WSL all the while; a restart would only load it again."""
    from twinrig.hosts.wsl import reach

    monkeypatch.setattr(reach, "ASK_AGAIN_S", 0.5)
    rig.store.set_distro("Ubuntu", network=True)
    rig.start()
    record = await rig.ready()
    rig.store.flag("relay_dead")
    await rig.until(
        lambda r: r.degraded_reason is not None and "answers inside WSL" in str(r.degraded_reason)
    )
    await asyncio.sleep(FAST.watch_s * FAST.restart_checks * 2)
    assert alive(record.server_pid)
    assert (rig.record.state, rig.record.restarts) == (S.DEGRADED, 0)
    rig.store.flag()
    await rig.ready()
    assert rig.record.server_pid == record.server_pid
    os.kill(record.server_pid, signal.SIGSTOP)  # one that hangs is no matter of the relay
    rig.store.flag("relay_dead")
    await asyncio.sleep(1.0)
    os.kill(record.server_pid, signal.SIGCONT)
    rig.store.flag()
    await rig.ready()
    assert await rig.stop() == 0


@needs_root
async def test_a_relay_that_is_dead_from_the_start_is_told_and_not_tried_again(rig, monkeypatch):
    from twinrig.hosts.wsl import reach

    monkeypatch.setattr(reach, "ASK_AGAIN_S", 0.5)
    rig.timing = replace(rig.timing, cut_off_s=1.5)
    rig.store.set_distro("Ubuntu", network=True)
    rig.store.flag("relay_dead")
    rig.start()
    assert await rig.end() == 1
    failure = rig.record.failure
    assert "answers inside WSL" in str(failure.text)
    assert "wsl --shutdown" in str(failure.next_step)
    assert (failure.finding_id, failure.fixes[0]) == ("wsl-localhost-relay", "wsl-restart")
    assert rig.record.restarts == 0
    assert not alive(rig.pids["server"]), "nothing holds the cards"


async def test_what_cannot_be_started_is_said(rig):
    rig.changes = {"argv": ("/nowhere/python", "x")}
    rig.start()
    assert await rig.end() == 1
    assert "/nowhere/python cannot be started" in str(rig.record.failure.text)


async def test_a_folder_that_is_missing(rig):
    rig.changes = {"cwd": "/nowhere/else"}
    rig.start()
    assert await rig.end() == 1
    assert "/nowhere/else does not exist" in str(rig.record.failure.text)


async def test_a_file_that_cannot_be_written(rig):
    rig.changes = {"files": (FileSpec("/proc/none/it.yaml", "x"),)}
    rig.start()
    assert await rig.end() == 1
    assert "/proc/none/it.yaml cannot be written" in str(rig.record.failure.text)


async def test_a_file_of_the_user_keeps_its_previous_version(rig):
    path = rig.root / "config.yml"
    path.write_text("old: 1\n")
    rig.changes = {"files": (FileSpec(str(path), "new: 2\n", 0o644, keep_previous=True),)}
    rig.start()
    await rig.ready()
    assert path.read_text() == "new: 2\n"
    assert (rig.root / "config.yml.previous").read_text() == "old: 1\n"


async def test_a_full_disk_in_linux_is_said(rig):
    rig.store.set_distro("Ubuntu", private=True)
    rig.store.flag("disk_full")
    rig.changes = {"files": (FileSpec("/home/me/it.yaml", "x" * 400_000),)}
    rig.start()
    assert await rig.end() == 1
    assert "/home/me/it.yaml cannot be written: No space left on device" in str(
        rig.record.failure.text
    )


async def test_a_full_disk_on_windows_costs_records_and_no_server(rig, monkeypatch):
    from twinrig.supervisor import record_store

    rig.timing = type(rig.timing)(**{**vars(rig.timing), "heartbeat_s": 0.05})
    rig.start()
    record = await rig.ready()
    write = record_store.write_atomic

    def full(*_args, **_more):
        raise OSError(errno.ENOSPC, "There is not enough space on the disk")

    monkeypatch.setattr(record_store, "write_atomic", full)
    await asyncio.sleep(1.0)
    assert alive(record.server_pid)
    assert not rig.task.done()
    monkeypatch.setattr(record_store, "write_atomic", write)
    await rig.until(lambda r: r.updated_at_s > record.updated_at_s + 1.0)
    assert rig.record.run_id == record.run_id
    assert await rig.stop() == 0
    assert "not enough space" in own_log(rig.layout)


async def test_a_log_that_another_program_holds_costs_lines_and_no_server(rig, monkeypatch):
    from twinrig.supervisor import log_writer

    def locked(*_args):
        raise PermissionError(13, "The process cannot access the file because it is being used")

    monkeypatch.setattr(log_writer, "FileIO", locked)
    rig.start()
    record = await rig.ready()
    await rig.until(lambda r: r.dropped_log_lines >= 1)
    assert alive(record.server_pid)
    assert await rig.stop() == 0


async def test_a_distribution_that_is_gone_is_final(rig):
    rig.store.remove_distros()
    rig.start()
    assert await rig.end() == 1
    assert rig.record.quick_failures <= 1


async def test_noise_around_the_server_stays_out_of_its_log(rig):
    rig.store.flag("noise", "mixed")
    rig.start()
    await rig.ready()
    await rig.stop()
    assert rig.layout.log("main").read_text() == "loading weights\nlistening\n"


@pytest.mark.slow
async def test_the_distribution_is_kept_up_by_the_server_alone(tmp_path):
    http = HttpxClient()
    rig = WslRig(tmp_path, http, idle_s=15.0, clock=30.0)  # idle for half a second
    try:
        rig.start()
        record = await rig.ready()
        await asyncio.sleep(2.5)
        assert rig.running() == ["Ubuntu"]
        assert rig.record.run_id == record.run_id
        await rig.stop()
        deadline = time.monotonic() + 20
        while rig.running():
            assert time.monotonic() < deadline, "nothing of ours may keep it up"
            await asyncio.sleep(0.05)
    finally:
        await rig.close()
        await http.close()

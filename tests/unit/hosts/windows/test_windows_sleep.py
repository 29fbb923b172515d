"""Sleep is noticed and WSL asked once; servers that are programs of Windows itself."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from pathlib import Path

import pytest

from fixtures.supervision import VirtualClock, make_spec
from twinrig.domain.errors import HostAwayError, HostError
from twinrig.domain.launch import FileSpec, StopSignal
from twinrig.domain.ports import ExitStatus
from twinrig.hosts.windows.launcher import WindowsServerLauncher
from twinrig.hosts.windows.power import (
    ResumeNotice,
    is_resume,
    kept_awake,
    set_execution_state,
)
from twinrig.hosts.wsl.wake import GAP_S, TICK_S, WakeWatch
from twinrig.messages import message


@pytest.mark.parametrize("breaks", [False, True])
def test_the_wish_to_stay_awake_is_taken_back_whatever_happens(breaks):
    """ES_CONTINUOUS | ES_SYSTEM_REQUIRED, then ES_CONTINUOUS alone; the screen may go dark."""
    asked = []

    def set_state(state):
        asked.append(state)
        return 0x80000000

    with contextlib.suppress(KeyError), kept_awake(set_state) as kept:
        assert (kept, asked) == (True, [0x80000001])
        if breaks:
            raise KeyError
    assert asked == [0x80000001, 0x80000000]


def test_a_windows_that_refuses_is_asked_once():
    asked = []

    def refuse(state):
        asked.append(state)
        return 0

    with kept_awake(refuse) as kept:
        assert not kept
    assert asked == [0x80000001]
    assert set_execution_state(0x80000001) == 0, "outside Windows nobody is asked"


class Distros:
    def __init__(self, *names):
        self.names = frozenset(names)
        self.error: HostError | None = None

    async def running(self):
        if self.error is not None:
            raise self.error
        return self.names


class SleepyClock(VirtualClock):
    """Timers stand still while the computer sleeps; the time of day goes on."""

    asleep_s = 0.0

    def now(self):
        return super().now() + self.asleep_s


def test_which_power_events_mean_awake():
    assert is_resume(0x7)
    assert is_resume(0x12)
    assert not is_resume(0x4), "going to sleep"
    assert not is_resume(0xA), "a change of the battery"


async def test_a_gap_in_time_is_a_sleep():
    async with SleepyClock() as clock:
        watch = WakeWatch(Distros("Ubuntu"), clock)
        woke = asyncio.ensure_future(watch.woke())
        await clock.sleep(20 * TICK_S)
        assert not woke.done(), "time that passes is no sleep"
        clock.asleep_s = GAP_S - 1.0
        await clock.sleep(2 * TICK_S)
        assert not woke.done(), "a clock that is set by a few seconds is none either"
        clock.asleep_s += GAP_S + 1.0
        await clock.sleep(2 * TICK_S)
        assert woke.done()


async def test_a_notice_of_windows_is_heard_at_once():
    class Notice(ResumeNotice):
        event: asyncio.Event | None = None

        @contextlib.contextmanager
        def telling(self, event):
            self.event = event
            yield
            self.event = None

    async with VirtualClock() as clock:
        notice = Notice()
        woke = asyncio.ensure_future(WakeWatch(Distros(), clock, notice).woke())
        await clock.sleep(TICK_S)
        assert notice.event is not None
        notice.event.set()
        await clock.sleep(0.01)
        assert woke.done()
        assert notice.event is None


async def test_the_fault_names_what_the_cure_ends():
    distros = Distros("Ubuntu", "docker-desktop")
    async with VirtualClock() as clock:
        watch = WakeWatch(distros, clock)
        woke = asyncio.ensure_future(watch.woke())
        await clock.sleep(TICK_S)
        assert await watch.fault() is None
        distros.error = HostAwayError(message("WSL does not answer."), message("Restart."))
        fault = await watch.fault()
        assert isinstance(fault, HostAwayError)
        assert "since the computer woke" in str(fault.text)
        assert "Ubuntu, docker-desktop" in str(fault.next_step)
        assert "wsl --shutdown" in str(fault.next_step)
        assert "wsl-restart" in fault.fixes
        woke.cancel()


async def test_a_question_that_fails_before_sleep_is_no_fault():
    distros = Distros()
    distros.error = HostAwayError(message("WSL does not answer."), message("Restart."))
    async with VirtualClock() as clock:
        watch = WakeWatch(distros, clock)
        woke = asyncio.ensure_future(watch.woke())
        await clock.sleep(TICK_S)
        assert not woke.done()
        fault = await watch.fault()
        assert str(fault.next_step) == "Restart."
        woke.cancel()


CODE = """
import os, sys, time
print("hello", os.environ["TWINRIG_RUN_ID"], os.environ["WANTED"], flush=True)
print("trouble", file=sys.stderr, flush=True)
time.sleep(float(sys.argv[1])); sys.exit(int(sys.argv[2]))
"""


async def run_windows_server(tmp_path, seconds, code):
    launcher = WindowsServerLauncher({"PATH": "/usr/bin", "DROPPED": "1"})
    out = bytearray()
    file = FileSpec(str(tmp_path / "made" / "x.json"), "{}")
    spec = make_spec(
        argv=(sys.executable, "-c", CODE, str(seconds), str(code)),
        files=(file,),
        unset=("DROPPED",),
    )
    return launcher, out, await launcher.launch(spec, "run1", out.extend)


async def test_a_server_of_windows_itself(tmp_path):
    launcher, out, server = await run_windows_server(tmp_path, 0, 5)
    assert await server.wait() == ExitStatus(5)
    assert b"hello run1 1" in out
    assert b"trouble" in out
    assert (tmp_path / "made" / "x.json").read_text() == "{}"
    assert await launcher.survivors("run1") == ()
    await server.signal(StopSignal.KILL)


async def test_it_ends_by_any_signal_and_is_seen_while_it_lives(tmp_path):
    launcher, _, server = await run_windows_server(tmp_path, 60, 0)
    (seen,) = await launcher.survivors("run1")
    assert seen.pid == server.pid
    assert await launcher.survivors("other") == ()
    began = time.monotonic()
    await launcher.signal_processes([server.pid + 1], StopSignal.TERM)
    await launcher.signal_processes([server.pid], StopSignal.TERM)
    await server.wait()
    assert time.monotonic() - began < 30
    assert await launcher.environment_of(server.pid) is None
    assert await launcher.shared_memory_of([server.pid]) == ()


async def test_what_cannot_be_started_or_written_is_said(tmp_path):
    launcher = WindowsServerLauncher({})
    with pytest.raises(HostError, match="cannot be started"):
        await launcher.launch(make_spec(argv=("/nowhere/x",)), "r", lambda _: None)
    blocked = tmp_path / "file"
    blocked.write_text("")
    spec = make_spec(files=(FileSpec(str(blocked / "x"), "y"),))
    with pytest.raises(HostError, match="cannot be written"):
        await launcher.launch(spec, "r", lambda _: None)
    assert Path(blocked).read_text() == ""

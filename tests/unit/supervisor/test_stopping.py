"""A stop works in every state, and within half a minute."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from fixtures.supervision import own_log, write_desired
from twinrig.domain.launch import StopSignal
from twinrig.domain.ports import ExitStatus
from twinrig.domain.server import Phase, ServerState
from twinrig.domain.supervision import Desired

S = ServerState


async def stop_takes(rig) -> float:
    began_s = rig.clock.now()
    write_desired(rig.layout, Desired.STOPPED, "stop")
    assert await rig.end() == 0
    assert rig.record.state is S.STOPPED
    return rig.clock.now() - began_s


async def test_while_it_prepares(rig):
    prepared = asyncio.Event()

    async def prepare(_profile):
        prepared.set()
        await rig.clock.sleep(10_000)

    object.__setattr__(rig.parts, "prepare", prepare)
    rig.start()
    await prepared.wait()
    assert await stop_takes(rig) < 2
    assert rig.launcher.launched == []
    assert rig.seen == [S.STARTING, S.STOPPING, S.STOPPED]


async def test_while_starting(rig):
    rig.launcher.on_launch = lambda *_: None
    rig.start()
    await rig.until(lambda r: r.server_pid is not None)
    assert await stop_takes(rig) < 2
    assert rig.server.signals == [StopSignal.TERM]


async def test_while_loading(rig):
    rig.launcher.on_launch = lambda _server, output: output(b"loading weights\n")
    rig.start()
    await rig.until_state(S.LOADING)
    assert await stop_takes(rig) < 2
    assert rig.seen == [S.STARTING, S.LOADING, S.STOPPING, S.STOPPED]
    assert rig.record.phases[-1].phase is Phase.STOP


async def test_while_the_first_probe_hangs(rig):
    rig.http.hang = True
    rig.start()
    await rig.until(lambda r: any(p.phase is Phase.PROBE for p in r.phases))
    assert await stop_takes(rig) < 2


async def test_while_degraded(rig):
    rig.start()
    await rig.until_state(S.READY)
    rig.http.health = 503
    await rig.until_state(S.DEGRADED)
    assert await stop_takes(rig) < 2


async def test_while_backing_off(rig):
    rig.launcher.on_launch = lambda server, _output: server.end(ExitStatus(1))
    rig.start()
    await rig.until(lambda r: r.state is S.BACKOFF and r.quick_failures == 4)
    assert await stop_takes(rig) < 2
    assert rig.seen[-2:] == [S.BACKOFF, S.STOPPED]
    assert len(rig.launcher.servers) == 4


async def test_while_it_sweeps_after_a_crash(rig):
    def launch(server, output):
        rig.becomes_ready(server, output)
        rig.launcher.orphans["run1"] = {55: {StopSignal.TERM}}

    rig.launcher.on_launch = launch
    rig.start()
    await rig.until_state(S.READY)
    rig.server.end(ExitStatus(None, 9))
    await rig.until_state(S.BACKOFF)
    assert await stop_takes(rig) < 30
    assert rig.launcher.sent == [(55, StopSignal.TERM), (55, StopSignal.KILL)]
    assert len(rig.launcher.servers) == 1


async def test_a_server_that_ignores_the_signal_is_killed_with_all_it_started(rig):
    rig.launcher.ignores = (StopSignal.TERM,)
    rig.start()
    await rig.until_state(S.READY)
    rig.launcher.orphans["run1"] = {60: {StopSignal.TERM}}
    assert await stop_takes(rig) < 30
    assert rig.server.signals == [StopSignal.TERM, StopSignal.KILL]
    assert rig.launcher.sent == [(60, StopSignal.KILL)], "no second waiting time"


async def test_orphans_of_a_server_that_ended_well_may_clean_up_first(rig):
    rig.start()
    await rig.until_state(S.READY)
    rig.launcher.orphans["run1"] = {60: set(), 61: set()}
    rig.launcher.orphan_parents = {61: 60}
    await stop_takes(rig)
    assert rig.launcher.sent[0] == (60, StopSignal.TERM)
    assert (61, StopSignal.TERM) not in rig.launcher.sent, "its parent ends it"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_to_the_supervisor_ends_the_server_and_leaves_the_wish(rig, number):
    write_desired(rig.layout, Desired.RUNNING)
    before = rig.layout.desired("main").read_bytes()
    rig.start()
    await rig.until_state(S.READY)
    os.kill(os.getpid(), number)
    assert await rig.end() == 0
    assert rig.record.state is S.STOPPED
    assert rig.server.signals == [StopSignal.TERM]
    assert rig.layout.desired("main").read_bytes() == before


async def test_a_closed_terminal_means_nothing(rig):
    rig.start()
    await rig.until_state(S.READY)
    os.kill(os.getpid(), signal.SIGHUP)
    await rig.clock.sleep(20)
    assert rig.record.state is S.READY
    assert "signal" not in own_log(rig.layout)

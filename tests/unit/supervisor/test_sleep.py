"""Freeing the cards: a server that sleeps on purpose is neither ill nor stopped."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from fixtures.supervision import make_spec, own_log, write_desired
from twinrig.domain.launch import SleepWay, StopSignal
from twinrig.domain.ports import ExitStatus
from twinrig.domain.server import ServerState
from twinrig.domain.supervision import Desired

S = ServerState
WAKES = SleepWay("/sleep?level=1", "/wake_up")
UNLOADS = SleepWay("/v1/model/unload", token="admin-key")


def can(rig, way: SleepWay | None) -> None:
    async def prepare(_profile):
        return make_spec(sleep=way)

    rig.parts = replace(rig.parts, prepare=prepare)


async def ready(rig, way: SleepWay | None) -> None:
    can(rig, way)
    write_desired(rig.layout, Desired.RUNNING, "first")
    rig.start()
    await rig.until_state(S.READY)


async def test_it_sleeps_and_wakes_within_one_run(rig) -> None:
    await ready(rig, WAKES)
    assert rig.record.can_sleep
    timings = rig.layout.timings("main").read_bytes()
    write_desired(rig.layout, Desired.SLEEPING, "second")
    await rig.until_state(S.SLEEPING)
    await rig.until(lambda r: r.request_id == "second")
    assert rig.http.naps == [("sleep?level=1", "secret-key")]
    probes = len(rig.http.probes)
    write_desired(rig.layout, Desired.RUNNING, "third")
    await rig.until_state(S.READY)
    assert rig.http.naps[1:] == [("wake_up", "secret-key")]
    assert len(rig.http.probes) == probes + 1, "ready only after a reply has proven it"
    assert rig.seen == [S.STARTING, S.LOADING, S.READY, S.SLEEPING, S.LOADING, S.READY]
    assert len(rig.launcher.servers) == 1 and rig.record.run_id == "run1"
    assert rig.layout.timings("main").read_bytes() == timings, "waking is no start"
    write_desired(rig.layout, Desired.STOPPED, "fourth")
    assert await rig.end() == 0


async def test_a_sleeping_server_is_asked_for_no_reply_and_is_not_degraded(rig) -> None:
    await ready(rig, WAKES)
    write_desired(rig.layout, Desired.SLEEPING, "second")
    await rig.until_state(S.SLEEPING)
    probes = len(rig.http.probes)
    rig.http.completion = 503  # as tabbyAPI says without a model
    await rig.clock.sleep(2000)
    assert rig.record.state is S.SLEEPING and len(rig.http.probes) == probes
    assert rig.record.degraded_reason is None
    rig.http.completion = 200


async def test_one_that_cannot_wake_by_itself_is_started_anew_without_a_crash(rig) -> None:
    await ready(rig, UNLOADS)
    write_desired(rig.layout, Desired.SLEEPING, "second")
    await rig.until_state(S.SLEEPING)
    assert rig.http.naps == [("unload", "admin-key")]
    write_desired(rig.layout, Desired.RUNNING, "third")
    await rig.until(lambda r: r.run_id == "run2" and r.state is S.READY)
    assert rig.launcher.servers[0].signals == [StopSignal.TERM]
    assert rig.seen[-5:] == [S.SLEEPING, S.STOPPING, S.STARTING, S.LOADING, S.READY]
    assert (rig.record.restarts, rig.record.quick_failures) == (0, 0)
    assert rig.record.failure is None


async def test_a_stop_while_it_sleeps_stops(rig) -> None:
    await ready(rig, UNLOADS)
    write_desired(rig.layout, Desired.SLEEPING, "second")
    await rig.until_state(S.SLEEPING)
    write_desired(rig.layout, Desired.STOPPED, "third")
    assert await rig.end() == 0
    assert rig.record.state is S.STOPPED and len(rig.launcher.servers) == 1


@pytest.mark.parametrize("status", [401, 404, 500, None])
async def test_a_refusal_harms_nothing_and_is_told_once(rig, status) -> None:
    await ready(rig, WAKES)
    rig.http.nap_status = status
    write_desired(rig.layout, Desired.SLEEPING, "second")
    await rig.until(lambda r: r.sleep_fault is not None)
    await rig.clock.sleep(600)
    assert rig.record.state is S.READY and len(rig.http.naps) == 1
    assert ("status" in str(rig.record.sleep_fault)) is (status is not None)
    rig.http.nap_status = 200
    write_desired(rig.layout, Desired.SLEEPING, "third")
    await rig.until_state(S.SLEEPING)
    assert rig.record.sleep_fault is None


async def test_a_server_without_sleep_says_so(rig) -> None:
    await ready(rig, None)
    assert not rig.record.can_sleep
    write_desired(rig.layout, Desired.SLEEPING, "second")
    await rig.until(lambda r: r.sleep_fault is not None)
    assert rig.record.state is S.READY and rig.http.naps == []


async def test_a_crash_in_its_sleep_is_a_crash_and_it_sleeps_again_after(rig) -> None:
    await ready(rig, WAKES)
    write_desired(rig.layout, Desired.SLEEPING, "second")
    await rig.until_state(S.SLEEPING)
    rig.server.end(ExitStatus(1))
    await rig.until_state(S.BACKOFF)
    await rig.until(lambda r: r.run_id == "run2" and r.state is S.SLEEPING)
    assert [name for name, _token in rig.http.naps] == ["sleep?level=1", "sleep?level=1"]


async def test_a_dead_engine_is_noticed_in_its_sleep(rig) -> None:
    await ready(rig, WAKES)
    write_desired(rig.layout, Desired.SLEEPING, "second")
    await rig.until_state(S.SLEEPING)
    rig.http.health = 503
    await rig.until_state(S.BACKOFF, 200)
    assert "health check" in str(rig.record.failure.text)


async def test_one_that_does_not_wake_is_restarted(rig) -> None:
    await ready(rig, WAKES)
    write_desired(rig.layout, Desired.SLEEPING, "second")
    await rig.until_state(S.SLEEPING)
    rig.http.nap_status = 500
    write_desired(rig.layout, Desired.RUNNING, "third")
    await rig.until_state(S.BACKOFF)
    assert "did not wake up" in str(rig.record.failure.text)
    await rig.until(lambda r: r.run_id == "run2" and r.state is S.READY)


async def test_a_start_with_the_wish_to_sleep_loads_then_sleeps(rig) -> None:
    """After a reboot the wish in the file is still the same."""
    can(rig, WAKES)
    write_desired(rig.layout, Desired.SLEEPING, "first")
    rig.start()
    await rig.until_state(S.SLEEPING)
    assert rig.seen == [S.STARTING, S.LOADING, S.READY, S.SLEEPING]
    assert "ready -> sleeping" in own_log(rig.layout)
    await asyncio.sleep(0)

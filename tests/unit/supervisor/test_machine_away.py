"""A Linux side that goes away, hangs after sleep, or comes back late; in virtual time."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from fixtures.supervision import own_log, write_desired
from twinrig.domain.errors import HostAwayError, HostError
from twinrig.domain.ports import ExitStatus
from twinrig.domain.server import ServerState
from twinrig.domain.supervision import Desired
from twinrig.messages import message

S = ServerState
AWAY = HostAwayError(message("WSL does not answer."), message("Restart WSL."))


async def ready(rig):
    write_desired(rig.layout, Desired.RUNNING)
    rig.start()
    await rig.until_state(S.READY)


async def test_a_machine_that_went_away_is_told_waited_for_and_not_looked_at(rig):
    looks = []

    async def look(age_s):
        looks.append(age_s)

    rig.parts = replace(rig.parts, look=look)
    await ready(rig)
    gone_at_s = rig.clock.now()
    rig.server.end(ExitStatus(None, machine_gone=True))
    await rig.until_state(S.BACKOFF)
    assert "WSL went away under the server" in str(rig.record.failure.text)
    assert rig.record.last_exit == "WSL went away"
    await rig.until_state(S.READY)
    assert rig.clock.now() - gone_at_s >= rig.parts.timing.gone_pause_s
    assert looks == [], "to look would start it again"
    assert rig.record.restarts == 1


async def test_a_stop_while_it_is_away_is_a_stop(rig):
    await ready(rig)
    rig.server.end(ExitStatus(None, machine_gone=True))
    await rig.until_state(S.BACKOFF)
    write_desired(rig.layout, Desired.STOPPED, "stop")
    assert await rig.end() == 0
    assert rig.record.state is S.STOPPED


async def test_a_start_that_meets_a_machine_in_work_is_tried_again(rig):
    rig.launcher.launch_error = AWAY
    write_desired(rig.layout, Desired.RUNNING)
    rig.start()
    await rig.until(lambda r: r.quick_failures == 3)
    rig.launcher.launch_error = None
    await rig.until_state(S.READY)
    assert rig.record.failure is None


async def test_it_is_not_tried_for_ever_and_the_cure_is_said(rig):
    rig.launcher.launch_error = AWAY
    write_desired(rig.layout, Desired.RUNNING)
    rig.start()
    assert await rig.end() == 1
    assert "Gave up after 5 failures" in str(rig.record.failure.text)
    assert str(rig.record.failure.next_step) == "Restart WSL."


async def test_any_other_refusal_of_the_machine_is_final_at_once(rig):
    rig.launcher.launch_error = HostError(message("There is no such distribution."))
    write_desired(rig.layout, Desired.RUNNING)
    rig.start()
    assert await rig.end() == 1
    assert rig.record.quick_failures <= 1


def deaf(rig, error=AWAY):
    """Nobody can be asked what is left; returns how to mend it."""
    original = rig.launcher.survivors

    async def survivors(_run_id):
        raise error

    rig.launcher.survivors = survivors

    def mend():
        rig.launcher.survivors = original

    return mend


async def test_what_cannot_be_looked_at_is_swept_before_the_next_launch(rig):
    await ready(rig)
    first = rig.record.run_id
    rig.launcher.orphans[first] = {50: set()}
    mend = deaf(rig)
    rig.server.end(ExitStatus(None, machine_gone=True))
    await rig.until(lambda r: r.quick_failures >= 2)
    assert len(rig.launcher.launched) == 1, "an old server may hold the cards"
    mend()
    await rig.until_state(S.READY)
    assert rig.launcher.orphans[first] == {}
    assert "cannot be looked at" in own_log(rig.layout)


async def test_a_stop_that_cannot_be_checked_does_not_claim_to_be_one(rig):
    await ready(rig)
    run_id = rig.record.run_id
    deaf(rig)
    write_desired(rig.layout, Desired.STOPPED, "stop")
    assert await rig.end() == 1
    assert rig.record.state is S.FAILED
    assert str(rig.record.failure.text) == "WSL does not answer."
    assert rig.record.run_id == run_id, "for the next supervisor"


async def test_what_an_earlier_supervisor_left_waits_for_the_machine(rig):
    await ready(rig)
    first = rig.record.run_id
    rig.task.cancel()
    await asyncio.gather(rig.task, return_exceptions=True)
    rig.lock.held = False
    rig.launcher.orphans[first] = {60: set()}
    mend = deaf(rig)
    rig.start()
    await rig.until_state(S.BACKOFF)
    assert len(rig.launcher.launched) == 1
    mend()
    await rig.until(lambda r: r.state is S.READY and r.run_id != first)
    assert rig.launcher.orphans[first] == {}


async def test_a_look_that_fails_while_it_serves_harms_nothing(rig):
    deaf(rig)
    await ready(rig)
    await rig.clock.sleep(30)
    assert rig.record.state is S.READY
    assert rig.server.signals == []


class Machine:
    """A computer that sleeps when the test says so."""

    def __init__(self, fault=None):
        self.awake = asyncio.Event()
        self.trouble = fault
        self.asked = 0

    async def woke(self):
        await self.awake.wait()
        self.awake.clear()

    async def fault(self):
        self.asked += 1
        return self.trouble


async def test_sleep_that_the_server_outlived(rig):
    machine = Machine(AWAY)
    rig.parts = replace(rig.parts, machine=machine)
    await ready(rig)
    machine.awake.set()
    await rig.clock.sleep(60)
    assert machine.asked == 0, "the server answers; nothing else is asked"
    assert rig.record.state is S.READY


async def test_sleep_that_took_the_machine_ends_in_words(rig):
    machine = Machine(AWAY)
    rig.parts = replace(rig.parts, machine=machine)
    await ready(rig)
    rig.http.health = None
    machine.awake.set()
    assert await rig.end() == 1
    assert rig.record.state is S.FAILED
    assert str(rig.record.failure.text) == "WSL does not answer."
    assert str(rig.record.failure.next_step) == "Restart WSL."


async def test_a_server_that_is_gone_though_the_machine_answers_is_a_usual_fault(rig):
    machine = Machine(None)
    rig.parts = replace(rig.parts, machine=machine)
    await ready(rig)
    rig.http.health = None
    machine.awake.set()
    await rig.until_state(S.BACKOFF)
    assert machine.asked == 1


@pytest.mark.parametrize("pause_s", [0.0, 30.0])
def test_the_pause_is_a_least_wait(rig, pause_s):
    from twinrig.supervisor.backoff import Backoff

    backoff = Backoff(rig.parts.timing)
    assert replace(backoff.after(None), pause_s=pause_s).delay_s == max(5.0, pause_s)
    for _ in range(3):
        backoff = backoff.after(None)
    assert replace(backoff, pause_s=pause_s).delay_s == max(60.0, pause_s)

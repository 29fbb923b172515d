"""The proof that a server stays: what it sees, and what it never claims."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from fixtures.controller_rig import URL, Rig, S
from twinrig.domain.errors import ConflictError, HostAwayError
from twinrig.domain.supervision import Failure
from twinrig.messages import message
from twinrig.services.persistence import PersistenceProof


class QuietHost:
    """A Linux side that may be asleep."""

    def __init__(self, asleep: bool = False) -> None:
        self.asleep = asleep
        self.calls = 0

    async def run(self, command, **_):
        self.calls += 1
        if self.asleep:
            raise HostAwayError(message("The distribution Ubuntu is asleep."))


class Bench(Rig):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.host: QuietHost | None = None
        self.kind = "windows-task"
        self.http.answers[f"{URL}/health"] = 200
        self.left: list[float] = []
        self.after: dict[int, object] = {}

    async def ready(self):
        await self.controller.start("one", "test")
        self.supervisor.say(S.READY, server_pid=77)
        self.clock.on_sleep = self.tick

    @property
    def supervisor(self):
        return self.supervisors[-1]

    def tick(self) -> None:
        seconds = round(self.clock.time_s - 1_000_000)
        act = self.after.get(seconds)
        if act is not None:
            act()
        elif self.supervisor.alive and not any(s <= seconds for s in self.after):
            self.supervisor.say(S.READY, server_pid=77)

    async def prove(self, wait_s: float = 120.0):
        proof = PersistenceProof(self.controller, self.clock, self.kind, self.host)
        return await proof.run("one", self.left.append, wait_s)


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path)


def texts(proof):
    return " ".join(map(str, (proof.text, *proof.shown, *proof.untried)))


async def test_it_stays(bench):
    bench.host = QuietHost()
    await bench.ready()
    proof = await bench.prove()
    assert proof.kept is True
    assert "120 s passed without a call into WSL" in texts(proof)
    assert "task of Windows" in texts(proof)
    assert "number 77" in texts(proof)
    assert "Not tried: signing out of Windows" in texts(proof)
    assert bench.left[0] == 120.0
    assert bench.left == sorted(bench.left, reverse=True)
    assert bench.host.calls == 1, "and only at the end"


@pytest.mark.parametrize(
    ("kind", "owner", "untried"),
    [
        ("systemd-user", "service of this system", "logging out"),
        ("detached", "process of its own", "A restart of the computer ends it"),
    ],
)
async def test_other_owners_are_named(bench, kind, owner, untried):
    bench.kind = kind
    await bench.ready()
    proof = await bench.prove()
    assert proof.kept
    assert owner in texts(proof)
    assert untried in texts(proof)
    assert "WSL" not in texts(proof)


async def test_only_a_ready_server_can_be_proven(bench):
    with pytest.raises(ConflictError, match="ready"):
        await bench.prove()
    await bench.controller.start("one", "test")
    with pytest.raises(ConflictError, match="ready"):
        await bench.prove()
    bench.supervisor.say(S.READY)
    bench.supervisor.die()
    with pytest.raises(ConflictError, match="ready"):
        await bench.prove()


async def test_an_end_is_told_with_its_cause_at_once(bench):
    await bench.ready()
    cause = Failure(message("WSL went away under the server."), message("Update WSL."))
    bench.after[30] = lambda: bench.supervisor.say(S.BACKOFF, failure=cause)
    proof = await bench.prove()
    assert proof.kept is False
    assert "WSL went away under the server." in str(proof.text)
    assert str(proof.next_step) == "Update WSL."
    assert bench.left[-1] > 80


async def test_a_restart_in_between_is_no_proof(bench):
    from dataclasses import replace

    from twinrig.files import write_atomic
    from twinrig.services.server_files import ServerFiles

    def other_run():
        record = ServerFiles(bench.layout).record("one")
        changed = replace(record, run_id="another", updated_at_s=bench.clock.now())
        write_atomic(bench.layout.state("one"), changed.to_json().encode())

    await bench.ready()
    bench.after[50] = other_run
    proof = await bench.prove()
    assert proof.kept is False
    assert "started again" in str(proof.text)


@pytest.mark.parametrize("state", [S.STOPPED, S.STOPPING, S.SLEEPING])
async def test_a_stop_in_between_says_nothing(bench, state):
    await bench.ready()
    bench.after[10] = lambda: bench.supervisor.say(state)
    proof = await bench.prove()
    assert proof.kept is None


async def test_a_supervisor_that_dies_is_seen(bench):
    await bench.ready()
    bench.after[10] = bench.supervisor.die
    proof = await bench.prove()
    assert proof.kept is False
    assert "does not report" in str(proof.text)


async def test_a_supervisor_that_dies_at_the_very_end_is_seen(bench):
    await bench.ready()
    bench.after[120] = bench.supervisor.die
    proof = await bench.prove()
    assert proof.kept is False
    assert "what kept it is gone" in str(proof.text)


async def test_a_distribution_that_fell_asleep_is_seen(bench):
    bench.host = QuietHost(asleep=True)
    await bench.ready()
    proof = await bench.prove()
    assert proof.kept is False
    assert "asleep" in str(proof.text)


async def test_a_process_that_lives_and_does_not_answer(bench):
    await bench.ready()
    bench.http.answers.clear()
    proof = await bench.prove()
    assert proof.kept is False
    assert "does not answer" in str(proof.text)


async def test_cancelling_leaves_the_server_alone(bench):
    await bench.ready()

    async def for_ever(_seconds):
        await asyncio.Event().wait()

    bench.clock.sleep = for_ever
    task = asyncio.ensure_future(bench.prove())
    await asyncio.sleep(0.05)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert bench.supervisor.alive
    assert bench.wish().desired.value == "running"

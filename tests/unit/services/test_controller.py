from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from fixtures.controller_rig import URL, Rig, S
from service_fakes import profile
from twinrig.domain.errors import (
    ConflictError,
    HostError,
    ProfileError,
    UsageError,
)
from twinrig.domain.server import ServerState
from twinrig.domain.supervision import Desired
from twinrig.files import write_atomic
from twinrig.messages import message


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


async def test_start_writes_the_wish_and_starts_one_supervisor(rig: Rig) -> None:
    await rig.controller.start("one", "panel")
    assert rig.manager.started == ["one"]
    assert (rig.wish().desired, rig.wish().requested_by) == (Desired.RUNNING, "panel")
    assert rig.supervisors[0].alive


async def test_starting_twice_is_one_server(rig: Rig) -> None:
    await rig.controller.start("one", "panel")
    first = rig.wish()
    await rig.panel().start("one", "cli")
    assert (rig.manager.started, rig.wish()) == (["one"], first)


async def test_two_panels_at_once_start_one_server(rig: Rig) -> None:
    panels = [rig.panel() for _ in range(5)]
    rig.manager.on_start = lambda name: setattr(rig.clock, "on_sleep", lambda: late(name))

    def late(name: str) -> None:
        rig.clock.on_sleep = lambda: None
        rig.run_supervisor(name)

    await asyncio.gather(*(panel.start("one", str(n)) for n, panel in enumerate(panels)))
    assert rig.manager.started == ["one"]


async def test_two_profiles_at_once_start_one_server(rig: Rig) -> None:
    panels = [rig.panel(), rig.panel()]
    results = await asyncio.gather(
        panels[0].start("one", "a"), panels[1].start("two", "b"), return_exceptions=True
    )
    assert [type(r) for r in results] == [type(None), ConflictError]
    assert "one" in str(results[1])
    assert rig.manager.started == ["one"]


async def test_another_profile_is_refused_by_name(rig: Rig) -> None:
    await rig.controller.start("one", "panel")
    with pytest.raises(ConflictError, match="The server of one"):
        await rig.panel().start("two", "cli")
    with pytest.raises(ConflictError):
        await rig.panel().restart("two", "cli")
    assert not rig.layout.desired("two").exists()


@pytest.mark.parametrize("state", [S.FAILED, S.STOPPED])
async def test_after_an_end_a_start_is_a_new_request(rig: Rig, state: ServerState) -> None:
    await rig.controller.start("one", "panel")
    first = rig.wish().request_id
    rig.supervisors[0].say(state)
    rig.supervisors[0].die()
    await rig.controller.start("one", "panel")
    assert rig.manager.started == ["one", "one"]
    assert rig.wish().request_id != first


async def test_start_while_stopping_waits_for_the_end(rig: Rig) -> None:
    await rig.controller.start("one", "panel")
    old = rig.supervisors[0]
    await rig.controller.stop("one", "panel")
    old.say(S.STOPPING)
    steps: list[int] = []

    def pass_time() -> None:
        steps.append(1)
        assert len(rig.manager.started) == 1, "started a second one beside the first"
        if len(steps) == 5:
            old.say(S.STOPPED)
            old.die()
            rig.clock.on_sleep = lambda: None

    rig.clock.on_sleep = pass_time
    await rig.controller.start("one", "panel")
    assert len(steps) == 5
    assert len(rig.supervisors) == 2
    assert rig.wish().desired is Desired.RUNNING


async def test_a_supervisor_that_never_ends_is_told(rig: Rig) -> None:
    await rig.controller.start("one", "panel")
    await rig.controller.stop("one", "panel")
    with pytest.raises(HostError, match="does not stop"):
        await rig.controller.start("one", "panel")


async def test_backoff_is_ended_by_a_start(rig: Rig) -> None:
    await rig.controller.start("one", "panel")
    first = rig.wish().request_id
    rig.supervisors[0].say(S.BACKOFF)
    await rig.controller.start("one", "panel")
    assert rig.wish().request_id != first
    assert rig.manager.started == ["one"]


async def test_a_supervisor_that_never_comes_is_told_and_no_wish_stays(rig: Rig) -> None:
    rig.manager.on_start = lambda _: None
    with pytest.raises(HostError, match="did not start") as caught:
        await rig.controller.start("one", "panel")
    assert "supervisor.log" in str(caught.value.next_step)
    assert rig.wish().desired is Desired.STOPPED


async def test_a_manager_that_fails_leaves_no_wish(rig: Rig) -> None:
    def fail(_: str) -> None:
        raise HostError(message("systemd does not answer."))

    rig.manager.on_start = fail
    with pytest.raises(HostError, match="systemd"):
        await rig.controller.start("one", "panel")
    assert rig.wish().desired is Desired.STOPPED
    rig.manager.on_start = rig.run_supervisor
    await rig.controller.start("one", "panel")


async def test_a_start_that_fails_at_once_returns_for_its_record(rig: Rig) -> None:
    def flash(name: str) -> None:
        rig.run_supervisor(name)
        rig.supervisors[-1].say(S.FAILED)
        rig.supervisors[-1].die()

    rig.manager.on_start = flash
    await rig.controller.start("one", "panel")
    got = await rig.controller.wait_for("one", {S.READY, S.FAILED}, 5)
    assert got.state is S.FAILED


async def test_faulty_profiles_do_not_start(rig: Rig) -> None:
    with pytest.raises(UsageError, match="no profile"):
        await rig.controller.start("none", "x")
    path = rig.profiles.path("one")
    path.write_text(path.read_text().replace("2048", "no"))
    with pytest.raises(ProfileError):
        await rig.controller.start("one", "x")
    rig.profiles.save(profile("far", target="wsl"))
    with pytest.raises(UsageError, match="belongs to the target wsl"):
        await rig.controller.start("far", "x")
    assert rig.manager.started == []


async def test_stop_is_a_wish_to_a_live_supervisor(rig: Rig) -> None:
    await rig.controller.start("one", "panel")
    rig.profiles.delete("one")
    await rig.controller.stop("one", "cli")
    assert rig.wish().desired is Desired.STOPPED
    assert rig.manager.started == ["one"]


@pytest.mark.parametrize("state", [S.READY, S.LOADING, S.BACKOFF, S.STOPPING])
async def test_stop_without_supervisor_starts_one_to_sweep(rig: Rig, state: ServerState) -> None:
    await rig.controller.start("one", "panel")
    rig.supervisors[0].say(state)
    rig.supervisors[0].die()
    await rig.panel().stop("one", "cli")
    assert rig.manager.started == ["one", "one"]
    assert rig.wish().desired is Desired.STOPPED


async def test_stop_when_nothing_ran_does_nothing(rig: Rig) -> None:
    await rig.controller.stop("one", "cli")
    assert rig.manager.started == []
    assert not rig.layout.desired("one").exists()


async def test_stop_after_failed_withdraws_the_wish(rig: Rig) -> None:
    await rig.controller.start("one", "panel")
    rig.supervisors[0].say(S.FAILED)
    rig.supervisors[0].die()
    await rig.controller.stop("one", "cli")
    assert rig.manager.started == ["one"]
    assert rig.wish().desired is Desired.STOPPED
    assert (await rig.controller.wait_for("one", {S.STOPPED, S.FAILED}, 5)).state is S.FAILED


async def test_restart(rig: Rig) -> None:
    await rig.controller.start("one", "panel")
    old = rig.supervisors[0]

    def obey() -> None:
        if old.alive and old.wish().desired is Desired.STOPPED:
            old.say(S.STOPPED)
            old.die()

    rig.clock.on_sleep = obey
    await rig.controller.restart("one", "panel")
    assert len(rig.supervisors) == 2
    assert rig.wish().desired is Desired.RUNNING


async def test_status_of_a_healthy_server(rig: Rig) -> None:
    await rig.controller.start("one", "panel")
    rig.supervisors[0].say(S.READY)
    rig.http.answers[URL + "/health"] = 200
    status = await rig.controller.status("one")
    assert status.record is not None
    assert (status.record.state, status.supervisor_alive, status.answering) == (S.READY, True, True)
    assert status.problem is None
    assert await rig.controller.active() == status


@pytest.mark.parametrize(
    ("code", "answers"), [(200, True), (401, True), (503, False), (None, False)]
)
async def test_dead_supervisor_is_not_hidden_by_the_record(rig: Rig, code, answers: bool) -> None:
    await rig.controller.start("one", "panel")
    rig.supervisors[0].say(S.READY)
    rig.supervisors[0].die()
    if code is not None:
        rig.http.answers[URL + "/health"] = code
    status = await rig.controller.status("one")
    assert (status.supervisor_alive, status.answering) == (False, answers)
    assert "supervisor is gone" in str(status.problem)
    assert ("still answers" in str(status.problem)) is answers
    assert (await rig.controller.active()) == status


async def test_an_answering_orphan_of_another_profile_is_not_doubled(rig: Rig) -> None:
    await rig.controller.start("one", "panel")
    rig.supervisors[0].say(S.READY)
    rig.supervisors[0].die()
    rig.http.answers[URL + "/health"] = 200
    with pytest.raises(ConflictError, match="one still runs"):
        await rig.controller.start("two", "panel")
    await rig.controller.start("one", "panel")
    assert rig.manager.started == ["one", "one"]


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\x00", b"[]", b"x" * 5_000_000, b"[" * 9999])
async def test_damaged_state_is_a_problem_not_a_crash(rig: Rig, content: bytes) -> None:
    await rig.controller.start("one", "panel")
    path = rig.layout.state("one")
    path.write_bytes(content)
    status = await rig.controller.status("one")
    assert (status.record, status.supervisor_alive) == (None, True)
    assert "state.json" in str(status.problem)
    assert path.read_bytes() == content
    assert await rig.controller.active_record() is None
    await rig.controller.stop("one", "panel")
    assert rig.wish().desired is Desired.STOPPED


async def test_newer_state_is_told(rig: Rig) -> None:
    await rig.controller.start("one", "panel")
    path = rig.layout.state("one")
    path.write_text(path.read_text().replace('"schema_version": 1', '"schema_version": 9'))
    assert "newer" in str((await rig.controller.status("one")).problem)


async def test_damaged_wish_is_replaced(rig: Rig) -> None:
    rig.layout.desired("one").parent.mkdir(parents=True)
    rig.layout.desired("one").write_bytes(b"\xff")
    await rig.controller.start("one", "panel")
    assert rig.wish().desired is Desired.RUNNING


async def test_status_of_a_stopped_server_asks_nobody(rig: Rig) -> None:
    status = await rig.controller.status("one")
    assert (status.record, status.supervisor_alive, status.answering) == (None, False, None)
    await rig.controller.start("one", "panel")
    rig.supervisors[0].say(S.STOPPED)
    rig.supervisors[0].die()
    assert (await rig.controller.status("one")).answering is None
    assert rig.http.asked == []
    assert await rig.controller.active() is None


async def test_active_record_order(rig: Rig) -> None:
    assert await rig.controller.active_record() is None
    await rig.controller.start("one", "panel")
    one = rig.supervisors[0]
    one.say(S.FAILED)
    one.die()
    got = await rig.controller.active_record()
    assert got is not None
    assert (got.profile_id, got.state) == ("one", S.FAILED)
    await rig.controller.start("two", "panel")
    rig.clock.time_s += 5
    got = await rig.controller.active_record()
    assert got is not None
    assert got.profile_id == "two"
    rig.supervisors[1].say(S.READY)
    rig.supervisors[1].die()
    got = await rig.controller.active_record()
    assert got is not None
    assert (got.profile_id, got.state) == ("two", S.READY)
    assert rig.http.asked == []


async def test_wait_for_ignores_the_record_of_an_earlier_run(rig: Rig) -> None:
    await rig.controller.start("one", "panel")
    rig.supervisors[0].say(S.FAILED, request_id="earlier")
    steps: list[int] = []

    def later() -> None:
        steps.append(1)
        if len(steps) == 3:
            rig.supervisors[0].say(S.READY)

    rig.clock.on_sleep = later
    got = await rig.controller.wait_for("one", {S.READY, S.FAILED}, 60)
    assert got.state is S.READY


async def test_wait_for_gives_up(rig: Rig) -> None:
    await rig.controller.start("one", "panel")
    with pytest.raises(HostError, match="in time"):
        await rig.controller.wait_for("one", {S.READY}, 5)
    rig.supervisors[0].die()
    before = rig.clock.now()
    with pytest.raises(HostError, match="is gone"):
        await rig.controller.wait_for("one", {S.READY}, 1000)
    assert rig.clock.now() - before < 30


async def test_autostart(rig: Rig) -> None:
    await rig.controller.set_autostart("one", True)
    assert (await rig.controller.status("one")).autostart is True
    asked = rig.manager.asked
    await rig.controller.status("one")
    assert rig.manager.asked == asked
    await rig.controller.set_autostart("one", False)
    assert (await rig.controller.status("one")).autostart is False
    with pytest.raises(UsageError):
        await rig.controller.set_autostart("none", True)
    await rig.controller.set_autostart("none", False)


async def test_log(rig: Rig) -> None:
    assert rig.controller.read_log("one").text == ""
    path = rig.layout.log("one")
    path.parent.mkdir(parents=True)
    path.write_text("hello\n")
    assert rig.controller.read_log("one").text == "hello\n"
    with pytest.raises(UsageError):
        rig.controller.read_log("../../etc/passwd")


async def test_a_wish_that_cannot_be_written(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(HostError, match="No space left"):
        await rig.controller.start("one", "panel")
    assert rig.manager.started == []


async def test_records_are_read_again_only_when_changed(rig: Rig) -> None:
    await rig.controller.start("one", "panel")
    first = await rig.controller.active_record()
    assert await rig.controller.active_record() is first
    assert first is not None
    write_atomic(rig.layout.state("one"), replace(first, state=S.READY).to_json().encode())
    second = await rig.controller.active_record()
    assert second is not None
    assert second.state is S.READY


# -- freeing the cards -------------------------------------------------------------------------


async def test_a_server_that_can_sleep_is_asked_to(rig: Rig) -> None:
    await rig.controller.start("one", "panel")
    rig.supervisors[0].say(S.READY, can_sleep=True)
    assert await rig.controller.free("one", "panel") is S.SLEEPING
    assert rig.wish().desired is Desired.SLEEPING
    rig.supervisors[0].say(S.SLEEPING, can_sleep=True)
    await rig.controller.start("one", "panel")
    assert rig.wish().desired is Desired.RUNNING and rig.manager.started == ["one"]


async def test_one_that_cannot_is_stopped(rig: Rig) -> None:
    await rig.controller.start("one", "panel")
    rig.supervisors[0].say(S.READY)
    assert await rig.controller.free("one", "panel") is S.STOPPED
    assert rig.wish().desired is Desired.STOPPED


async def test_load_again_wakes_before_the_wish_to_sleep_was_seen(rig: Rig) -> None:
    await rig.controller.start("one", "panel")
    rig.supervisors[0].say(S.READY, can_sleep=True)
    await rig.controller.free("one", "panel")
    await rig.panel().start("one", "cli")
    assert rig.wish().desired is Desired.RUNNING


@pytest.mark.parametrize("state", [S.STARTING, S.LOADING, S.BACKOFF, S.STOPPING, S.FAILED])
async def test_nothing_is_freed_while_nothing_is_loaded(rig: Rig, state: ServerState) -> None:
    await rig.controller.start("one", "panel")
    rig.supervisors[0].say(state, can_sleep=True)
    before = rig.wish()
    with pytest.raises(UsageError, match="holds no card"):
        await rig.controller.free("one", "panel")
    assert rig.wish() == before
    with pytest.raises(UsageError):
        await rig.controller.free("two", "panel")

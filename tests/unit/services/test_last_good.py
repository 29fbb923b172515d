"""The settings that worked: remembered, told apart, gone back to; and what goes back by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from fixtures.controller_rig import Rig
from twinrig.domain.errors import ProfileError, UsageError
from twinrig.domain.profile import EngineRef, EnvEntry
from twinrig.domain.server import ServerState
from twinrig.domain.supervision import Desired, Failure
from twinrig.files import previous_path
from twinrig.messages import message
from twinrig.services.last_good import LastGood, SettingChange
from twinrig.services.switching import Switching

S = ServerState
BROKEN = Failure(message("The card is full."), message("Use less."))


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


@pytest.fixture
def good(rig: Rig) -> LastGood:
    return LastGood(rig.layout, rig.profiles)


@pytest.fixture
def switching(rig: Rig, good: LastGood) -> Switching:
    return Switching(rig.controller, rig.profiles, good, "local")


def change(rig: Rig, **changes: object) -> None:
    before = rig.profiles.load("one")
    rig.profiles.save(replace(before, **changes), replaces=before)  # type: ignore[arg-type]


def test_nothing_is_offered_before_a_start_worked(rig: Rig, good: LastGood) -> None:
    change(rig, settings={"context_length": 4096})
    assert good.changes("one") == ()
    with pytest.raises(UsageError, match="no other settings"):
        good.restore("one")


def test_each_difference_is_told_and_gone_back_to(rig: Rig, good: LastGood) -> None:
    worked = rig.profiles.load("one")
    good.remember(worked)
    assert good.changes("one") == ()
    change(
        rig,
        name="Renamed",
        settings={"context_length": 9000, "skip": ("a", "b")},
        env={"NCCL_DEBUG": EnvEntry("INFO")},
        extra={"x": True},
        engine=EngineRef("fake", "", "2.0"),
    )
    assert good.changes("one") == (
        SettingChange("env.NCCL_DEBUG", "", "INFO"),
        SettingChange("extra.x", "", "true"),
        SettingChange("settings.context_length", "2048", "9000"),
        SettingChange("settings.skip", "", "[a, b]"),
    )
    restored = good.restore("one")
    assert restored == replace(worked, name="Renamed", engine=EngineRef("fake", "", "2.0"))
    assert rig.profiles.load("one") == restored
    assert previous_path(rig.profiles.path("one")).exists(), "the change can be brought back"
    assert rig.profiles.restore_previous("one").settings["context_length"] == 9000


@pytest.mark.parametrize("text", ["", "not: [yaml", "\x00\xff", "schema_version: 99\n"])
def test_a_damaged_memory_is_no_memory(rig: Rig, good: LastGood, text: str) -> None:
    good.remember(rig.profiles.load("one"))
    rig.layout.last_good("one").write_text(text, errors="surrogateescape")
    assert good.changes("one") == ()


def test_a_profile_that_cannot_be_read_any_more_is_gone_back_from(rig: Rig, good: LastGood) -> None:
    good.remember(rig.profiles.load("one"))
    path = rig.profiles.path("one")
    path.write_text(path.read_text().replace("2048", '"many"'))
    assert [c.name for c in good.changes("one")] == ["settings.context_length"]
    good.restore("one")
    assert rig.profiles.load("one").settings == {"context_length": 2048}


def play(rig: Rig, *states: ServerState, failure: Failure | None = None) -> Callable[[], None]:
    """Supervisors of the next starts, in turn: each ends in one of these states, and stops when
    it is asked to."""
    ends = list(states)

    def act() -> None:
        supervisor = rig.supervisors[-1] if rig.supervisors else None
        if supervisor is None or not supervisor.alive:
            return
        if supervisor.wish().desired is Desired.STOPPED:
            supervisor.say(S.STOPPED)
            supervisor.die()
        elif len(rig.supervisors) <= len(ends):
            state = ends[len(rig.supervisors) - 1]
            bad = failure if state is not S.READY else None
            supervisor.say(state, failure=bad)
            if state is S.FAILED:
                supervisor.die()

    rig.clock.on_sleep = act
    return act


async def run_ready(rig: Rig, act: Callable[[], None]) -> None:
    await rig.controller.start("one", "test")
    act()


async def test_a_restart_with_changed_settings_that_fail_goes_back(
    rig: Rig, good: LastGood, switching: Switching
) -> None:
    good.remember(rig.profiles.load("one"))
    act = play(rig, S.READY, S.FAILED, S.READY, failure=BROKEN)
    await run_ready(rig, act)
    change(rig, settings={"context_length": 900_000})
    done = await asyncio.wait_for(switching.restart("one", "test"), 30)
    assert done.went_back
    assert done.failure is not None and done.failure.text == BROKEN.text
    assert [c.name for c in done.changes] == ["settings.context_length"]
    assert rig.profiles.load("one").settings == {"context_length": 2048}
    assert rig.manager.started == ["one", "one", "one"]
    assert rig.wish().desired is Desired.RUNNING


async def test_a_first_crash_is_enough_for_changed_settings(
    rig: Rig, good: LastGood, switching: Switching
) -> None:
    good.remember(rig.profiles.load("one"))
    act = play(rig, S.READY, S.BACKOFF, S.READY, failure=BROKEN)
    await run_ready(rig, act)
    change(rig, settings={"context_length": 900_000})
    assert (await asyncio.wait_for(switching.restart("one", "test"), 30)).went_back


async def test_unchanged_settings_are_never_put_back(
    rig: Rig, good: LastGood, switching: Switching
) -> None:
    good.remember(rig.profiles.load("one"))
    act = play(rig, S.READY, S.FAILED, failure=BROKEN)
    await run_ready(rig, act)
    done = await switching.restart("one", "test")
    assert (done.went_back, done.changes) == (False, ())
    assert len(rig.manager.started) == 2


async def test_changes_of_a_server_that_did_not_run_are_left_alone(
    rig: Rig, good: LastGood, switching: Switching
) -> None:
    good.remember(rig.profiles.load("one"))
    play(rig, S.FAILED, failure=BROKEN)
    change(rig, settings={"context_length": 900_000})
    done = await switching.restart("one", "test")
    assert not done.went_back
    assert rig.profiles.load("one").settings == {"context_length": 900_000}


async def test_changed_settings_that_work_stay(
    rig: Rig, good: LastGood, switching: Switching
) -> None:
    good.remember(rig.profiles.load("one"))
    act = play(rig, S.READY, S.READY)
    await run_ready(rig, act)
    change(rig, settings={"context_length": 4096})
    done = await switching.restart("one", "test")
    assert not done.went_back and done.changes
    assert rig.profiles.load("one").settings == {"context_length": 4096}


async def test_switch_stops_what_runs_then_starts(rig: Rig, switching: Switching) -> None:
    act = play(rig, S.READY, S.READY)
    await run_ready(rig, act)
    assert await switching.running("two") == "one"
    assert await switching.running("one") == ""
    assert await asyncio.wait_for(switching.switch("two", "test"), 30) == "one"
    assert rig.wish("one").desired is Desired.STOPPED
    assert rig.wish("two").desired is Desired.RUNNING
    assert rig.manager.started == ["one", "two"]


async def test_switch_with_nothing_running_is_a_start(rig: Rig, switching: Switching) -> None:
    assert await switching.switch("two", "test") == ""
    assert rig.manager.started == ["two"]


async def test_a_profile_that_cannot_start_stops_nothing(rig: Rig, switching: Switching) -> None:
    act = play(rig, S.READY)
    await run_ready(rig, act)
    path = rig.profiles.path("two")
    path.write_text(path.read_text().replace("2048", '"many"'))
    with pytest.raises(ProfileError):
        await switching.switch("two", "test")
    path.write_text(path.read_text().replace('"many"', "2048").replace('"local"', '"demo"'))
    with pytest.raises(UsageError, match="belongs to the target demo"):
        await switching.switch("two", "test")
    with pytest.raises(UsageError, match="no profile"):
        await switching.switch("three", "test")
    assert rig.wish("one").desired is Desired.RUNNING

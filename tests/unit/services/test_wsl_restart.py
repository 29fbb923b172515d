"""A restart of WSL: nothing is stopped hard, and whatever happens the server comes back."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from fixtures.memory_host import FakeClock, host_error
from fixtures.windows_side import MemoryWsl
from twinrig.domain.errors import HostError
from twinrig.domain.fixes import RestartWslStep
from twinrig.domain.server import ServerState
from twinrig.services.wsl_restart import Impact, RestartSteps, WslRestart


@dataclass
class Record:
    profile_id: str
    state: ServerState


class Servers:
    """One server, in the order in which it is told things."""

    def __init__(self, wsl: MemoryWsl, state: ServerState | None = ServerState.READY) -> None:
        self.wsl = wsl
        self.state = state
        self.stuck = False

    async def active_record(self) -> Record | None:
        return None if self.state is None else Record("big", self.state)

    async def stop(self, profile_id: str, requested_by: str) -> None:
        self.wsl.calls.append(f"stop {profile_id} for {requested_by}")

    async def wait_for(
        self, profile_id: str, states: frozenset[ServerState], timeout_s: float
    ) -> Record:
        if self.stuck:
            raise host_error("it did not get there in time")
        assert ServerState.STOPPED in states
        self.wsl.calls.append("stopped")
        return Record(profile_id, ServerState.STOPPED)

    async def start(self, profile_id: str, requested_by: str) -> None:
        self.wsl.calls.append(f"start {profile_id}")


def made(
    state: ServerState | None = ServerState.READY, distro: str = ""
) -> tuple[WslRestart, MemoryWsl, Servers, FakeClock]:
    wsl = MemoryWsl("Ubuntu-24.04", "docker-desktop")
    servers, clock = Servers(wsl, state), FakeClock()
    return WslRestart(wsl, servers, clock, distro), wsl, servers, clock  # type: ignore[arg-type]


async def test_what_stops_is_told_before() -> None:
    restart, wsl, _, _ = made()

    assert await restart.impact() == Impact("big", ("Ubuntu-24.04", "docker-desktop"))
    assert await restart.impact(whole=False) == Impact("big", ("Ubuntu-24.04",))
    assert wsl.calls == []


async def test_the_server_is_stopped_gently_and_started_again() -> None:
    restart, wsl, _, _ = made()
    wsl.stubborn = 5

    assert await restart.run() == "big"
    assert wsl.calls == ["stop big for wsl-restart", "stopped", "shutdown", "start big"]


async def test_one_distribution_leaves_the_others_alone() -> None:
    restart, wsl, _, _ = made(distro="ubuntu-24.04")
    await restart.run(whole=False)

    assert "terminate Ubuntu-24.04" in wsl.calls and "shutdown" not in wsl.calls


@pytest.mark.parametrize("state", [None, ServerState.STOPPED, ServerState.FAILED])
async def test_a_server_that_did_not_run_is_not_started(state: ServerState | None) -> None:
    restart, wsl, _, _ = made(state)

    assert await restart.run() == ""
    assert wsl.calls == ["shutdown"]


async def test_a_server_that_does_not_stop_keeps_its_wsl() -> None:
    restart, wsl, servers, _ = made()
    servers.stuck = True
    with pytest.raises(HostError):
        await restart.run()

    assert "shutdown" not in wsl.calls


async def test_a_wsl_that_does_not_stop_gets_its_server_back() -> None:
    restart, wsl, _, clock = made()
    wsl.stubborn = 10_000
    before = clock.monotonic()
    with pytest.raises(HostError) as caught:
        await restart.run()

    assert wsl.calls[-1] == "start big"
    assert clock.monotonic() - before >= 60
    assert "Restart Windows" in str(caught.value.next_step)


async def test_a_wsl_that_refuses_gets_its_server_back() -> None:
    restart, wsl, _, _ = made()
    wsl.error = host_error("WSL hangs")
    with pytest.raises(HostError):
        await restart.run()

    assert wsl.calls[-1] == "start big"


class HungWsl(MemoryWsl):
    """Lists hang until a shutdown has cured them."""

    async def running(self) -> frozenset[str]:
        if "shutdown" not in self.calls:
            raise host_error("WSL hangs")
        return await super().running()


async def test_a_wsl_that_hangs_is_cured_even_if_its_server_does_not_stop() -> None:
    wsl = HungWsl("Ubuntu-24.04")
    servers = Servers(wsl)
    servers.stuck = True
    restart = WslRestart(wsl, servers, FakeClock(), "")  # type: ignore[arg-type]

    assert await restart.impact() == Impact("big", None)
    assert "# stops: ?" in (await RestartSteps(restart).preview(RestartWslStep())).text
    assert await restart.run() == "big"
    assert wsl.calls == ["stop big for wsl-restart", "shutdown", "start big"]


async def test_as_a_step_it_shows_everything_that_stops() -> None:
    restart, _, _, _ = made()
    steps = RestartSteps(restart)
    preview = await steps.preview(RestartWslStep())

    assert preview.text.splitlines() == [
        "twinrig stop big",
        "wsl --shutdown",
        "# stops: Ubuntu-24.04, docker-desktop",
        "twinrig start big",
    ]
    record = await steps.record(RestartWslStep(whole=False))
    assert "wsl --terminate Ubuntu-24.04" in record.text and "docker" not in record.text


async def test_without_windows_the_step_says_what_to_do() -> None:
    with pytest.raises(HostError) as caught:
        await RestartSteps(None).preview(RestartWslStep())

    assert "wsl --shutdown" in str(caught.value.next_step)

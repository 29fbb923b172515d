"""A restart of WSL on the double: what is told, what stops, and that Linux answers afterwards."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fixtures.windows_computer import Computer, windows_computer
from twinrig.domain.supervision import ServerRecord
from twinrig.hosts.clock import SystemClock
from twinrig.services.wsl_restart import WslRestart

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the double stands in for Windows")


class NoServer:
    """A target whose server does not run."""

    async def active_record(self) -> ServerRecord | None:
        return None


@pytest.fixture
def computer(tmp_path: Path) -> Iterator[Computer]:
    with windows_computer(tmp_path, clock=1.0) as made:
        yield made


def restart(computer: Computer, distro: str = "") -> WslRestart:
    return WslRestart(computer.distros, NoServer(), SystemClock(), distro)  # type: ignore[arg-type]


async def wake(computer: Computer, *names: str) -> None:
    for name in names:
        done = await computer.host(name).run(("true",), timeout_s=30.0)
        assert done.returncode == 0


async def test_looking_wakes_nothing(computer: Computer) -> None:
    assert (await restart(computer).impact()).distros == ()
    assert await computer.distros.running() == frozenset()


async def test_all_distributions_stop_and_the_own_one_starts_again(computer: Computer) -> None:
    computer.store.add("docker-desktop")
    await wake(computer, "Ubuntu", "docker-desktop")
    made = restart(computer)

    assert (await made.impact()).distros == ("Ubuntu", "docker-desktop")
    await made.run()
    assert await computer.distros.running() == frozenset()
    await wake(computer, "Ubuntu")


async def test_one_distribution_stops_alone(computer: Computer) -> None:
    computer.store.add("Debian")
    await wake(computer, "Ubuntu", "Debian")
    await restart(computer, "debian").run(whole=False)

    assert await computer.distros.running() == frozenset({"Ubuntu"})


async def test_a_restart_is_the_cure_of_a_wsl_that_hangs(computer: Computer) -> None:
    await wake(computer, "Ubuntu")
    computer.store.flag("hang_all")

    assert (await restart(computer).impact()).distros is None
    await restart(computer).run()
    await wake(computer, "Ubuntu")

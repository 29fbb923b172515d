"""From the request to a supervisor that works on it, and how a failure of that is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.controller_rig import Rig, S
from twinrig.domain.errors import DamagedFileError, HostError
from twinrig.domain.supervision import Desired
from twinrig.files import write_atomic


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


async def test_a_supervisor_that_dies_at_once_is_told_at_once_with_its_last_line(rig: Rig) -> None:
    output = rig.layout.root / "supervisor-output.log"
    write_atomic(output, b"ValueError: of another day\n")

    def die(_profile_id: str) -> None:
        with output.open("a") as handle:
            handle.write("Traceback ...\nModuleNotFoundError: No module named 'yaml'\n\n")

    rig.manager.on_start = die
    rig.manager.running = False
    begun = rig.clock.now()
    with pytest.raises(HostError, match="ended at once: ModuleNotFoundError") as caught:
        await rig.controller.start("one", "panel")
    assert rig.clock.now() - begun < 1.0
    assert "supervisor-output.log" in str(caught.value.next_step)
    assert rig.wish().desired is Desired.STOPPED


async def test_an_old_line_is_not_given_as_the_reason(rig: Rig) -> None:
    write_atomic(rig.layout.root / "supervisor-output.log", b"ValueError: of another day\n")
    rig.manager.on_start = lambda _: None
    rig.manager.running = False
    with pytest.raises(HostError, match="did not start"):
        await rig.controller.start("one", "panel")


async def test_a_supervisor_that_takes_its_time_is_waited_for(rig: Rig) -> None:
    rig.manager.on_start = lambda _: None
    rig.manager.running = True
    later = rig.clock.now() + 20

    def act() -> None:
        if rig.clock.now() >= later and not rig.supervisors:
            rig.run_supervisor("one")

    rig.clock.on_sleep = act
    await rig.controller.start("one", "panel")
    assert rig.supervisors[0].alive


async def test_a_quick_supervisor_that_is_gone_already_is_no_failure(rig: Rig) -> None:
    def come_and_go(profile_id: str) -> None:
        rig.run_supervisor(profile_id)
        rig.supervisors[-1].say(S.STOPPED)
        rig.supervisors[-1].die()

    rig.manager.on_start = come_and_go
    rig.manager.running = False
    await rig.controller.start("one", "panel")


@pytest.mark.parametrize("damage", [b"", b"\x00\xff", b'{"schema_version": 99}'])
async def test_a_damaged_record_is_waited_out_while_a_supervisor_is_at_work(
    rig: Rig, damage: bytes
) -> None:
    await rig.controller.start("one", "panel")
    rig.layout.state("one").write_bytes(damage)
    rig.clock.on_sleep = lambda: rig.supervisors[0].say(S.READY)
    assert (await rig.controller.wait_for("one", {S.READY}, 30)).state is S.READY


async def test_a_damaged_record_that_nobody_mends_is_told(rig: Rig) -> None:
    await rig.controller.start("one", "panel")
    rig.layout.state("one").write_bytes(b"{")
    with pytest.raises(DamagedFileError, match=r"state\.json"):
        await rig.controller.wait_for("one", {S.READY}, 5)
    rig.supervisors[0].die()
    with pytest.raises(DamagedFileError, match=r"state\.json"):
        await rig.controller.wait_for("one", {S.READY}, 500)

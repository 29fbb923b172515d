"""The same server back after a restart of the computer: said only when it is so."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from fixtures.supervision import write_desired
from twinrig.domain.server import ServerState
from twinrig.domain.supervision import Desired
from twinrig.supervisor.previous_run import SAME_BOOT_S

S = ServerState
BOOT_S = 900_000.0


def booted(rig, at_s: float | None) -> None:
    rig.parts = replace(rig.parts, boot_at_s=lambda: at_s)


async def killed(rig) -> None:
    """Power failure: nothing is tidied up."""
    rig.task.cancel()
    await asyncio.gather(rig.task, return_exceptions=True)
    rig.lock.held = False
    rig.http.health = None


async def first_run(rig) -> None:
    booted(rig, BOOT_S)
    write_desired(rig.layout, Desired.RUNNING, "first")
    rig.start()
    await rig.until_state(S.READY)
    assert not rig.record.back_after_reboot and rig.record.boot_at_s == BOOT_S


async def test_a_server_that_came_back_by_itself(rig) -> None:
    await first_run(rig)
    await killed(rig)
    booted(rig, BOOT_S + 3600)
    rig.start()
    await rig.until(lambda r: r.run_id == "run2" and r.state is S.READY)
    assert rig.record.back_after_reboot


@pytest.mark.parametrize("moved_s", [0.0, SAME_BOOT_S - 1, -7200.0])
async def test_a_supervisor_that_died_is_no_reboot_nor_is_a_corrected_clock(rig, moved_s) -> None:
    await first_run(rig)
    await killed(rig)
    booted(rig, BOOT_S + moved_s)
    rig.start()
    await rig.until(lambda r: r.run_id == "run2" and r.state is S.READY)
    assert not rig.record.back_after_reboot


async def test_one_that_the_user_started_is_not_back_by_itself(rig) -> None:
    await first_run(rig)
    await killed(rig)
    booted(rig, BOOT_S + 3600)
    write_desired(rig.layout, Desired.RUNNING, "second")
    rig.start()
    await rig.until(lambda r: r.run_id == "run2" and r.state is S.READY)
    assert not rig.record.back_after_reboot


async def test_without_a_time_of_boot_nothing_is_said(rig) -> None:
    await first_run(rig)
    await killed(rig)
    booted(rig, None)
    rig.start()
    await rig.until(lambda r: r.run_id == "run2" and r.state is S.READY)
    assert not rig.record.back_after_reboot

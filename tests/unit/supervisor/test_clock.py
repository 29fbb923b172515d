"""A Linux that wakes from sleep sets its clock, by hours."""

from __future__ import annotations

import pytest

from twinrig.domain.ports import ExitStatus
from twinrig.domain.server import ServerState as S


@pytest.mark.parametrize("by_s", [-86_400.0, 86_400.0])
async def test_a_clock_that_is_set_decides_nothing(rig, by_s):
    rig.start()
    await rig.until(lambda r: r.state is S.READY and r.run_id == "run1")
    await rig.clock.sleep(100)
    rig.clock.set_clock(by_s)
    await rig.clock.sleep(200)
    assert (rig.record.state, rig.record.restarts) == (S.READY, 0)
    rig.server.end(ExitStatus(1))
    await rig.until_state(S.BACKOFF)
    assert rig.record.quick_failures == 0, "it served for five minutes"
    before_s = rig.clock.monotonic()
    await rig.until(lambda r: r.state is S.READY and r.run_id == "run2")
    rig.clock.set_clock(-by_s)
    await rig.clock.sleep(30)
    rig.server.end(ExitStatus(1))
    await rig.until_state(S.BACKOFF)
    assert rig.record.quick_failures == 1, "it served for half a minute"
    assert rig.clock.monotonic() - before_s < 120

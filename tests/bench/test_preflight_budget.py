"""Budget of the design: all cheap checks on the local target in at most 3 s, in one call."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from fixtures.standard_machine import PROFILE
from twinrig.checks.registry import CHECKS
from twinrig.domain.checks import Cost
from twinrig.domain.install import EngineInstall
from twinrig.hosts.clock import SystemClock
from twinrig.hosts.local.host import LocalHost
from twinrig.services.preflight import Preflight, is_about

BUDGET_S = 3.0
EXPECTED = [c.id for c in CHECKS if c.cost is Cost.CHEAP and is_about(c, PROFILE)]


class NoEngine:
    """The search for engines is not what is measured."""

    async def find(self, engine_id: str, environment: str = "") -> tuple[EngineInstall, ...]:
        return ()


@pytest.mark.bench
@pytest.mark.skipif(sys.platform != "linux", reason="the probes are for Linux")
async def test_cheap_checks_of_this_computer(tmp_path: Path) -> None:
    preflight = Preflight(LocalHost(dict(os.environ)), CHECKS, NoEngine(), SystemClock())
    times: list[float] = []
    for _ in range(3):
        started = time.perf_counter()
        results = [result async for result in preflight.run(PROFILE)]
        times.append(time.perf_counter() - started)
        assert [r.check_id for r in results] == EXPECTED

    best = min(times)
    print(f"preflight, cheap checks: {best:.2f} s of {BUDGET_S} s")
    assert best <= BUDGET_S

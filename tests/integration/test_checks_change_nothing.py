"""No check changes anything: files, times, processes, shared memory and kernel settings before and
after all of them, the slow ones too; and the cheap ones together are one call."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from fixtures.scenario_rig import Scenario, ScenarioRig
from fixtures.stand_in_engine import processes_of
from twinrig.checks.registry import CHECKS
from twinrig.domain.checks import Cost, Status
from twinrig.domain.windows import WINDOWS_PROBES
from twinrig.services.preflight import is_about

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the machines are Linux sides")
SCENARIOS = [
    Scenario("vllm", nccl={}, native=True),
    Scenario("tabbyapi", engine="tabbyapi", nccl={}, native=True),
    Scenario("broken", nccl={"fault": "error", "text": "unhandled cuda error"}, native=True),
]


def everything(rig: ScenarioRig) -> dict[str, tuple[Any, ...]]:
    """Type, mode, size, time and content of all that the machine consists of."""
    found = {}
    for path in sorted(rig.machine.folder.rglob("*")):
        info = path.lstat()
        data = path.read_bytes() if path.is_file() else b""
        # Reading may touch the access time; nothing may touch the others.
        found[str(path)] = info.st_mode, info.st_size, info.st_mtime_ns, info.st_ctime_ns, data
    return found


def kernel_settings() -> dict[str, str]:
    """Real ones that a fix of ours could change."""
    names = ("kernel/yama/ptrace_scope", "vm/overcommit_memory", "kernel/shmmax")
    paths = [Path("/proc/sys") / name for name in names]
    return {str(path): path.read_text() for path in paths if path.exists()}


def shared_memory() -> set[str]:
    return {path.name for path in Path("/dev/shm").glob("nccl-*")}


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.name)
async def test_all_checks_leave_everything_as_it_was(scenario: Scenario, tmp_path: Path) -> None:
    rig = ScenarioRig(tmp_path, scenario)
    profile = rig.profile
    about = [check for check in CHECKS if is_about(check, profile)]
    before = everything(rig), kernel_settings(), shared_memory(), processes_of(tmp_path)
    results = [r async for r in rig.preflight.run(profile, [check.id for check in about])]

    assert len(results) == len(about)
    judged = [r for r in results if r.status in (Status.PASS, Status.WARN, Status.FAIL)]
    assert len(judged) >= 25, "most of them must have looked"
    assert {"collective", "native-import"} <= {r.check_id for r in judged}
    after = everything(rig), kernel_settings(), shared_memory(), processes_of(tmp_path)
    assert after == before


async def test_cheap_checks_share_one_call_to_the_linux_side(tmp_path: Path) -> None:
    rig = ScenarioRig(tmp_path, SCENARIOS[0])
    calls: list[object] = []
    real = rig.host.run

    async def count(command: Any, **how: Any) -> Any:
        calls.append(command)
        return await real(command, **how)

    rig.host.run = count  # type: ignore[method-assign]
    results = [r async for r in rig.preflight.run(rig.profile)]

    cheap = [c for c in CHECKS if c.cost is Cost.CHEAP and is_about(c, rig.profile)]
    assert [r.check_id for r in results] == [c.id for c in cheap] and len(cheap) >= 35
    assert len(calls) == 1
    names = {n for c in cheap for n in c.probes if n not in WINDOWS_PROBES}
    (script,) = calls
    assert names <= set(script.args[1].split())  # type: ignore[attr-defined]

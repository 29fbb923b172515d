"""The collective program on a real torch: two processes on gloo; on NCCL where cards are.

``TWINRIG_TORCH_PYTHON`` names a Python that has torch, else that of ``TWINRIG_REAL_VLLM`` serves.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from real.torch_python import PYTHON, needs_torch
from twinrig import assets
from twinrig.checks.collective import judge
from twinrig.domain.checks import Facts, ProbeOutput, Status
from twinrig.domain.collective import CollectiveReport, step_plans
from twinrig.hosts.local.host import LocalHost
from twinrig.services.collective import CollectiveProgram, CollectiveRequest, dump

pytestmark = [pytest.mark.real, needs_torch, pytest.mark.timeout(600)]


def cards() -> int:
    probe = "import torch; print(torch.cuda.device_count())"
    done = subprocess.run([PYTHON, "-c", probe], capture_output=True, text=True, timeout=120)
    return int(done.stdout) if done.returncode == 0 else 0


async def run(tmp_path: Path, **changes: object) -> CollectiveReport:
    host = LocalHost({**os.environ, "TMPDIR": str(tmp_path)})
    request = CollectiveRequest(PYTHON, **changes)  # type: ignore[arg-type]
    return await CollectiveProgram(host, assets.read_text).run(request)


async def test_two_processes_on_gloo_exchange_right_values(tmp_path: Path) -> None:
    report = await run(tmp_path, backend="gloo", step_s=60.0)

    assert report.passed, report.complaints
    assert len(report.steps) == len(step_plans())
    assert report.speed_mbps is not None and report.speed_mbps > 0
    assert list(tmp_path.iterdir()) == []


async def test_one_rank_on_nccl(tmp_path: Path) -> None:
    if cards() < 1:
        pytest.skip("no card")
    report = await run(tmp_path, world=1, devices=(0,), peers=False)
    assert report.passed, report.complaints


async def test_two_ranks_on_one_card_are_told_at_once(tmp_path: Path) -> None:
    if cards() < 1:
        pytest.skip("no card")
    report = await run(tmp_path, devices=(0, 0), peers=False)
    facts = Facts({"collective": ProbeOutput("collective", 0, dump(report))})
    result = judge(facts)

    assert report.ended == "failed"
    assert result.status is Status.FAIL and result.finding is not None
    assert result.finding.id == "nccl-duplicate-gpu"

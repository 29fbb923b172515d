"""The replacement of exllamav3's gather on a real torch: gloo, two and three processes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from real.torch_python import PYTHON, needs_torch
from twinrig import assets

pytestmark = [pytest.mark.real, needs_torch, pytest.mark.timeout(300)]
RANKS = Path(__file__).with_name("gather_ranks.py")


@pytest.mark.parametrize("world", [2, 3])
def test_columns_arrive_exactly_where_they_belong(world: int, tmp_path: Path) -> None:
    patch = assets.resource_path("patches/twinrig_exl3_gather.py")
    ranks = [
        subprocess.Popen(
            [PYTHON, str(RANKS), str(rank), str(world), str(tmp_path / "meeting"), str(patch)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "GLOO_SOCKET_IFNAME": "lo"},
            text=True,
        )
        for rank in range(world)
    ]
    try:
        told = [rank.communicate(timeout=240) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    for rank, (out, err) in zip(ranks, told, strict=True):
        assert rank.returncode == 0, err[-2000:]
        assert out == f"exact {world * 4 * 3 * 2}\n"

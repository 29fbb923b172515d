"""A set-up's last proof with a real engine: vLLM, on the CPU, loads the tiny model and replies."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest

from fixtures.setup_rig import ENGINES, explain
from twinrig import assets
from twinrig.domain.errors import HostError
from twinrig.engines.vllm import VllmEngine
from twinrig.hosts.local.host import LocalHost
from twinrig.services.setup_reply import FirstReply, ReplyLimits
from twinrig.services.setup_script import SCRIPT, SetupScript
from twinrig.services.setup_words import SetupProgress

ENVIRONMENT = os.environ.get("TWINRIG_REAL_VLLM", "")
pytestmark = [
    pytest.mark.real,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not ENVIRONMENT, reason="TWINRIG_REAL_VLLM names no environment"),
]


class NewVersion:
    """The real environment, as if it had just been set up beside another."""

    engine_id = "vllm"
    folder = "env-new"

    def __init__(self, root: Path) -> None:
        self.root = str(root)
        (root / self.folder).mkdir(parents=True)
        (root / self.folder / "venv").symlink_to(ENVIRONMENT)


def parts(root: Path) -> tuple[FirstReply, SetupScript, NewVersion]:
    host = LocalHost({**os.environ, "HOME": str(root), "OMP_NUM_THREADS": "1"})
    reply = FirstReply(
        host, ENGINES, assets.read_text, explain, limits=ReplyLimits(420.0, 120.0, 60.0)
    )
    return reply, SetupScript(host, assets.read_text(SCRIPT), str(root)), NewVersion(root)


def ours(root: Path) -> list[str]:
    """Command lines of processes that were started from this folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"HOME={root}\0".encode() in entry.read_bytes():
                found.append((entry.parent / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return found


async def test_a_real_engine_gives_its_first_reply_and_leaves_nothing(tmp_path: Path) -> None:
    reply, script, new = parts(tmp_path / "vllm")
    told: list[SetupProgress] = []
    tokens = await reply.prove(script, new, told.append)
    assert 1 <= tokens <= 8
    assert any("Application startup complete" in progress.line for progress in told)
    assert sorted(p.name for p in Path(new.root, new.folder).iterdir()) == ["venv"]
    assert ours(tmp_path / "vllm") == []


class Greedy(VllmEngine):
    """Asks for memory that is not there."""

    trial = MappingProxyType({**VllmEngine.trial, "gpu_memory_utilization": 0.999})


async def test_a_real_engine_that_ends_says_why(tmp_path: Path) -> None:
    reply, script, new = parts(tmp_path / "vllm")
    engines = {"vllm": Greedy(assets.read_text("engines/vllm.yaml"))}
    with pytest.raises(HostError) as caught:
        await replace(reply, engines=engines).prove(script, new, lambda _progress: None)
    assert "are free on a card" in str(caught.value.text)
    assert caught.value.next_step is not None
    assert ours(tmp_path / "vllm") == []

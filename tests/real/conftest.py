"""A real vLLM on the CPU, a tiny model, and a home of its own for the whole module."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from real.rig import Rig
from real.tiny_model import write_model


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    environment = os.environ.get("TWINRIG_REAL_VLLM")
    if not environment:
        pytest.skip("no real vLLM: TWINRIG_REAL_VLLM does not name an environment")
    base = tmp_path_factory.mktemp("real")
    home = base / "home"
    environ = {**os.environ, "TWINRIG_HOME": str(home), "QT_QPA_PLATFORM": "offscreen"}
    environ.pop("TWINRIG_RUN_ID", None)
    model = write_model(base / "tiny-llama")
    made = Rig(home, Path(environment), model, environ)
    yield made
    for state in home.glob("state/local/servers/*"):
        made.twinrig("stop", state.name)

"""Builders shared by the tests of engines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from twinrig import assets
from twinrig.domain.install import EngineInstall
from twinrig.domain.profile import EngineRef, ModelRef, Network, Profile
from twinrig.engines.base import RenderContext
from twinrig.engines.vllm import VllmEngine

FIXTURES = Path(__file__).parents[2] / "fixtures"


@pytest.fixture(scope="session")
def engine() -> VllmEngine:
    return VllmEngine(assets.read_text("engines/vllm.yaml"))


@pytest.fixture
def fixtures() -> Path:
    return FIXTURES


@pytest.fixture
def make_profile() -> Callable[..., Profile]:
    base = Profile(
        id="qwen",
        name="Qwen",
        target="local",
        engine=EngineRef("vllm", "/home/you/vllm", "0.32.0"),
        model=ModelRef("/home/you/models/Qwen3-8B"),
        network=Network("127.0.0.1", 8000),
    )

    def build(**changes: Any) -> Profile:
        return replace(base, **changes)

    return build


@pytest.fixture
def make_context() -> Callable[..., RenderContext]:
    def build(version: str = "0.32.0", **changes: Any) -> RenderContext:
        install = EngineInstall("vllm", "/home/you/vllm", version, "/home/you/vllm/bin/vllm")
        return RenderContext(**{"install": install, "run_folder": "/home/you/run", **changes})

    return build

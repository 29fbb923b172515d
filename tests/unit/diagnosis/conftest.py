"""The shipped rules, parsed once."""

from __future__ import annotations

from pathlib import Path

import pytest

from twinrig import assets
from twinrig.diagnosis.rules import Rules, load_rules


@pytest.fixture(scope="session")
def rules() -> Rules:
    return load_rules(assets.read_text("rules/vllm.yaml"), "vllm.yaml")


@pytest.fixture
def recorded() -> Path:
    return Path(__file__).parents[2] / "fixtures" / "vllm"

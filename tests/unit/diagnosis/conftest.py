"""The shipped rules and the recorded logs."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.rule_samples import FIXTURES, SHIPPED
from twinrig.diagnosis.rules import Rules


@pytest.fixture(scope="session")
def rules() -> Rules:
    return SHIPPED


@pytest.fixture
def recorded() -> Path:
    return FIXTURES / "vllm"

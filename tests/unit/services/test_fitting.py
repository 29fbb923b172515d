"""Which engine loads a format: the first of this machine that says so."""

from __future__ import annotations

import pytest

from fixtures.sizing_models import DENSE_8B
from twinrig import assets
from twinrig.engines.registry import load_engines
from twinrig.services.fitting import Fitting

ENGINES = load_engines(assets.read_text)


@pytest.mark.parametrize(
    ("quantization", "demo", "engine"),
    [
        ("exl3 4.15", False, "tabbyapi"),
        ("awq 4", False, "vllm"),
        ("", False, "vllm"),
        ("awq 4", True, "demo"),
        ("exl3 4.15", True, None),
    ],
)
def test_the_engine_for_a_format(quantization: str, demo: bool, engine: str | None) -> None:
    found = Fitting(ENGINES, (), 0, on_wsl=False, demo=demo).engine_for(quantization)
    assert (found.id if found is not None else None) == engine


def test_tabbyapi_loads_its_own_format_and_plain_folders_only() -> None:
    tabby = ENGINES["tabbyapi"]
    assert tabby.loads("exl3 3.0") and tabby.loads("")
    assert not tabby.loads("awq 4")


def test_a_model_fits_no_machine_whose_cards_are_not_known() -> None:
    fit = Fitting(ENGINES, (), 0, on_wsl=False, demo=False).of_config(DENSE_8B, 16 * 1024**3)
    assert fit.verdict is None and fit.context_tokens is None

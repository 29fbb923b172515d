"""Every engine answers what the protocol asks, under an id of its own."""

from __future__ import annotations

import pytest

from twinrig import assets
from twinrig.domain.metrics import EngineMetrics
from twinrig.domain.profile import EngineRef, ModelRef, Profile
from twinrig.engines.base import Engine
from twinrig.engines.option_table import OptionTableError
from twinrig.engines.registry import load_engines


def test_all_engines_are_there() -> None:
    engines = load_engines(assets.read_text)
    assert list(engines) == ["vllm", "tabbyapi", "demo"]
    assert all(engine.id == name for name, engine in engines.items())
    assert engines["vllm"].name == "vLLM" and engines["vllm"].default_port == 8000


@pytest.mark.parametrize("name", ["vllm", "tabbyapi", "demo"])
def test_an_engine_answers_everything(name: str) -> None:
    engine: Engine = load_engines(assets.read_text)[name]
    options = engine.options()
    assert len({option.id for option in options}) == len(options) > 0
    known = {option.id: option for option in options}
    for gpus in (1, 2):
        for setting, value in engine.defaults(gpu_count=gpus, on_wsl=True, version="").items():
            assert known[setting].check(value)[1] is None
    assert engine.phase_of("nothing to see") is None
    assert engine.parse_metrics("nonsense") == EngineMetrics()


def test_a_broken_table_stops_the_program() -> None:
    with pytest.raises(OptionTableError, match="vllm"):
        load_engines(lambda name: "options: []")


@pytest.mark.parametrize("name", ["vllm", "tabbyapi", "demo"])
def test_what_a_verdict_points_to_is_a_setting_of_the_engine(name: str) -> None:
    engine: Engine = load_engines(assets.read_text)[name]
    profile = Profile("p", "P", "local", EngineRef(name), ModelRef("/m"))
    setup = engine.setup(profile)
    options = {option.id for option in engine.options()}
    assert {setup.split_setting, setup.slots_setting, setup.pool_setting} <= options

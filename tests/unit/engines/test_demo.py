"""DemoEngine: table, validation, launch files, log and metrics, also against its real server."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from demo_process import free_port
from twinrig.assets import read_text
from twinrig.domain.errors import ProfileError
from twinrig.domain.install import EngineInstall
from twinrig.domain.metrics import EngineMetrics
from twinrig.domain.profile import EngineRef, EnvEntry, ModelRef, Network, Profile
from twinrig.domain.server import Phase
from twinrig.engines.base import Engine, RenderContext
from twinrig.engines.demo import KEY_VARIABLE, LOAD_FILE, DemoEngine
from twinrig.hosts.demo import config as server_config
from twinrig.hosts.demo import load as server_load
from twinrig.hosts.demo.batch import Batch
from twinrig.hosts.demo.completions import metrics_text
from twinrig.hosts.demo.config import FAULTS, DemoConfig, parse_config
from twinrig.hosts.demo.physics import Split

INSTALL = EngineInstall("demo", "/home/demo/venvs/demo", "0.1.0", "/usr/bin/python3")
CONTEXT = RenderContext(INSTALL, "/state/demo/servers/one")


@pytest.fixture(scope="module")
def engine() -> DemoEngine:
    return DemoEngine(read_text("engines/demo.yaml"))


def profile(**changes: object) -> Profile:
    values: dict[str, object] = {
        "id": "one",
        "name": "One",
        "target": "demo",
        "engine": EngineRef("demo"),
        "model": ModelRef("/home/demo/models/Demo-24B-AWQ"),
        "network": Network(port=18080),
        "settings": {"context_length": 16384, "tensor_parallel_size": 2},
    }
    return Profile(**{**values, **changes})  # type: ignore[arg-type]


def fault_paths(engine: DemoEngine, **changes: object) -> list[str]:
    return [fault.path for fault in engine.validate(profile(**changes))]


def test_it_is_an_engine(engine) -> None:
    checked: Engine = engine
    assert (checked.id, checked.layout.package, checked.default_port) == ("demo", "", 18080)


def test_every_row_is_a_field_of_the_server_with_the_same_default_and_type(engine) -> None:
    defaults = DemoConfig()
    for option in engine.options():
        assert option.engine_key == option.id
        assert getattr(defaults, option.engine_key) == option.default, option.id
        value, fault = option.check(option.default)
        assert (value, fault) == (option.default, None)


def test_bounds_of_the_table_are_those_of_the_server(engine) -> None:
    for option in engine.options():
        for bound in (option.minimum, option.maximum):
            if bound is not None:
                value, _ = option.check(bound)
                parse_config(json.dumps({option.engine_key: value}), "x")


def test_the_two_sides_agree_on_names(engine) -> None:
    assert KEY_VARIABLE == server_config.KEY_VARIABLE
    assert LOAD_FILE == server_load.LOAD_FILE
    rows = {option.id: option for option in engine.options()}
    assert rows["fault"].choices == FAULTS


@pytest.mark.parametrize("gpu_count", [0, 1, 2, 4])
def test_defaults_are_valid_and_use_at_most_the_two_cards(engine, gpu_count) -> None:
    settings = engine.defaults(gpu_count=gpu_count, on_wsl=True, version="")
    assert engine.validate(profile(settings=settings)) == ()
    assert settings["tensor_parallel_size"] == min(max(gpu_count, 1), 2)


def test_the_default_environment_needs_what_the_rig_lacks(engine) -> None:
    env = engine.default_env(gpu_count=2, on_wsl=True, version="")
    assert env["PYTORCH_CUDA_ALLOC_CONF"].value == "expandable_segments:True"
    assert env["PYTORCH_CUDA_ALLOC_CONF"].reason


def test_render_writes_one_file_that_the_server_takes(engine) -> None:
    (spec,) = engine.render(
        profile(settings={"context_length": 16384, "kv_cache_dtype": "fp8", "load_scale": 2}),
        CONTEXT,
    )
    path = "/state/demo/servers/one/demo-one.json"
    assert spec.argv == ("/usr/bin/python3", "-m", "twinrig", "demo-server", "--config", path)
    (file,) = spec.files
    assert (file.path, file.mode) == (path, 0o600)
    assert json.loads(file.content) == {
        "host": "127.0.0.1",
        "port": 18080,
        "model_path": "/home/demo/models/Demo-24B-AWQ",
        "served_name": "Demo-24B-AWQ",
        "load_file": "/state/demo/servers/one/demo-load.json",
        "context_length": 16384,
        "kv_cache_dtype": "fp8",
        "load_scale": 2.0,
    }
    assert parse_config(file.content, path).kv_cache_dtype == "fp8"
    assert spec.endpoint.base_url == "http://127.0.0.1:18080"
    assert spec.model_id == "Demo-24B-AWQ"
    assert spec.env == {}
    assert spec.bearer_token is None
    assert spec.metrics_path == "/metrics"


def test_readiness_is_a_sampled_completion(engine) -> None:
    (spec,) = engine.render(profile(), CONTEXT)
    body = spec.readiness.completion_body
    assert spec.readiness.path == "/health"
    assert spec.readiness.completion_path == "/v1/completions"
    assert body["model"] == "Demo-24B-AWQ"
    assert (body["temperature"], body["top_k"], body["top_p"], body["max_tokens"]) == (
        1.0,
        20,
        0.95,
        8,
    )


def test_the_key_travels_in_the_environment_only(engine) -> None:
    guarded = profile(network=Network(port=18080, key_name="k"), env={"A": EnvEntry("1")})
    (spec,) = engine.render(guarded, replace(CONTEXT, key="s3cret"))
    assert spec.env == {"A": "1", KEY_VARIABLE: "s3cret"}
    assert spec.secret_env == (KEY_VARIABLE,)
    assert spec.bearer_token == "s3cret"
    assert "s3cret" not in spec.files[0].content
    assert not any("s3cret" in word for word in spec.argv)
    with pytest.raises(ProfileError):
        engine.render(guarded, CONTEXT)


def test_a_windows_run_folder(engine) -> None:
    (spec,) = engine.render(profile(), replace(CONTEXT, run_folder="C:\\Users\\me\\run"))
    assert spec.argv[-1] == "C:/Users/me/run/demo-one.json"


def test_a_served_name_of_the_users_own(engine) -> None:
    (spec,) = engine.render(profile(model=ModelRef("/m/x/", "Chat")), CONTEXT)
    assert spec.model_id == "Chat"
    (spec,) = engine.render(profile(model=ModelRef("/m/x/")), CONTEXT)
    assert spec.model_id == "x"


def test_render_refuses_faulty_profiles_and_missing_programs(engine) -> None:
    with pytest.raises(ProfileError) as caught:
        engine.render(
            profile(settings={"context_length": 0}),
            replace(CONTEXT, install=replace(INSTALL, executable="")),
        )
    assert [e.path for e in caught.value.errors] == ["settings.context_length", "engine"]


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"id": "A b"}, "id"),
        ({"nodes": ("a", "b")}, "nodes"),
        ({"model": ModelRef("")}, "model.path"),
        ({"model": ModelRef("models/x")}, "model.path"),
        ({"model": ModelRef("/m/\n")}, "model.path"),
        ({"model": ModelRef("/m", "a\tb")}, "model.served_name"),
        ({"settings": {"colour": 1}}, "settings.colour"),
        ({"settings": {"max_num_seqs": "8"}}, "settings.max_num_seqs"),
        ({"settings": {"fault": "flood"}}, "settings.fault"),
        ({"settings": {"tensor_parallel_size": 3}}, "settings.tensor_parallel_size"),
        (
            {"settings": {"tensor_parallel_size": 2, "pipeline_parallel_size": 2}},
            "settings.pipeline_parallel_size",
        ),
        ({"network": Network(port=80)}, "network.port"),
        ({"network": Network(port=True)}, "network.port"),
        ({"network": Network(host="0.0.0.0", port=18080)}, "network.host"),
        ({"env": {"A B": EnvEntry("1")}}, "env.A B"),
        ({"env": {KEY_VARIABLE: EnvEntry("1")}}, f"env.{KEY_VARIABLE}"),
        ({"env": {"A": EnvEntry("1\n2")}}, "env.A"),
        ({"extra": {"x": 1}}, "extra.x"),
    ],
)
def test_one_fault_one_place(engine, changes, path) -> None:
    assert fault_paths(engine, **changes) == [path]


def test_all_faults_at_once(engine) -> None:
    found = fault_paths(
        engine,
        id="!",
        settings={"x": 1, "max_num_seqs": 0},
        network=Network(port=0),
        extra={"y": 1},
    )
    assert found == ["id", "settings.x", "settings.max_num_seqs", "network.port", "extra.y"]


@pytest.mark.parametrize(
    ("line", "phase", "progress"),
    [
        ("INFO 11-29 17:03:15 [demo:weights] 25% Loading", Phase.WEIGHTS, 0.25),
        ("INFO 11-29 17:03:15 [demo:weights] 100% Loading", Phase.WEIGHTS, 1.0),
        ("INFO 11-29 17:03:15 [demo:config] Using max model len 5", Phase.CONFIG, None),
        ("INFO 11-29 17:03:15 [demo:serve] Application startup complete.", Phase.SERVE, None),
    ],
)
def test_phases(engine, line, phase, progress) -> None:
    event = engine.phase_of(line)
    assert event is not None
    assert (event.phase, event.progress) == (phase, progress)


@pytest.mark.parametrize(
    "line", ["", "ERROR [demo:error] x", "[demo:flood] x", "Loading weights 25%", "[demo:]"]
)
def test_lines_without_a_phase(engine, line) -> None:
    assert engine.phase_of(line) is None


async def test_metrics_of_the_server_are_understood(engine) -> None:
    batch = Batch(Split.TENSOR, 8, 37085)
    batch.counters.generation_tokens = 41
    batch.counters.prompt_tokens = 900
    text = metrics_text(batch, DemoConfig(served_name='a "b" {c} \\'), 1795972526.5)
    assert engine.parse_metrics(text) == EngineMetrics(
        generation_tokens=41.0,
        prompt_tokens=900.0,
        requests_running=0.0,
        requests_waiting=0.0,
        kv_cache_usage=0.0,
        kv_cache_size_tokens=37085,
        process_start_s=1795972526.5,
    )


@pytest.mark.parametrize("text", ["", "garbage", "demo:generation_tokens_total{} x", "<html>"])
def test_damaged_metrics_are_unknown_not_zero(engine, text) -> None:
    assert engine.parse_metrics(text) == EngineMetrics()


def test_the_rendered_file_starts_the_real_server(engine, tmp_path: Path) -> None:
    """Its config passes the server's own check, whatever the table offers."""
    every = {option.id: option.default for option in engine.options()}
    (spec,) = engine.render(
        profile(settings=every, network=Network(port=free_port())),
        replace(CONTEXT, run_folder=str(tmp_path)),
    )
    config = parse_config(spec.files[0].content, "x")
    assert config.load_file == str(tmp_path / LOAD_FILE)
    assert {name: getattr(config, name) for name in every} == every

"""Exact files, argv and environment of a vLLM start; golden files stand in fixtures/golden."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from twinrig import assets
from twinrig.domain.errors import ProfileError
from twinrig.domain.install import EngineInstall
from twinrig.domain.launch import SleepWay
from twinrig.domain.options import OptionKind
from twinrig.domain.profile import EngineRef, EnvEntry, ModelRef, Network, Profile
from twinrig.engines.base import RenderContext
from twinrig.engines.vllm import VllmEngine

Make = Callable[..., Profile]
MakeContext = Callable[..., RenderContext]


def rich(make_profile: Make, version: str) -> Profile:
    return make_profile(
        name="Qwen 3 日本",
        engine=EngineRef("vllm", "/home/you/vllm", version),
        model=ModelRef("/home/you/models/Qwen3 8B 日本", "qwen"),
        network=Network("0.0.0.0", 8123, "lan"),
        settings={
            "context_length": 32768,
            "gpu_memory_utilization": 0.88,
            "kv_cache_dtype": "fp8",
            "tensor_parallel_size": 2,
            "disable_custom_all_reduce": True,
            "enable_prefix_caching": False,
            "trust_remote_code": False,
            "max_num_seqs": 8,
            "speculative_config": '{"method": "mtp", "num_speculative_tokens": 2}',
            "dtype": "auto",
        },
        env={
            "NCCL_CUMEM_ENABLE": EnvEntry("0", "why"),
            "NO_COLOR": EnvEntry("0", "the profile wins"),
        },
        extra={"seed": 7, "tokenizer-mode": "auto", "lora-modules": ("a=1", "no")},
    )


@pytest.mark.parametrize("version", ["0.11.0", "0.24.0", "0.32.0"])
def test_config_file_is_as_agreed(
    engine: VllmEngine,
    make_profile: Make,
    make_context: MakeContext,
    fixtures: Path,
    version: str,
) -> None:
    (spec,) = engine.render(rich(make_profile, version), make_context(version, key="s3cret"))
    golden = fixtures / "golden" / f"vllm-{version}.yaml"
    assert spec.files[0].content == golden.read_text(encoding="utf-8")


def test_argv_and_file(engine: VllmEngine, make_profile: Make, make_context: MakeContext) -> None:
    (spec,) = engine.render(make_profile(), make_context())
    assert spec.argv == (
        "/home/you/vllm/bin/vllm",
        "serve",
        "--config",
        "/home/you/run/vllm-qwen.yaml",
    )
    (file,) = spec.files
    assert (file.path, file.mode) == ("/home/you/run/vllm-qwen.yaml", 0o600)
    assert spec.node_id == "node0"
    assert spec.stop_timeout_s == 30.0


def test_environment_is_exact(
    engine: VllmEngine, make_profile: Make, make_context: MakeContext
) -> None:
    context = make_context(gpu_uuids=("GPU-a", "GPU-b"), key="s3cret")
    (spec,) = engine.render(rich(make_profile, "0.32.0"), context)
    assert spec.env == {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": "GPU-a,GPU-b",
        "DO_NOT_TRACK": "1",
        "NO_COLOR": "0",
        "NCCL_CUMEM_ENABLE": "0",
        "PYTHONUNBUFFERED": "1",
        "VLLM_API_KEY": "s3cret",
        "VLLM_DISABLE_LOG_LOGO": "1",
        "VLLM_NO_USAGE_STATS": "1",
    }


def test_it_sleeps_only_when_it_was_started_for_it(
    engine: VllmEngine, make_profile: Make, make_context: MakeContext
) -> None:
    (plain,) = engine.render(make_profile(), make_context())
    assert plain.sleep is None and "VLLM_SERVER_DEV_MODE" not in plain.env
    (spec,) = engine.render(make_profile(settings={"enable_sleep_mode": True}), make_context())
    assert spec.sleep == SleepWay("/sleep?level=1", "/wake_up")
    assert spec.env["VLLM_SERVER_DEV_MODE"] == "1"


def test_the_key_is_secret_everywhere(
    engine: VllmEngine, make_profile: Make, make_context: MakeContext
) -> None:
    (spec,) = engine.render(rich(make_profile, "0.32.0"), make_context(key="s3cret"))
    assert spec.secret_env == ("VLLM_API_KEY",)
    assert spec.bearer_token == "s3cret"
    assert "s3cret" not in " ".join(spec.argv) + spec.files[0].content
    (open_spec,) = engine.render(make_profile(), make_context())
    assert open_spec.secret_env == () and open_spec.bearer_token is None
    assert "VLLM_API_KEY" not in open_spec.env


def test_all_cards_are_visible_unless_chosen(
    engine: VllmEngine, make_profile: Make, make_context: MakeContext
) -> None:
    (spec,) = engine.render(make_profile(), make_context())
    assert "CUDA_VISIBLE_DEVICES" not in spec.env


def test_readiness_is_a_sampled_completion(
    engine: VllmEngine, make_profile: Make, make_context: MakeContext
) -> None:
    (spec,) = engine.render(make_profile(), make_context())
    assert spec.readiness.path == "/health"
    assert spec.readiness.completion_path == "/v1/completions"
    body = spec.readiness.completion_body
    assert body["model"] == spec.model_id == "Qwen3-8B"
    wanted = {
        "temperature": 1.0,
        "top_k": 20,
        "top_p": 0.95,
        "repetition_penalty": 1.1,
        "max_tokens": 8,
        "stream": False,
    }
    assert {name: body[name] for name in wanted} == wanted


@pytest.mark.parametrize(
    ("path", "name", "expected"),
    [("/m/Qwen/", "", "Qwen"), ("/m/Qwen", "chat", "chat")],
)
def test_name_that_clients_use(
    engine: VllmEngine,
    make_profile: Make,
    make_context: MakeContext,
    path: str,
    name: str,
    expected: str,
) -> None:
    (spec,) = engine.render(make_profile(model=ModelRef(path, name)), make_context())
    assert spec.model_id == expected
    assert yaml.safe_load(spec.files[0].content)["served-model-name"] == [expected]


def test_statistics_stay_on_and_polling_stays_out_of_the_log(
    engine: VllmEngine, make_profile: Make, make_context: MakeContext
) -> None:
    for version, key, value in (
        ("0.32.0", "disable-access-log-for-endpoints", "/health,/metrics"),
        ("0.19.1", "disable-access-log-for-endpoints", "/health,/metrics"),
        ("0.11.0", "disable-uvicorn-access-log", True),
    ):
        (spec,) = engine.render(make_profile(), make_context(version))
        config = yaml.safe_load(spec.files[0].content)
        assert config[key] == value
        assert "disable-log-stats" not in config


@pytest.mark.parametrize("version", ["0.11.0", "0.30.0", "0.32.0", "0.33.0"])
def test_switching_off_works_in_every_version(
    engine: VllmEngine, make_profile: Make, make_context: MakeContext, version: str
) -> None:
    off = {"enable_prefix_caching": False, "enable_chunked_prefill": False}
    (spec,) = engine.render(make_profile(settings=off), make_context(version))
    config = yaml.safe_load(spec.files[0].content)
    assert config["no-enable-prefix-caching"] is True
    assert config["no-enable-chunked-prefill"] is True
    assert False not in config.values(), "vLLM ignores false"


def test_off_is_the_default_of_other_switches(
    engine: VllmEngine, make_profile: Make, make_context: MakeContext
) -> None:
    (spec,) = engine.render(make_profile(settings={"enforce_eager": False}), make_context())
    assert "eager" not in spec.files[0].content
    (spec,) = engine.render(make_profile(settings={"enforce_eager": True}), make_context())
    assert yaml.safe_load(spec.files[0].content)["enforce-eager"] is True


def test_an_extra_switch_can_be_off(
    engine: VllmEngine, make_profile: Make, make_context: MakeContext
) -> None:
    extra = {"enable-x": False, "enable-y": True}
    (spec,) = engine.render(make_profile(extra=extra), make_context())
    config = yaml.safe_load(spec.files[0].content)
    assert config["no-enable-x"] is True and config["enable-y"] is True
    assert "enable-x" not in config


def test_a_longer_farewell_is_waited_for(
    engine: VllmEngine, make_profile: Make, make_context: MakeContext
) -> None:
    (spec,) = engine.render(make_profile(settings={"shutdown_timeout": 20}), make_context())
    assert spec.stop_timeout_s == 50.0


def test_a_wildcard_address_is_reached_by_loopback(
    engine: VllmEngine, make_profile: Make, make_context: MakeContext
) -> None:
    profile = make_profile(network=Network("0.0.0.0", 8123, "lan"))
    (spec,) = engine.render(profile, make_context(key="k"))
    assert spec.endpoint.base_url == "http://127.0.0.1:8123"
    assert spec.metrics_path == "/metrics"


def test_the_installed_version_decides(
    engine: VllmEngine, make_profile: Make, make_context: MakeContext
) -> None:
    profile = make_profile(settings={"max_num_queued_reqs": 4})
    assert engine.validate(profile) == ()
    with pytest.raises(ProfileError) as caught:
        engine.render(profile, make_context("0.24.0"))
    assert [fault.path for fault in caught.value.errors] == ["settings.max_num_queued_reqs"]


def test_what_is_missing_is_told_together(engine: VllmEngine, make_profile: Make) -> None:
    profile = make_profile(network=Network("0.0.0.0", 8000, "lan"), settings={"context_length": 0})
    context = RenderContext(EngineInstall("vllm", "", "0.32.0", ""), "/run")
    with pytest.raises(ProfileError) as caught:
        engine.render(profile, context)
    assert [fault.path for fault in caught.value.errors] == [
        "settings.context_length",
        "engine.environment",
        "network.key_name",
    ]


@pytest.mark.parametrize(
    "text", ["no", "1e5", "2,2", "0,1", "on", "~", "0x10", "12:30", "null", "a: b", "# x", "{a}"]
)
def test_texts_keep_their_meaning(
    engine: VllmEngine, make_profile: Make, make_context: MakeContext, text: str
) -> None:
    profile = make_profile(
        settings={"reasoning_parser": text, "kv_cache_dtype_skip_layers": (text, "1")},
        extra={"tokenizer-mode": text},
    )
    (spec,) = engine.render(profile, make_context())
    config = yaml.safe_load(spec.files[0].content)
    assert config["reasoning-parser"] == text
    assert config["kv-cache-dtype-skip-layers"] == [text, "1"]
    assert config["tokenizer-mode"] == text


def test_json_goes_in_as_text_that_every_version_reads(
    engine: VllmEngine, make_profile: Make, make_context: MakeContext
) -> None:
    profile = make_profile(settings={"speculative_config": '{"a": 1e-5, "b": "é", "c": null}'})
    (spec,) = engine.render(profile, make_context())
    value = yaml.safe_load(spec.files[0].content)["speculative-config"]
    assert isinstance(value, str)
    assert json.loads(value) == {"a": 1e-5, "b": "é", "c": None}


ENGINE = VllmEngine(assets.read_text("engines/vllm.yaml"))
TEXT_OPTIONS = [o for o in ENGINE.options() if o.kind is OptionKind.TEXT]


@settings(deadline=None)
@given(path=st.text(min_size=1), name=st.text(), text=st.text(min_size=1))
def test_what_is_written_is_what_is_read(path: str, name: str, text: str) -> None:
    profile = Profile(
        "p",
        "P",
        "local",
        EngineRef("vllm"),
        ModelRef("/" + path, name),
        settings={TEXT_OPTIONS[0].id: text},
    )
    context = RenderContext(EngineInstall("vllm", "/e", "0.32.0", "/e/bin/vllm"), "/run")
    try:
        (spec,) = ENGINE.render(profile, context)
    except ProfileError as refused:
        assert refused.errors
        return
    config: dict[str, Any] = yaml.safe_load(spec.files[0].content)
    assert config["model"] == "/" + path
    assert config[TEXT_OPTIONS[0].engine_key] == text
    assert len(spec.files[0].content.splitlines()) >= 7

"""Faults of a vLLM profile: each is found, named by its field, and all come at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twinrig import assets
from twinrig.domain.profile import EngineRef, EnvEntry, ModelRef, Network, Profile
from twinrig.engines.base import RenderContext
from twinrig.engines.vllm import VllmEngine

Make = Callable[..., Profile]


def faults(engine: VllmEngine, profile: Profile) -> dict[str, str]:
    return {fault.path: str(fault.text) for fault in engine.validate(profile)}


def test_a_plain_profile_has_no_fault(engine: VllmEngine, make_profile: Make) -> None:
    assert engine.validate(make_profile()) == ()


def test_all_faults_come_at_once(engine: VllmEngine, make_profile: Make) -> None:
    profile = make_profile(
        model=ModelRef("C:\\models\\x"),
        network=Network("0.0.0.0", 80),
        settings={"context_length": 0, "nonsense": 1, "tool_call_parser": "hermes"},
        env={"HF_TOKEN": EnvEntry("hf_x")},
        extra={"api-key": "x"},
    )
    assert list(faults(engine, profile)) == [
        "model.path",
        "settings.context_length",
        "settings.nonsense",
        "network.port",
        "network.key_name",
        "env.HF_TOKEN",
        "extra.api-key",
        "settings.tool_call_parser",
    ]


@pytest.mark.parametrize(
    ("settings", "field", "text"),
    [
        ({"context_length": 0}, "context_length", "at least 1"),
        ({"context_length": "8k"}, "context_length", "must be a number"),
        ({"gpu_memory_utilization": 1.2}, "gpu_memory_utilization", "at most 1.0"),
        ({"gpu_memory_utilization": float("nan")}, "gpu_memory_utilization", "a number"),
        ({"tensor_parallel_size": 1.5}, "tensor_parallel_size", "whole number"),
        ({"enforce_eager": "yes"}, "enforce_eager", "true or false"),
        ({"dtype": "int4"}, "dtype", "must be one of"),
        ({"kv_cache_dtype": ""}, "kv_cache_dtype", "must not be empty"),
        ({"kv_cache_dtype": "--api-key"}, "kv_cache_dtype", "begin with a hyphen"),
        ({"chat_template": "/a\nb"}, "chat_template", "control characters"),
        ({"kv_cache_dtype_skip_layers": ("0", "-x")}, "kv_cache_dtype_skip_layers", "hyphen"),
        ({"speculative_config": "{"}, "speculative_config", "JSON object"),
        ({"speculative_config": "[1]"}, "speculative_config", "JSON object"),
        ({"speculative_config": "[" * 90000}, "speculative_config", "JSON object"),
        ({"max_num_seq": 4}, "max_num_seq", "no setting max_num_seq"),
    ],
)
def test_single_settings(
    engine: VllmEngine, make_profile: Make, settings: dict[str, Any], field: str, text: str
) -> None:
    found = faults(engine, make_profile(settings=settings))
    assert list(found) == [f"settings.{field}"]
    assert text in found[f"settings.{field}"]


def test_an_option_of_another_version_names_both_versions(
    engine: VllmEngine, make_profile: Make
) -> None:
    profile = make_profile(
        engine=EngineRef("vllm", "", "0.24.0"), settings={"max_num_queued_reqs": 4}
    )
    text = faults(engine, profile)["settings.max_num_queued_reqs"]
    assert "0.24.0" in text and "max-num-queued-reqs" in text and ">=0.29" in text


def test_a_choice_of_a_later_version_names_both_versions(
    engine: VllmEngine, make_profile: Make
) -> None:
    settings = {"kv_cache_dtype": "octave_k3v4"}
    older = make_profile(engine=EngineRef("vllm", "", "0.32.0"), settings=settings)
    assert faults(engine, older) == {
        "settings.kv_cache_dtype": "octave_k3v4 needs version >=0.33; installed is 0.32.0"
    }
    for version in ("0.33.0", ""):
        newer = make_profile(engine=EngineRef("vllm", "", version), settings=settings)
        assert faults(engine, newer) == {}
    (row,) = (o for o in engine.options("0.32.0") if o.id == "kv_cache_dtype")
    assert "ultraquant_4bit" in row.choices and "octave_k3v4" not in row.choices


@pytest.mark.parametrize(
    ("host", "key", "field"),
    [
        ("127.0.0.1", "", None),
        ("localhost", "", None),
        ("::1", "", None),
        ("0.0.0.0", "lan", None),
        ("192.168.1.4", "lan", None),
        ("my-pc.local", "lan", None),
        ("0.0.0.0", "", "network.key_name"),
        ("::", "", "network.key_name"),
        ("my-pc", "", "network.key_name"),
        ("", "k", "network.host"),
        ("300.1.2.3", "k", "network.host"),
        ("a b", "k", "network.host"),
        ("-x", "k", "network.host"),
        ("http://x", "k", "network.host"),
        ("a" * 254, "k", "network.host"),
        ("a." * 126 + "-", "k", "network.host"),
    ],
)
def test_listen_address(
    engine: VllmEngine, make_profile: Make, host: str, key: str, field: str | None
) -> None:
    found = faults(engine, make_profile(network=Network(host, 8000, key)))
    assert list(found) == ([] if field is None else [field])


@pytest.mark.parametrize("port", [0, 80, 1023, 65536, -1, True, "8000", 8000.0])
def test_ports_that_cannot_work(engine: VllmEngine, make_profile: Make, port: Any) -> None:
    assert list(faults(engine, make_profile(network=Network("127.0.0.1", port)))) == [
        "network.port"
    ]


def test_admin_calls_stay_on_this_machine(engine: VllmEngine, make_profile: Make) -> None:
    env = {"VLLM_SERVER_DEV_MODE": EnvEntry("1")}
    lan = Network("0.0.0.0", 8000, "lan")
    assert faults(engine, make_profile(env=env)) == {}
    assert list(faults(engine, make_profile(env=env, network=lan))) == ["env.VLLM_SERVER_DEV_MODE"]
    off = {"VLLM_SERVER_DEV_MODE": EnvEntry("0")}
    assert faults(engine, make_profile(env=off, network=lan)) == {}


@pytest.mark.parametrize(
    ("path", "good"),
    [
        ("/m", True),
        ("/mnt/c/My Models/日本", True),
        ("", False),
        ("//", False),
        ("models/x", False),
        ("org/name", False),
        ("C:\\m", False),
        ("/m\n", False),
        ("~/m", False),
    ],
)
def test_model_path(engine: VllmEngine, make_profile: Make, path: str, good: bool) -> None:
    assert (faults(engine, make_profile(model=ModelRef(path))) == {}) is good


@pytest.mark.parametrize(
    ("name", "value", "good"),
    [
        ("NCCL_P2P_DISABLE", "1", True),
        ("A", "", True),
        ("1A", "x", False),
        ("A B", "x", False),
        ("VLLM_API_KEY", "x", False),
        ("TWINRIG_RUN_ID", "x", False),
        ("A", "x\ny", False),
        ("A", "x\0", False),
    ],
)
def test_environment(
    engine: VllmEngine, make_profile: Make, name: str, value: str, good: bool
) -> None:
    found = faults(engine, make_profile(env={name: EnvEntry(value)}))
    assert list(found) == ([] if good else [f"env.{name}"])


@pytest.mark.parametrize(
    ("key", "value", "good"),
    [
        ("seed", 1, True),
        ("tokenizer-mode", "auto", True),
        ("chat-template-content-format", "string", True),
        ("compilation-x.mode", 0, True),
        ("seed", "-1", False),
        ("seed", "a\nb", False),
        ("", 1, False),
        ("--seed", 1, False),
        ("se ed", 1, False),
        ("api-key", "x", False),
        ("api_key", "x", False),
        ("api-k", "x", False),
        ("disable-log-stats", True, False),
        ("no-disable-log-stats", True, False),
        ("disable-log-st", True, False),
        ("port", 1, False),
        ("config", "x", False),
        ("ssl-keyfile", "x", False),
        ("max-model-len", 4, False),
        ("max-model", 4, False),
        ("no-enable-prefix-caching", True, False),
        ("disable-prefix-caching", True, False),
        ("device-memory-utilization", 0.5, False),
        ("speculative-config.method", "mtp", False),
        ("spec-method", "mtp", False),
    ],
)
def test_extra_options(
    engine: VllmEngine, make_profile: Make, key: str, value: Any, good: bool
) -> None:
    found = faults(engine, make_profile(extra={key: value}))
    assert list(found) == ([] if good else [f"extra.{key}"])


def test_an_extra_key_points_to_its_setting(engine: VllmEngine, make_profile: Make) -> None:
    found = faults(engine, make_profile(extra={"max-model-len": 4}))
    assert "context_length" in found["extra.max-model-len"]


EXPANDABLE = {"PYTORCH_CUDA_ALLOC_CONF": EnvEntry("expandable_segments:True")}


@pytest.mark.parametrize(
    ("settings", "env", "fields"),
    [
        (
            {"kv_cache_memory_bytes": 2**30, "gpu_memory_utilization": 0.9},
            {},
            ["settings.gpu_memory_utilization"],
        ),
        ({"enable_auto_tool_choice": True}, {}, ["settings.enable_auto_tool_choice"]),
        ({"tool_call_parser": "hermes"}, {}, ["settings.tool_call_parser"]),
        ({"tool_call_parser": "hermes", "enable_auto_tool_choice": True}, {}, []),
        (
            {"tool_call_parser": "hermes", "enable_auto_tool_choice": False},
            {},
            ["settings.tool_call_parser"],
        ),
        (
            {"max_num_batched_tokens": 8, "max_num_seqs": 16},
            {},
            ["settings.max_num_batched_tokens"],
        ),
        ({"max_num_batched_tokens": 2048, "context_length": 8192}, {}, []),
        (
            {
                "max_num_batched_tokens": 2048,
                "context_length": 8192,
                "enable_chunked_prefill": False,
            },
            {},
            ["settings.max_num_batched_tokens"],
        ),
        (
            {"tensor_parallel_size": 2, "distributed_executor_backend": "uni"},
            {},
            ["settings.distributed_executor_backend"],
        ),
        (
            {"tensor_parallel_size": 2, "pipeline_parallel_size": 2},
            {"CUDA_VISIBLE_DEVICES": EnvEntry("0,1")},
            ["settings.tensor_parallel_size"],
        ),
        ({"tensor_parallel_size": 2}, {"CUDA_VISIBLE_DEVICES": EnvEntry("0,1")}, []),
        (
            {"tensor_parallel_size": 2},
            {"CUDA_VISIBLE_DEVICES": EnvEntry("0, 0")},
            ["env.CUDA_VISIBLE_DEVICES"],
        ),
        ({}, {"CUDA_VISIBLE_DEVICES": EnvEntry("")}, ["env.CUDA_VISIBLE_DEVICES"]),
        ({"quantization": "exl3"}, {}, ["settings.quantization"]),
        ({"device_ids": "0, 1", "tensor_parallel_size": 2}, {}, []),
        ({"device_ids": "GPU-1,GPU-2", "tensor_parallel_size": 2}, {}, []),
        ({"device_ids": "1", "tensor_parallel_size": 2}, {}, ["settings.device_ids"]),
        ({"device_ids": "1,1", "tensor_parallel_size": 2}, {}, ["settings.device_ids"]),
        ({"device_ids": "0,GPU-2", "tensor_parallel_size": 2}, {}, ["settings.device_ids"]),
        ({"device_ids": "0,"}, {}, ["settings.device_ids"]),
        ({"kv_cache_dtype": "4,4"}, {}, ["settings.kv_cache_dtype"]),
        ({}, EXPANDABLE, []),
        ({"kv_offloading_size": 0.5}, EXPANDABLE, ["env.PYTORCH_CUDA_ALLOC_CONF"]),
        ({"kv_offloading_size": 0}, EXPANDABLE, []),
        ({"tensor_parallel_size": 2}, EXPANDABLE, ["env.PYTORCH_CUDA_ALLOC_CONF"]),
        ({"tensor_parallel_size": 2, "disable_custom_all_reduce": True}, EXPANDABLE, []),
        (
            {"tensor_parallel_size": 2},
            {"PYTORCH_ALLOC_CONF": EnvEntry("a:b, expandable_segments : true")},
            ["env.PYTORCH_ALLOC_CONF"],
        ),
        ({"enable_sleep_mode": True}, EXPANDABLE, []),
    ],
)
def test_rules_between_settings(
    engine: VllmEngine,
    make_profile: Make,
    settings: dict[str, Any],
    env: dict[str, EnvEntry],
    fields: list[str],
) -> None:
    assert list(faults(engine, make_profile(settings=settings, env=env))) == fields


def test_sleep_mode_and_expandable_segments_clash_before_0_20(
    engine: VllmEngine, make_profile: Make
) -> None:
    for version, count in (("0.19.1", 1), ("0.20.0", 0), ("", 1)):
        profile = make_profile(
            engine=EngineRef("vllm", "", version),
            settings={"enable_sleep_mode": True},
            env=EXPANDABLE,
        )
        assert len(engine.validate(profile)) == count, version


def test_several_machines_are_refused(engine: VllmEngine, make_profile: Make) -> None:
    assert list(faults(engine, make_profile(nodes=("a", "b")))) == ["nodes"]
    assert list(faults(engine, make_profile(nodes=()))) == ["nodes"]


@pytest.mark.parametrize("name", ["../x", "", "A", "x" * 49, "-x"])
def test_profile_ids_are_safe_file_names(engine: VllmEngine, make_profile: Make, name: str) -> None:
    assert list(faults(engine, make_profile(id=name))) == ["id"]


VALUES = st.one_of(
    st.booleans(), st.integers(), st.floats(), st.text(), st.tuples(st.text()), st.none()
)
TABLE = VllmEngine(assets.read_text("engines/vllm.yaml"))
IDS = st.sampled_from([o.id for o in TABLE.options()]) | st.text()


@settings(deadline=None)
@given(
    chosen=st.dictionaries(IDS, VALUES, max_size=6),
    extra=st.dictionaries(st.text(), VALUES, max_size=3),
    env=st.dictionaries(st.text(), st.builds(EnvEntry, st.text()), max_size=3),
    host=st.text(),
    port=st.integers(),
)
def test_validation_never_raises(
    chosen: dict[str, Any], extra: dict[str, Any], env: dict[str, EnvEntry], host: str, port: int
) -> None:
    profile = Profile(
        "p",
        "P",
        "local",
        EngineRef("vllm", "", "0.32.0"),
        ModelRef("/m"),
        Network(host, port),
        settings=chosen,
        env=env,
        extra=extra,
    )
    for fault in TABLE.validate(profile):
        assert fault.path and str(fault.text)


@pytest.mark.parametrize(
    ("version", "settings", "fault"),
    [
        ("0.32.0", {"context_length": -1}, None),
        ("", {"context_length": -1}, None),
        ("0.11.0", {"context_length": -1}, "context_length"),
        ("0.32.0", {"context_length": 0}, "context_length"),
        ("0.32.0", {"context_length": -2}, "context_length"),
        ("0.32.0", {"kv_cache_dtype": "octave_k3v4"}, "kv_cache_dtype"),
        ("0.33.0", {"kv_cache_dtype": "octave_k3v4"}, None),
        ("0.32.0", {"speculative_config": '{"method": "mtp"}'}, "speculative_config"),
        ("0.32.0", {"speculative_config": '{"method": "mtp", "num_speculative_tokens": 2}'}, None),
        ("0.32.0", {"speculative_config": '{"method": "draft_model"}'}, "speculative_config"),
        ("0.32.0", {"speculative_config": '{"method": "suffix"}'}, None),
    ],
)
def test_values_that_a_version_does_not_know(
    engine: VllmEngine,
    make_profile: Make,
    version: str,
    settings: dict[str, Any],
    fault: str | None,
) -> None:
    made = make_profile(engine=EngineRef("vllm", "/v", version), settings=settings)
    expected = [] if fault is None else [f"settings.{fault}"]
    assert [error.path for error in engine.validate(made)] == expected


def test_sleep_mode_stays_on_this_computer(
    engine: VllmEngine, make_profile: Make, make_context: Callable[..., RenderContext]
) -> None:
    settings = {"enable_sleep_mode": True}
    lan = make_profile(settings=settings, network=Network("0.0.0.0", 8000, "lan"))
    assert [error.path for error in engine.validate(lan)] == ["settings.enable_sleep_mode"]
    (spec,) = engine.render(make_profile(settings=settings), make_context())
    assert spec.env["VLLM_SERVER_DEV_MODE"] == "1"
    (plain,) = engine.render(make_profile(), make_context())
    assert "VLLM_SERVER_DEV_MODE" not in plain.env

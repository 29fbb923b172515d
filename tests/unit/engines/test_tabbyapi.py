"""tabbyAPI as an engine: validation, files, doors, and the traps of its configuration."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from twinrig import assets
from twinrig.domain.errors import ProfileError
from twinrig.domain.install import EngineInstall
from twinrig.domain.launch import LaunchSpec
from twinrig.domain.metrics import ServerSetup
from twinrig.domain.profile import EngineRef, EnvEntry, ModelRef, Network, Profile
from twinrig.engines.base import RenderContext
from twinrig.engines.tabbyapi import TabbyApiEngine
from twinrig.engines.tabbyapi_config import known_keys, strange_keys
from twinrig.engines.tabbyapi_edit import ConfigRefusedError, read_sections

HOME = "/home/you/tabbyAPI"
INSTALL = EngineInstall(
    "tabbyapi", f"{HOME}/venv", "1.4.2+cu128.torch2.9.0", f"{HOME}/venv/bin/python", folder=HOME
)
BASE = Profile(
    id="coder",
    name="Coder",
    target="local",
    engine=EngineRef("tabbyapi", HOME, "1.4.2"),
    model=ModelRef("/home/you/models/Coder-exl3"),
    network=Network("127.0.0.1", 5000),
    settings={"cuda_malloc_async": False},
)
SCHEMA = '''
class NetworkConfig(BaseConfigModel):
    """Doc"""
    host: Optional[str] = Field("x")
    port: Optional[int] = Field(5000)
    disable_auth: Optional[bool] = Field(False)
class ModelConfig(BaseConfigModel):
    model_dir: str = Field("models")
    model_name: Optional[str] = Field(None)
    vision: Optional[bool] = Field(False)
    _metadata: Metadata = PrivateAttr()
class TabbyConfigModel(BaseModel):
    network: Optional[NetworkConfig] = Field(default_factory=NetworkConfig)
    model: Optional[ModelConfig] = Field(default_factory=ModelConfig.model_construct)
'''


@pytest.fixture(scope="module")
def tabby() -> TabbyApiEngine:
    return TabbyApiEngine(assets.read_text("engines/tabbyapi.yaml"), lambda: "made-up-admin-key")


def paths(tabby: TabbyApiEngine, **changes: Any) -> list[str]:
    return [fault.path for fault in tabby.validate(replace(BASE, **changes))]


def render(
    tabby: TabbyApiEngine, key: str | None = None, files: dict | None = None, **changes: Any
) -> LaunchSpec:
    texts = {
        f"{HOME}/{name}" if "/" not in name[:1] else name: t for name, t in (files or {}).items()
    }
    context = RenderContext(INSTALL, "/run", key=key, files=texts)
    return tabby.render(replace(BASE, **changes), context)[0]


def config(spec: LaunchSpec) -> dict:
    return read_sections(spec.files[0].content, "c")


def test_a_plain_profile_is_sound(tabby: TabbyApiEngine) -> None:
    assert tabby.validate(BASE) == ()
    for gpus in (1, 2):
        for on_wsl in (False, True):
            for version in ("0.0.43", "1.4.2", "1.6.5", ""):
                asked = {"gpu_count": gpus, "on_wsl": on_wsl, "version": version}
                made = replace(
                    BASE,
                    engine=EngineRef("tabbyapi", HOME, version),
                    settings=tabby.defaults(**asked),  # type: ignore[arg-type]
                    env=tabby.default_env(**asked),  # type: ignore[arg-type]
                )
                assert tabby.validate(made) == (), asked


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ({"cache_mode": "2,2"}, None),
        ({"cache_mode": "8, 4"}, None),
        ({"cache_mode": "FP16"}, None),
        ({"cache_mode": "q4"}, "cache_mode"),
        ({"cache_mode": "4"}, "cache_mode"),
        ({"cache_mode": "9,2"}, "cache_mode"),
        ({"cache_mode": "1,2"}, "cache_mode"),
        ({"draft_cache_mode": "4,4"}, "draft_cache_mode"),
        ({"cache_tokens": 1000}, "cache_tokens"),
        ({"cache_tokens": 131072, "context_length": 80000}, None),
        ({"cache_tokens": 4096, "context_length": 8192}, "context_length"),
        ({"context_length": -1, "cache_tokens": 4096}, None),
        ({"context_length": 0}, "context_length"),
        ({"rope_alpha": "auto"}, None),
        ({"rope_alpha": "2.5"}, None),
        ({"rope_alpha": "much"}, "rope_alpha"),
        ({"gpu_split": ("10.5", "11")}, None),
        ({"gpu_split": ()}, None),
        ({"gpu_split": ("ten",)}, "gpu_split"),
        ({"gpu_split": ("0", "0.0")}, "gpu_split"),
        ({"gpu_split": ("0", "10")}, None),
        ({"gpu_split": ("10",), "tensor_parallel": True}, "gpu_split"),
        ({"gpu_split": ("0", "10"), "tensor_parallel": True}, "gpu_split"),
        ({"gpu_split": ("0", "10", "10"), "tensor_parallel": True}, None),
        ({"gpu_split": ("10",), "autosplit_reserve": ("96",)}, "autosplit_reserve"),
        ({"tensor_parallel": True, "sysmem_kv_cache": 512}, "sysmem_kv_cache"),
        ({"tensor_parallel": True, "sysmem_kv_cache": 0}, None),
        ({"tensor_parallel": True, "cpu_moe_offload_layers": 3}, "cpu_moe_offload_layers"),
        ({"tensor_parallel_backend": "ncll"}, "tensor_parallel_backend"),
        ({"draft_mode": "MTP"}, "draft_mode"),
        ({"draft_mode": "model"}, "draft_mode"),
        ({"draft_mode": "model", "draft_model_name": "tiny"}, None),
        ({"draft_mode": "mtp", "draft_model_name": "tiny"}, "draft_model_name"),
        ({"api_servers": ("oai", "kobold")}, None),
        ({"api_servers": ("kobold",)}, "api_servers"),
        ({"override_preset": "safe_defaults"}, None),
        ({"override_preset": "safe_defaults", "sampler_top_k": 20}, "override_preset"),
        ({"template_vars_force": '{"enable_thinking": false}'}, None),
        ({"template_vars_force": "[1]"}, "template_vars_force"),
        ({"loras": '[{"name": "a"}]'}, None),
        ({"loras": "{}"}, "loras"),
        ({"cpu_moe_split_experts": 2}, "cpu_moe_split_experts"),
        ({"no_such": 1}, "no_such"),
        ({"reasoning_budget_message": "stop\nnow"}, None),
        ({"tool_format": "a\x07"}, "tool_format"),
    ],
)
def test_settings(tabby: TabbyApiEngine, settings: dict, fault: str | None) -> None:
    expected = [] if fault is None else [f"settings.{fault}"]
    assert paths(tabby, settings={"cuda_malloc_async": False, **settings}) == expected


@pytest.mark.parametrize(
    ("env", "settings", "fault"),
    [
        ("PYTORCH_CUDA_ALLOC_CONF", {"cuda_malloc_async": False}, False),
        ("PYTORCH_CUDA_ALLOC_CONF", {"cuda_malloc_async": True}, True),
        ("PYTORCH_ALLOC_CONF", {}, True),
        ("TABBY_MODEL_CACHE_MODE", {}, True),
        ("TABBY_LOG_LEVEL", {}, False),
        ("HF_TOKEN", {}, True),
        ("TWINRIG_RUN_ID", {}, True),
        ("NCCL_P2P_DISABLE", {}, False),
    ],
)
def test_variables(tabby: TabbyApiEngine, env: str, settings: dict, fault: bool) -> None:
    found = paths(tabby, env={env: EnvEntry("1")}, settings=settings)
    assert found == ([f"env.{env}"] if fault else [])


def test_no_visible_card_is_told(tabby: TabbyApiEngine) -> None:
    env = {"CUDA_VISIBLE_DEVICES": EnvEntry(" ")}
    assert paths(tabby, env=env, settings={}) == ["env.CUDA_VISIBLE_DEVICES"]


def test_one_visible_card_makes_tensor_parallel_a_lie(tabby: TabbyApiEngine) -> None:
    together = {"tensor_parallel": True}
    assert paths(tabby, env={"CUDA_VISIBLE_DEVICES": EnvEntry("0")}, settings=together) == [
        "settings.tensor_parallel"
    ]
    assert paths(tabby, env={"CUDA_VISIBLE_DEVICES": EnvEntry("0,1")}, settings=together) == []


@pytest.mark.parametrize(
    "key", ["network.port", "model.model_name", "model.vision", "developer.seqlog_api_key",
            "sampler_overrides.top_k", "vision", "Model.x", "a.b.c"],
)  # fmt: skip
def test_extra_keys_that_cannot_be(tabby: TabbyApiEngine, key: str) -> None:
    assert paths(tabby, extra={key: True}) == [f"extra.{key}"]
    assert paths(tabby, extra={"model.from_the_future": True}) == []


def test_without_a_key_the_server_is_open_to_this_computer_only(tabby: TabbyApiEngine) -> None:
    spec = render(tabby)
    assert config(spec)["network"] == {"host": "127.0.0.1", "port": 5000, "disable_auth": True}
    assert len(spec.files) == 1 and spec.bearer_token is None and spec.masked_values == ()
    assert paths(tabby, network=Network("0.0.0.0", 5000)) == ["network.key_name"]


def test_keys_of_the_checkout_are_respected(tabby: TabbyApiEngine) -> None:
    tokens = "api_key: theirs-1234\nadmin_key: boss-1234\n"
    spec = render(tabby, files={"api_tokens.yml": tokens})
    assert "disable_auth" not in config(spec)["network"]
    assert spec.bearer_token == "theirs-1234" and len(spec.files) == 1
    assert set(spec.masked_values) == {"theirs-1234", "boss-1234"}
    assert spec.sleep is not None and spec.sleep.token == "boss-1234"
    assert (spec.sleep.sleep_path, spec.sleep.wake_path) == ("/v1/model/unload", "")
    assert "boss-1234" not in repr(spec)
    off = render(
        tabby, files={"api_tokens.yml": tokens, "config.yml": "network: {disable_auth: true}\n"}
    )
    assert off.bearer_token is None and config(off)["network"]["disable_auth"] is True


def test_a_key_of_the_profile_is_added(tabby: TabbyApiEngine) -> None:
    lan = Network("0.0.0.0", 5000, "lan")
    spec = render(tabby, key="ours-1234", network=lan)
    assert config(spec)["network"]["disable_auth"] is False
    (tokens,) = spec.files[1:]
    assert (tokens.path, tokens.mode, tokens.keep_previous) == (
        f"{HOME}/api_tokens.yml",
        0o600,
        True,
    )
    assert read_sections(tokens.content, "t") == {
        "api_key": "ours-1234",
        "admin_key": "made-up-admin-key",
    }
    files = {"api_tokens.yml": "api_key: [a-1234, b-1234]\nadmin_key: boss-1234\n"}
    spec = render(tabby, key="ours-1234", files=files, network=lan)
    assert read_sections(spec.files[1].content, "t") == {
        "api_key": ["a-1234", "b-1234", "ours-1234"],
        "admin_key": "boss-1234",
    }
    files = {"api_tokens.yml": "api_key: ours-1234\nadmin_key: boss-1234\n"}
    assert len(render(tabby, key="ours-1234", files=files, network=lan).files) == 1
    assert "ours-1234" not in repr(spec) and "ours-1234" not in str(spec.argv) + str(spec.env)


def test_a_missing_key_or_program_is_told(tabby: TabbyApiEngine) -> None:
    with pytest.raises(ProfileError) as caught:
        render(tabby, network=Network("127.0.0.1", 5000, "lan"))
    assert [e.path for e in caught.value.errors] == ["network.key_name"]
    bare = RenderContext(replace(INSTALL, folder=""), "/run")
    with pytest.raises(ProfileError) as caught:
        tabby.render(BASE, bare)
    assert [e.path for e in caught.value.errors] == ["engine.environment"]
    assert tabby.reads(BASE, bare.install) == ()


def test_keys_that_this_checkout_would_ignore_are_refused(tabby: TabbyApiEngine) -> None:
    files = {"common/config_models.py": SCHEMA}
    settings = {"vision": True}
    assert config(render(tabby, files=files, settings=settings))["model"]["vision"] is True
    with pytest.raises(ProfileError) as caught:
        render(tabby, files=files, settings={"draft_mode": "disabled"}, extra={"model.odd": 1})
    assert [e.path for e in caught.value.errors] == ["extra.model.odd", "settings.draft_mode"]
    garbage = {"common/config_models.py": "class ("}
    assert render(tabby, files=garbage, settings={"draft_mode": "disabled"})


def test_an_old_checkout_overwrites_the_allocator_always(tabby: TabbyApiEngine) -> None:
    with pytest.raises(ProfileError) as caught:
        render(
            tabby,
            files={"common/config_models.py": SCHEMA},
            env={"PYTORCH_CUDA_ALLOC_CONF": EnvEntry("expandable_segments:True")},
        )
    assert {e.path for e in caught.value.errors} == {
        "settings.cuda_malloc_async",
        "env.PYTORCH_CUDA_ALLOC_CONF",
    }


def test_the_models_own_file_wins_so_it_must_agree(tabby: TabbyApiEngine) -> None:
    path = "/home/you/models/Coder-exl3/tabby_config.yml"
    settings = {"context_length": 4096, "cuda_malloc_async": False}
    same = {path: "model:\n  max_seq_len: 4096\n  vision: true\n"}
    assert render(tabby, files=same, settings=settings)
    with pytest.raises(ProfileError) as caught:
        render(tabby, files={path: "model:\n  max_seq_len: 65536\n"}, settings=settings)
    (error,) = caught.value.errors
    assert error.path == "settings.context_length" and "65536" in str(error.text)


@pytest.mark.parametrize(
    "text",
    ["logging:\n  prompt: true\n", "model:\n  draft:\n    a: 1\n", "model:\n  lora: {a: 1}\n"],
)
def test_old_names_would_cost_the_comments(tabby: TabbyApiEngine, text: str) -> None:
    with pytest.raises(ConfigRefusedError, match="old name"):
        render(tabby, files={"config.yml": text})


def test_what_was_set_is_put_back_for_the_next_profile(tabby: TabbyApiEngine) -> None:
    own = "model:\n  cache_mode: Q4 # mine\n  chunk_size: 1024\n"
    first = render(
        tabby,
        files={"config.yml": own},
        settings={"cache_mode": "2,2", "vision": True, "cuda_malloc_async": False},
    )
    again = render(tabby, files={"config.yml": first.files[0].content}, settings=BASE.settings)
    model = config(again)["model"]
    assert model["cache_mode"] == "Q4" and model["vision"] is None and model["chunk_size"] == 1024
    assert "# mine" in again.files[0].content
    same = render(tabby, files={"config.yml": again.files[0].content}, settings=BASE.settings)
    assert same.files == again.files
    assert first.files[0].content.count("Set by Twinrig") == 1
    damaged = own + "# Set by Twinrig; before: {nonsense}\n"
    assert config(render(tabby, files={"config.yml": damaged}))["model"]["cache_mode"] == "Q4"


def test_values_have_the_types_of_the_schema(tabby: TabbyApiEngine) -> None:
    spec = render(
        tabby,
        settings={
            "gpu_split": ("10", "11.5"),
            "rope_alpha": "2",
            "rope_scale": 2,
            "template_vars_force": '{"a": [1, null]}',
            "dummy_model_names": ("1", "no"),
            "sampler_top_k": 20,
        },
        extra={"model.future": ("a", "b")},
    )
    model = config(spec)["model"]
    assert model["gpu_split"] == [10.0, 11.5]
    assert json.dumps([model["rope_alpha"], model["rope_scale"]]) == "[2.0, 2.0]"
    assert model["template_vars_force"] == {"a": [1, None]}
    assert model["dummy_model_names"] == ["1", "no"] and model["future"] == ["a", "b"]
    assert config(spec)["sampling"] == {"override_preset": "twinrig-coder"}
    assert spec.files[1].path == f"{HOME}/sampler_overrides/twinrig-coder.yml"


@pytest.mark.parametrize(
    ("settings", "setup"),
    [
        ({"tensor_parallel": True, "max_batch_size": 8}, ServerSetup(2, 1, 8)),
        ({"tensor_parallel": True, "gpu_split": ("1", "1", "1")}, ServerSetup(3, 1, None)),
        ({"tensor_parallel": True, "gpu_split": ()}, ServerSetup(2, 1, None)),
        ({}, ServerSetup(1, None, None)),
    ],
)
def test_how_the_model_is_split(tabby: TabbyApiEngine, settings: dict, setup: ServerSetup) -> None:
    told = tabby.setup(replace(BASE, settings=settings))
    sizes = ("tensor_parallel_size", "pipeline_parallel_size", "max_num_seqs")
    assert [getattr(told, name) for name in sizes] == [getattr(setup, name) for name in sizes]


def test_how_it_is_asked(tabby: TabbyApiEngine) -> None:
    spec = render(tabby)
    assert (spec.metrics_path, spec.readiness.path) == ("", "/v1/model")
    assert spec.readiness.liveness_path == "/health"
    assert spec.readiness.completion_body["temperature"] == 1.0
    assert spec.files[0].keep_previous and spec.model_id == "Coder-exl3"


def test_strange_keys_of_a_file_are_found() -> None:
    known = known_keys(SCHEMA)
    assert known == {
        "network": {"host", "port", "disable_auth"},
        "model": {"model_dir", "model_name", "vision"},
    }
    text = "port: 1\nmodel:\n  vison: true\n  vision: true\nnetwork:\n  model_name: x\n"
    assert strange_keys(text, known, "c") == ("port", "model.vison", "network.model_name")
    assert known_keys("x = (") == {} and known_keys("") == {}

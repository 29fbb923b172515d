"""Shipped recipes render exactly what the reports list: files, environment, flags."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from twinrig import assets
from twinrig.domain.errors import TwinrigError
from twinrig.domain.install import EngineInstall
from twinrig.domain.launch import LaunchSpec
from twinrig.domain.profile import EngineRef, EnvEntry, ModelRef, Network, Profile
from twinrig.engines.base import RenderContext
from twinrig.engines.registry import load_engines
from twinrig.services.profile_rules import profile_faults
from twinrig.services.recipes import NAMES, apply_recipe, load_recipe, load_recipes, make_recipe

GOLDEN = Path(__file__).parents[2] / "fixtures" / "golden"
ENGINES = load_engines(assets.read_text)
TABBY = EngineInstall(
    "tabbyapi",
    "/home/you/tabbyAPI/venv",
    "0.0.43+cu128.torch2.9.0",
    "/home/you/tabbyAPI/venv/bin/python",
    folder="/home/you/tabbyAPI",
)
VLLM = EngineInstall("vllm", "/home/you/vllm", "0.32.0", "/home/you/vllm/bin/vllm")


def recipe(name: str) -> Profile:
    return dict(zip(NAMES, load_recipes(assets.read_text), strict=True))[name]


def draft(name: str, install: EngineInstall, id: str, model: str) -> Profile:
    """What a new profile of this engine would be, with the recipe applied."""
    engine = ENGINES[install.engine_id]
    own = engine.defaults(gpu_count=2, on_wsl=True, version=install.version)
    empty = Profile(
        id=id,
        name=id,
        target="local",
        engine=EngineRef(engine.id, install.environment, install.version),
        model=ModelRef(f"/home/you/models/{model}"),
        network=Network(port=engine.default_port),
        settings={**own, "unwanted": 1},
    )
    return apply_recipe(recipe(name), empty)


def rendered(profile: Profile, install: EngineInstall, **files: str | None) -> LaunchSpec:
    context = RenderContext(install, "/home/you/run", on_wsl=True, files=files)
    return ENGINES[profile.engine.id].render(profile, context)[0]


def tabby_spec(config: str | None = None, version: str = TABBY.version) -> LaunchSpec:
    profile = draft("exl3-two-cards-wsl", TABBY, "coder", "Qwopus3.6-27B-Coder-exl3-4.15bpw")
    install = replace(TABBY, version=version)
    return rendered(profile, install, **{"/home/you/tabbyAPI/config.yml": config})


def test_every_recipe_is_a_sound_profile() -> None:
    found = load_recipes(assets.read_text)
    assert [profile.id for profile in found] == list(NAMES)
    shipped = {path.stem for path in assets.resource_path("profiles").glob("*.yaml")}
    assert shipped == set(NAMES)
    for profile in found:
        assert profile_faults(profile, ENGINES) == ()
        assert all(entry.reason for entry in profile.env.values())


@pytest.mark.parametrize("version", [TABBY.version, "1.4.2+cu128.torch2.9.0", "1.6.5"])
def test_the_exl3_recipe_renders_the_first_report(version: str) -> None:
    spec = tabby_spec(version=version)
    assert spec.argv == ("/home/you/tabbyAPI/venv/bin/python", "main.py")
    assert spec.cwd == "/home/you/tabbyAPI"
    golden = {file.path: file.content for file in spec.files}
    assert golden == {
        "/home/you/tabbyAPI/config.yml": (GOLDEN / "tabbyapi-config.yml").read_text(),
        "/home/you/tabbyAPI/sampler_overrides/twinrig-coder.yml": (
            GOLDEN / "tabbyapi-samplers.yml"
        ).read_text(),
    }
    modes = {file.path.rpartition("/")[2]: file.mode for file in spec.files}
    assert modes["config.yml"] == 0o600, "it may hold a key of somebody"
    assert spec.env == {
        "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
        "NCCL_SOCKET_IFNAME": "lo",
        "NCCL_P2P_DISABLE": "1",
        "NCCL_SHM_DISABLE": "0",
        "MAX_JOBS": "4",
        "COLUMNS": "1000",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "NO_COLOR": "1",
        "PYTHONUNBUFFERED": "1",
        "TABBY_LOG_CONSOLE_WIDTH": "1000",
    }
    assert spec.unset == () and spec.secret_env == ()


def test_the_awq_recipe_renders_the_second_report() -> None:
    profile = draft("awq-two-cards-wsl", VLLM, "awq", "Big-AWQ")
    spec = rendered(profile, VLLM)
    assert spec.argv == (
        "/home/you/vllm/bin/vllm", "serve", "--config", "/home/you/run/vllm-awq.yaml",
    )  # fmt: skip
    assert [file.content for file in spec.files] == [(GOLDEN / "vllm-awq.yaml").read_text()]
    ours = {"CUDA_DEVICE_ORDER", "DO_NOT_TRACK", "NO_COLOR", "PYTHONUNBUFFERED"}
    ours |= {"VLLM_DISABLE_LOG_LOGO", "VLLM_NO_USAGE_STATS"}
    assert {name: value for name, value in spec.env.items() if name not in ours} == {
        "NCCL_P2P_DISABLE": "1",
        "NCCL_IB_DISABLE": "1",
        "NCCL_CUMEM_ENABLE": "0",
        "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
    }
    assert ours <= set(spec.env)


_CHECK = """
import json, sys
from ruamel.yaml import YAML
from common.config_models import TabbyConfigModel as M
text = sys.stdin.read()
data = YAML(typ=["rt", "safe"]).load(text)
data = {s: {k: v for k, v in d.items() if v is not None} for s, d in data.items() if d}
m = M.model_validate(data)
ours = json.loads(text.rsplit("before: ", 1)[1])
for name in ours:
    section, key = name.split(".")
    assert getattr(getattr(m, section), key) == data[section][key], name
print(len(ours))
"""


@pytest.mark.skipif("TABBYAPI_DIR" not in os.environ, reason="TABBYAPI_DIR names no checkout")
@pytest.mark.parametrize("sample", [False, True])
def test_the_real_models_of_tabbyapi_accept_it(sample: bool) -> None:
    """Into nothing, and into the sample file of the checkout itself."""
    checkout = Path(os.environ["TABBYAPI_DIR"])
    text = (checkout / "config_sample.yml").read_text("utf-8") if sample else None
    config = tabby_spec(text).files[0].content
    python = os.environ.get("TABBYAPI_PYTHON", "python3")
    env = {**os.environ, "PYTHONPATH": str(checkout)}
    done = subprocess.run([python, "-c", _CHECK], env=env, input=config, text=True, check=True,
                          capture_output=True)  # fmt: skip
    assert int(done.stdout) == 16


def test_a_shared_recipe_names_nobody_and_applies_elsewhere(tmp_path: Path) -> None:
    mine = Profile(
        id="mine",
        name="Taro's coder",
        target="wsl",
        distro="Ubuntu-Taro",
        engine=EngineRef("vllm", "/home/taro/venvs/vllm", "0.32.0"),
        model=ModelRef("/home/taro/models/org/Name", "taro-model"),
        network=Network("192.168.7.9", 8123, "taro-key"),
        settings={"tensor_parallel_size": 2, "chat_template": "/home/taro/x.jinja"},
        env={"NCCL_P2P_DISABLE": EnvEntry("1", "found by taro@home.example")},
        extra={"hf-token": "hf_abcdefgh12345678"},
    )
    text = make_recipe(mine, ["NVIDIA GeForce RTX 4090"] * 2)
    for secret in ("taro", "Taro", "192.168.7.9", "hf_abc", "home.example", "Ubuntu"):
        assert secret not in text.replace("Taro's coder", ""), secret
    assert "# Worked with: vllm 0.32.0, NVIDIA GeForce RTX 4090" in text
    path = tmp_path / "recipe.yaml"
    path.write_text(text)
    recipe = load_recipe(path)
    assert recipe.model.path == "/home/you/models/Name"
    applied = apply_recipe(recipe, draft("awq-two-cards-wsl", VLLM, "other", "m"))
    assert applied.settings["tensor_parallel_size"] == 2
    assert applied.engine.environment == VLLM.environment


@pytest.mark.parametrize("content", [None, b"\xff\xfe\x00", b"not a profile"])
def test_what_is_no_recipe_is_told(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "recipe.yaml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(TwinrigError):
        load_recipe(path)

"""What a new profile starts with on each platform and version."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from twinrig.domain.profile import Profile
from twinrig.engines.vllm import VllmEngine


@pytest.mark.parametrize(
    ("gpus", "size"), [(0, 1), (1, 1), (2, 2), (3, 2), (4, 4), (7, 4), (8, 8), (-1, 1)]
)
def test_tensor_parallel_uses_all_cards_that_heads_divide_by(
    engine: VllmEngine, gpus: int, size: int
) -> None:
    settings = engine.defaults(gpu_count=gpus, on_wsl=False, version="0.32.0")
    assert settings["tensor_parallel_size"] == size


def test_native_linux_needs_no_workaround(engine: VllmEngine) -> None:
    settings = engine.defaults(gpu_count=2, on_wsl=False, version="0.32.0")
    assert "disable_custom_all_reduce" not in settings
    assert "gpu_memory_utilization" not in settings
    assert engine.default_env(gpu_count=2, on_wsl=False, version="0.27.1") == {}


def test_two_cards_under_wsl(engine: VllmEngine) -> None:
    settings = engine.defaults(gpu_count=2, on_wsl=True, version="0.32.0")
    assert settings["disable_custom_all_reduce"] is True
    assert settings["gpu_memory_utilization"] == 0.88


def test_one_card_under_wsl_has_nothing_to_join(engine: VllmEngine) -> None:
    assert "disable_custom_all_reduce" not in engine.defaults(
        gpu_count=1, on_wsl=True, version="0.32.0"
    )
    assert engine.default_env(gpu_count=1, on_wsl=True, version="0.32.0") == {}


@pytest.mark.parametrize(
    ("version", "names"),
    [
        ("0.10.1.1", set()),
        ("0.10.2", {"NCCL_CUMEM_ENABLE"}),
        ("0.21.0", {"NCCL_CUMEM_ENABLE"}),
        ("0.22.1", {"NCCL_CUMEM_ENABLE", "VLLM_USE_V2_MODEL_RUNNER"}),
        ("0.23.0", {"NCCL_CUMEM_ENABLE", "VLLM_USE_V2_MODEL_RUNNER"}),
        ("0.24.0", {"NCCL_CUMEM_ENABLE", "VLLM_WSL2_ENABLE_PIN_MEMORY"}),
        ("0.29.1", {"NCCL_CUMEM_ENABLE", "VLLM_WSL2_ENABLE_PIN_MEMORY"}),
        ("0.29.0+cu129", {"NCCL_CUMEM_ENABLE", "VLLM_WSL2_ENABLE_PIN_MEMORY"}),
        ("0.30.0rc1", {"NCCL_CUMEM_ENABLE"}),
        ("0.33.0", {"NCCL_CUMEM_ENABLE"}),
        ("", {"NCCL_CUMEM_ENABLE"}),
        ("a fork", {"NCCL_CUMEM_ENABLE"}),
    ],
)
def test_wsl_environment_follows_the_version(
    engine: VllmEngine, version: str, names: set[str]
) -> None:
    env = engine.default_env(gpu_count=2, on_wsl=True, version=version)
    assert set(env) == names
    assert all(entry.reason.endswith(".") for entry in env.values())
    for name, value in (
        ("NCCL_CUMEM_ENABLE", "0"),
        ("VLLM_USE_V2_MODEL_RUNNER", "0"),
        ("VLLM_WSL2_ENABLE_PIN_MEMORY", "1"),
    ):
        assert name not in env or env[name].value == value


@pytest.mark.parametrize("version", ["", "0.10.2", "0.19.1", "0.24.0", "0.33.0"])
@pytest.mark.parametrize("gpus", [0, 1, 2, 3])
@pytest.mark.parametrize("on_wsl", [False, True])
def test_defaults_are_valid(
    engine: VllmEngine,
    make_profile: Callable[..., Profile],
    version: str,
    gpus: int,
    on_wsl: bool,
) -> None:
    profile = make_profile(
        settings=engine.defaults(gpu_count=gpus, on_wsl=on_wsl, version=version),
        env=engine.default_env(gpu_count=gpus, on_wsl=on_wsl, version=version),
    )
    profile = replace(profile, engine=replace(profile.engine, version=version))
    assert engine.validate(profile) == ()

"""What a new vLLM profile starts with, by platform and version.

Version ranges: vLLM 0.10.2 to 0.33.0 as read in the packages. On WSL2: NCCL's cuMem fails
since vLLM stopped switching it off (0.10.2); the V2 model runner needs pinned memory, which is
off there: 0.22 and 0.23 know only the old runner as a way out, 0.24 to 0.29 a variable, 0.30
falls back by itself.
"""

from __future__ import annotations

from collections.abc import Mapping

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from twinrig.domain.options import SettingValue
from twinrig.domain.profile import EnvEntry
from twinrig.messages import N_

DEFAULT_CONTEXT_LENGTH = 8192
DEFAULT_PARALLEL_REQUESTS = 8
WSL_GPU_SHARE = 0.88
"""0.7 to 1.5 GiB of each card are never free under WSL2; vLLM's own 0.92 fails on 12 GiB cards."""


def default_settings(*, gpu_count: int, on_wsl: bool) -> Mapping[str, SettingValue]:
    """Settings of a new profile: both cards, a modest context, few parallel requests."""
    settings: dict[str, SettingValue] = {
        "context_length": DEFAULT_CONTEXT_LENGTH,
        "tensor_parallel_size": _power_of_two(gpu_count),
        "max_num_seqs": DEFAULT_PARALLEL_REQUESTS,
    }
    if on_wsl:
        settings["gpu_memory_utilization"] = WSL_GPU_SHARE
        if gpu_count > 1:
            settings["disable_custom_all_reduce"] = True
    return settings


def default_environment(*, gpu_count: int, on_wsl: bool, version: str) -> Mapping[str, EnvEntry]:
    """Environment of a new profile; each entry tells why. Empty on a native Linux machine."""
    env: dict[str, EnvEntry] = {}
    if not on_wsl:
        return env
    if gpu_count > 1 and in_range(version, ">=0.10.2", unknown=True):
        env["NCCL_CUMEM_ENABLE"] = EnvEntry(
            "0", N_("Under WSL2 NCCL cannot join two cards through CUDA's virtual memory.")
        )
    if in_range(version, ">=0.24,<0.30"):
        env["VLLM_WSL2_ENABLE_PIN_MEMORY"] = EnvEntry(
            "1", N_("vLLM 0.24 to 0.29 needs pinned memory, which it switches off under WSL2.")
        )
    elif in_range(version, ">=0.22,<0.24"):
        env["VLLM_USE_V2_MODEL_RUNNER"] = EnvEntry(
            "0", N_("The new model runner of vLLM 0.22 and 0.23 cannot start under WSL2.")
        )
    return env


def in_range(version: str, specifier: str, *, unknown: bool = False) -> bool:
    """Whether ``version`` lies in ``specifier``; local tags and pre-releases count as their base.

    ``unknown`` is the answer for an empty or unparsable version.
    """
    try:
        base = Version(version).base_version
    except InvalidVersion:
        return unknown
    return SpecifierSet(specifier).contains(base)


def _power_of_two(gpu_count: int) -> int:
    """Three cards give two: hardly any model's heads divide by three."""
    return 1 << max(gpu_count.bit_length() - 1, 0) if gpu_count > 0 else 1

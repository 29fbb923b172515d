"""Settings of a vLLM profile as settings of an estimate."""

from __future__ import annotations

import json
from collections.abc import Mapping

from twinrig.domain.memory import Card, SizingSettings
from twinrig.domain.options import SettingValue
from twinrig.engines.setting_values import positive, switch

DEFAULT_SHARE = 0.92
"""vLLM's own default share, as read in 0.32."""


def vllm_sizing(
    values: Mapping[str, SettingValue], version: str, cards: tuple[Card, ...]
) -> SizingSettings:
    """What the settings leave to vLLM stays its default."""
    pool = positive(values, "kv_cache_memory_bytes")
    return SizingSettings(
        engine_version=version,
        cards=cards,
        tensor_parallel=positive(values, "tensor_parallel_size"),
        pipeline_parallel=positive(values, "pipeline_parallel_size") or 1,
        context_tokens=positive(values, "context_length"),
        kv_dtype=str(values.get("kv_cache_dtype") or "auto"),
        max_num_seqs=positive(values, "max_num_seqs"),
        max_num_batched_tokens=positive(values, "max_num_batched_tokens"),
        draft_tokens=_draft_tokens(values.get("speculative_config")),
        prefix_caching=switch(values, "enable_prefix_caching"),
        utilization=None if pool else _share(values.get("gpu_memory_utilization")),
        kv_pool_bytes=pool,
        enforce_eager=bool(values.get("enforce_eager", False)),
        text_only=bool(values.get("language_model_only", False)),
    )


def _share(value: SettingValue | None) -> float:
    """The share of a card that vLLM is given."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= 1:
        return DEFAULT_SHARE
    return float(value)


def _draft_tokens(text: SettingValue | None) -> int:
    if not isinstance(text, str) or not text.strip():
        return 0
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return 0
    count = found.get("num_speculative_tokens") if isinstance(found, dict) else None
    if isinstance(count, bool) or not isinstance(count, int) or not 0 < count <= 64:
        return 0
    return count

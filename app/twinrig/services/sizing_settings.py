"""A profile's settings as settings of an estimate, for each engine."""

from __future__ import annotations

import json
from collections.abc import Mapping

from twinrig.domain.memory import Card, Measurement, SizingSettings
from twinrig.domain.options import SettingValue
from twinrig.domain.profile import Profile

VLLM_DEFAULT_SHARE = 0.92
"""vLLM's own default share, as read in 0.32."""
DEFAULT_DRAFTS = 4
"""tabbyAPI drafts so many tokens when nothing is set (MTP and n-gram)."""
_DRAFTING = ("mtp", "ngram")


def settings_of(
    profile: Profile,
    cards: tuple[Card, ...],
    *,
    reserve_bytes: int,
    measurement: Measurement | None = None,
) -> SizingSettings:
    """Settings of an estimate for a profile; what it leaves to the engine stays the default."""
    if profile.engine.id == "tabbyapi":
        return _tabbyapi(profile, cards, reserve_bytes)
    return _vllm(profile, cards, reserve_bytes, measurement)


def _vllm(
    profile: Profile, cards: tuple[Card, ...], reserve_bytes: int, measurement: Measurement | None
) -> SizingSettings:
    """The demo engine plays vLLM and has no version of it."""
    values = profile.settings
    pool = number(values, "kv_cache_memory_bytes")
    return SizingSettings(
        engine_version="" if profile.engine.id == "demo" else profile.engine.version,
        cards=cards,
        tensor_parallel=number(values, "tensor_parallel_size"),
        pipeline_parallel=number(values, "pipeline_parallel_size") or 1,
        context_tokens=number(values, "context_length"),
        kv_dtype=str(values.get("kv_cache_dtype") or "auto"),
        max_num_seqs=number(values, "max_num_seqs"),
        max_num_batched_tokens=number(values, "max_num_batched_tokens"),
        draft_tokens=_draft_tokens(values.get("speculative_config")),
        prefix_caching=_flag(values, "enable_prefix_caching"),
        utilization=None if pool else share(values.get("gpu_memory_utilization")),
        kv_pool_bytes=pool,
        enforce_eager=bool(values.get("enforce_eager", False)),
        text_only=bool(values.get("language_model_only", False)),
        reserve_bytes=reserve_bytes,
        measurement=measurement,
    )


def _tabbyapi(profile: Profile, cards: tuple[Card, ...], reserve_bytes: int) -> SizingSettings:
    """``cache_tokens`` is the pool of all jobs; blank, it is the context length."""
    values = profile.settings
    parallel = values.get("tensor_parallel") is True and len(cards) > 1
    drafting = values.get("draft_mode") in _DRAFTING
    return SizingSettings(
        engine_id="tabbyapi",
        engine_version=profile.engine.version,
        cards=cards,
        tensor_parallel=len(cards) if parallel else None,
        context_tokens=number(values, "cache_tokens") or number(values, "context_length"),
        cache_mode=str(values.get("cache_mode") or "FP16"),
        max_batch_size=number(values, "max_batch_size"),
        chunk_size=number(values, "chunk_size") or 2048,
        gpu_split=_split(values.get("gpu_split"), len(cards)),
        draft_tokens=(number(values, "draft_num_tokens") or DEFAULT_DRAFTS) if drafting else 0,
        reserve_bytes=reserve_bytes,
    )


def number(values: Mapping[str, SettingValue], name: str) -> int | None:
    """A positive whole number, None for anything else."""
    value = values.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        return None
    return value


def share(value: SettingValue | None) -> float:
    """The share of a card that vLLM is given."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= 1:
        return VLLM_DEFAULT_SHARE
    return float(value)


def _flag(values: Mapping[str, SettingValue], name: str) -> bool | None:
    value = values.get(name)
    return value if isinstance(value, bool) else None


def _split(value: SettingValue | None, cards: int) -> tuple[float, ...]:
    """One number for each card; a list of another length is no split of these cards."""
    if not isinstance(value, tuple) or len(value) != cards:
        return ()
    try:
        found = tuple(float(part) for part in value)
    except ValueError:
        return ()
    return found if all(0 < part < 1e6 for part in found) else ()


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

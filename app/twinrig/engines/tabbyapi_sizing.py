"""Settings of a tabbyAPI profile as settings of an estimate."""

from __future__ import annotations

from collections.abc import Mapping

from twinrig.domain.memory import Card, SizingRules, SizingSettings
from twinrig.domain.options import SettingValue
from twinrig.engines.setting_values import positive

DEFAULT_DRAFTS = 4
"""tabbyAPI drafts so many tokens when nothing is set (MTP and n-gram)."""
_DRAFTING = ("mtp", "ngram")


def tabbyapi_sizing(
    engine_id: str, values: Mapping[str, SettingValue], version: str, cards: tuple[Card, ...]
) -> SizingSettings:
    """``cache_tokens`` is the pool of all jobs; blank, it is the context length."""
    parallel = values.get("tensor_parallel") is True and len(cards) > 1
    drafting = values.get("draft_mode") in _DRAFTING
    return SizingSettings(
        rules=SizingRules.EXL3,
        engine_id=engine_id,
        engine_version=version,
        cards=cards,
        tensor_parallel=len(cards) if parallel else None,
        context_tokens=positive(values, "cache_tokens") or positive(values, "context_length"),
        cache_mode=str(values.get("cache_mode") or "FP16"),
        max_batch_size=positive(values, "max_batch_size"),
        chunk_size=positive(values, "chunk_size") or 2048,
        gpu_split=_split(values.get("gpu_split"), len(cards)),
        draft_tokens=(positive(values, "draft_num_tokens") or DEFAULT_DRAFTS) if drafting else 0,
    )


def _split(value: SettingValue | None, cards: int) -> tuple[float, ...]:
    """One number for each card; a list of another length is no split of these cards."""
    if not isinstance(value, tuple) or len(value) != cards:
        return ()
    try:
        found = tuple(float(part) for part in value)
    except ValueError:
        return ()
    return found if all(0 < part < 1e6 for part in found) else ()

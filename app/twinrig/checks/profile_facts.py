"""What checks need to know of a profile, whatever its engine."""

from __future__ import annotations

from twinrig.domain.profile import Profile

ALLOCATOR_NAMES = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
"""Variables that configure torch's allocator; the second one from torch 2.9 on."""


def _count(profile: Profile, option_id: str) -> int:
    value = profile.settings.get(option_id)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 1


def tensor_parallel_size(profile: Profile | None) -> int:
    """Cards one layer is split over; 1 when not set."""
    if profile is None:
        return 1
    if profile.settings.get("tensor_parallel") is True:  # tabbyAPI: all cards that are let through
        return max(2, visible_cards(profile) or 2)
    return _count(profile, "tensor_parallel_size")


def rank_count(profile: Profile | None) -> int:
    """Cards the server asks for: tensor parallel times pipeline parallel."""
    if profile is None:
        return 1
    return tensor_parallel_size(profile) * _count(profile, "pipeline_parallel_size")


def uses_expandable_segments(profile: Profile | None) -> bool:
    """Whether the profile's environment turns expandable segments on."""
    if profile is None:
        return False
    values = (profile.env[name].value for name in ALLOCATOR_NAMES if name in profile.env)
    return any("expandable_segments:true" in value.lower().replace(" ", "") for value in values)


def visible_cards(profile: Profile | None) -> int | None:
    """How many cards ``CUDA_VISIBLE_DEVICES`` of the profile lets through; None = all."""
    entry = None if profile is None else profile.env.get("CUDA_VISIBLE_DEVICES")
    if entry is None:
        return None
    return sum(1 for part in entry.value.split(",") if part.strip())

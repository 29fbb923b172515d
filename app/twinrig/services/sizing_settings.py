"""A profile's settings as settings of an estimate, in the words of its engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from twinrig.domain.errors import UsageError
from twinrig.domain.memory import Card, Measurement, SizingSettings
from twinrig.domain.profile import Profile
from twinrig.engines.base import Engine
from twinrig.messages import message


def settings_of(
    engines: Mapping[str, Engine],
    profile: Profile,
    cards: tuple[Card, ...],
    *,
    reserve_bytes: int,
    measurement: Measurement | None = None,
) -> SizingSettings:
    """Settings of an estimate for a profile. Raises UsageError for an engine nobody knows."""
    engine = engines.get(profile.engine.id)
    if engine is None:
        raise UsageError(
            message("There is no engine {id}.", id=profile.engine.id),
            message("Known engines: {names}", names=", ".join(engines)),
        )
    settings = engine.sizing(profile, cards)
    return replace(settings, reserve_bytes=reserve_bytes, measurement=measurement)

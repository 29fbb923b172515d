"""What one token of context costs on each card, for the profile of a running server."""

from __future__ import annotations

from twinrig.domain.errors import TwinrigError
from twinrig.domain.memory import MemoryPlan, PartKind
from twinrig.domain.profile import Profile
from twinrig.services.estimating import Estimating, cards_of
from twinrig.services.sizing_settings import settings_of
from twinrig.sizing.estimate import estimate


async def kv_bytes_per_token(facts: Estimating, profile: Profile) -> tuple[float, ...]:
    """Bytes of KV cache per token, one figure for each card; empty when it cannot be known."""
    gpus, _samples = await facts.gpus()
    try:
        model = await facts.model(profile.model.path)
        settings = settings_of(
            facts.engines, profile, cards_of(gpus, ()), reserve_bytes=facts.reserve_bytes
        )
        return cost_of(estimate(model, settings))
    except TwinrigError:
        return ()


def cost_of(plan: MemoryPlan) -> tuple[float, ...]:
    """The plan's bytes per token, spread over the cards as the plan spreads its KV cache."""
    whole = plan.kv_bytes_total
    if not whole or not plan.kv_bytes_per_token_total:
        return ()
    return tuple(plan.kv_bytes_per_token_total * gpu.size(PartKind.KV) / whole for gpu in plan.gpus)

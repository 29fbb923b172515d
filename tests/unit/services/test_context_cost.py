"""What a token costs on each card: from the same plan as the estimate, or not at all."""

from __future__ import annotations

import pytest

from fixtures.memory_host import FakeClock
from fixtures.sizing_models import DENSE_8B
from twinrig import assets
from twinrig.domain.errors import UsageError
from twinrig.domain.gpu import GpuInfo
from twinrig.domain.memory import GIB
from twinrig.domain.profile import EngineRef, ModelRef, Profile
from twinrig.engines.registry import load_engines
from twinrig.messages import message
from twinrig.services.context_cost import kv_bytes_per_token
from twinrig.sizing.estimate import SizedModel, sized_model

KV_BYTES = 2 * 32 * 8 * 128 * 2
"""Key and value, 32 layers, 8 heads of 128, two bytes each."""


class Facts:
    reserve_bytes = GIB
    engines = load_engines(assets.read_text)

    def __init__(self, model: SizedModel | None) -> None:
        self._model = model
        self.clock = FakeClock()

    async def gpus(self):
        return tuple(GpuInfo(i, f"u{i}", "Card", 24 * GIB) for i in range(2)), ()

    async def model(self, path: str) -> SizedModel:
        if self._model is None:
            raise UsageError(message("No model."))
        return self._model


def profile(**settings) -> Profile:
    engine = EngineRef("vllm", "", "0.32.0")
    return Profile("p", "P", "local", engine, ModelRef("/m"), settings=settings)


async def test_two_cards_share_what_a_token_costs() -> None:
    facts = Facts(sized_model(DENSE_8B, 16 * GIB))
    cost = await kv_bytes_per_token(facts, profile(tensor_parallel_size=2, context_length=8192))
    assert cost == pytest.approx((KV_BYTES / 2, KV_BYTES / 2))


async def test_a_model_that_cannot_be_read_costs_nobody_knows_what() -> None:
    assert await kv_bytes_per_token(Facts(None), profile(tensor_parallel_size=2)) == ()

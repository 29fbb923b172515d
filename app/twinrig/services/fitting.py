"""Does a model fit these cards? One answer for models of the library and of a hub alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from twinrig.domain.errors import TwinrigError
from twinrig.domain.memory import Card, Verdict
from twinrig.domain.profile import EngineRef, ModelRef, Profile
from twinrig.engines.base import Engine
from twinrig.messages import Message
from twinrig.services.sizing_settings import settings_of
from twinrig.sizing.estimate import SizedModel, estimate, sized_model

if TYPE_CHECKING:
    from twinrig.services.workbench import Workbench

EXL3 = "exl3"


@dataclass(frozen=True)
class Fit:
    """``verdict`` None = it cannot be told, ``text`` says why; ``context_tokens`` is the longest
    single request with the engine's own defaults."""

    verdict: Verdict | None
    context_tokens: int | None = None
    text: Message | None = None


@dataclass(frozen=True)
class Fitting:
    """The cards of a machine and the engines to choose from; pure."""

    engines: Mapping[str, Engine]
    cards: tuple[Card, ...]
    reserve_bytes: int
    on_wsl: bool
    demo: bool

    def engine_for(self, quantization: str) -> Engine | None:
        """The first engine of this machine that loads the format; None when none does."""
        own = (e for e in self.engines.values() if e.simulated == self.demo)
        return next((e for e in own if e.loads(quantization)), None)

    def of_config(self, config: Mapping[str, Any], weights_bytes: int) -> Fit:
        """A model that is known by its configuration and the size of its weights."""
        try:
            model = sized_model(config, weights_bytes or None)
        except TwinrigError as error:
            return Fit(None, text=error.text)
        found = config.get("quantization_config")
        method = found.get("quant_method") if isinstance(found, Mapping) else ""
        return self.of_model(model, str(method or ""))

    def of_model(self, model: SizedModel, quantization: str) -> Fit:
        """With the engine's own defaults for these cards."""
        engine = self.engine_for(quantization)
        if engine is None or not self.cards:
            return Fit(None)
        profile = Profile(
            id="fit",
            name="fit",
            target="",
            engine=EngineRef(engine.id),
            model=ModelRef(""),
            settings=dict(
                engine.defaults(gpu_count=len(self.cards), on_wsl=self.on_wsl, version="")
            ),
        )
        try:
            settings = settings_of(
                self.engines, profile, self.cards, reserve_bytes=self.reserve_bytes
            )
            plan = estimate(model, settings)
        except TwinrigError as error:
            return Fit(None, text=error.text)
        return Fit(plan.verdict, plan.max_context_tokens, plan.summary)


async def fitting_of(workbench: Workbench) -> Fitting:
    """Reads the cards once."""
    facts = workbench.estimating()
    cards, _machine = await facts.cards()
    return Fitting(workbench.engines, cards, facts.reserve_bytes, workbench.on_wsl, workbench.demo)

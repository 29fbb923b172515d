"""What the memory part of the Plan page shows: facts gathered once, plans computed at each edit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from twinrig.domain.errors import TwinrigError
from twinrig.domain.memory import (
    GIB,
    Card,
    GpuPlan,
    Lever,
    Measurement,
    MemoryPlan,
    PartKind,
    Verdict,
)
from twinrig.domain.metrics import ServerSetup
from twinrig.domain.profile import Profile
from twinrig.engines.base import Engine
from twinrig.messages import Message, message
from twinrig.services.calibration import match, settings_key
from twinrig.services.sizing_settings import settings_of
from twinrig.sizing.estimate import SizedModel, estimate
from twinrig.sizing.solve import levers

if TYPE_CHECKING:
    from twinrig.services.workbench import Workbench

TONES = {
    Verdict.FITS: "ok",
    Verdict.TIGHT: "warn",
    Verdict.DOES_NOT_FIT: "fail",
    Verdict.UNKNOWN: "muted",
}
MIN_CONTEXT = 1024


@dataclass(frozen=True)
class SizingFacts:
    """What does not change while the user types. ``error`` says why there is no ``model``."""

    path: str
    model: SizedModel | None = None
    error: TwinrigError | None = None
    cards: tuple[Card, ...] = ()
    machine: str = ""
    measurements: tuple[Measurement, ...] = ()
    reserve_bytes: int = 0
    engines: Mapping[str, Engine] = field(default_factory=dict)


@dataclass(frozen=True)
class SizingAnswer:
    """A plan for the settings as typed, or the sentence of why there is none."""

    plan: MemoryPlan | None
    fault: Message | None = None
    next_step: Message | None = None
    levers: tuple[Lever, ...] = ()
    measurement: Measurement | None = None
    limit: int | None = None

    @property
    def tone(self) -> str:
        """Semantic colour of the verdict."""
        return "muted" if self.plan is None else TONES[self.plan.verdict]


async def gather_facts(workbench: Workbench, path: str) -> SizingFacts:
    """Read model folder, cards and measurements of the target."""
    facts = workbench.estimating()
    await facts.collect(workbench.profiles)
    cards, machine = await facts.cards()
    model, error = None, None
    try:
        model = await facts.model(path)
    except TwinrigError as fault:
        error = fault
    return SizingFacts(
        path=path,
        model=model,
        error=error,
        cards=cards,
        machine=machine,
        measurements=facts.store.all(),
        reserve_bytes=facts.reserve_bytes,
        engines=workbench.engines,
    )


async def measure_start(workbench: Workbench) -> Measurement | None:
    """Keep what the server that became ready has shown; None when it shows nothing new."""
    return await workbench.estimating().collect(workbench.profiles)


def answer(facts: SizingFacts, profile: Profile) -> SizingAnswer:
    """The plan for a profile as typed; pure and quick (a few milliseconds with the levers)."""
    if facts.model is None:
        error = facts.error
        return SizingAnswer(None, error.text if error else None, error.next_step if error else None)
    measurement = _measurement(facts, profile)
    try:
        settings = settings_of(
            facts.engines,
            profile,
            facts.cards,
            reserve_bytes=facts.reserve_bytes,
            measurement=measurement,
        )
        plan = estimate(facts.model, settings)
        found = levers(facts.model, settings) if facts.cards else ()
    except TwinrigError as error:
        return SizingAnswer(None, error.text, error.next_step)
    return SizingAnswer(plan, None, None, found, measurement, facts.model.shape.max_position)


def _measurement(facts: SizingFacts, profile: Profile) -> Measurement | None:
    engine = profile.engine
    wanted = Measurement(
        facts.machine,
        engine.id,
        engine.version,
        profile.model.path,
        0.0,
        settings_key=settings_key(profile.settings),
    )
    return match(facts.measurements, wanted)


def setup_of(workbench: Workbench, profile: Profile) -> ServerSetup:
    """What the settings are called in the profile's engine."""
    engine = workbench.engines.get(profile.engine.id)
    return engine.setup(profile) if engine is not None else ServerSetup()


def best_settings(profile: Profile, plan: MemoryPlan, setup: ServerSetup) -> dict[str, str]:
    """Settings that use what is free: longest context, and no more requests than can start."""
    found: dict[str, str] = {}
    if plan.max_context_tokens:
        found[setup.context_setting] = str(plan.max_context_tokens)
    asked = profile.settings.get(setup.slots_setting)
    most = plan.max_num_seqs
    if most is not None and (not isinstance(asked, int) or asked > most):
        found[setup.slots_setting] = str(most)
    return found


def predicted_against_measured(answer: SizingAnswer) -> Message | None:
    """One sentence, None when nothing was measured."""
    found, plan = answer.measurement, answer.plan
    if found is None or plan is None or found.kv_pool_bytes is None:
        return None
    return message(
        "KV cache per card: {predicted} GiB predicted, {measured} GiB measured at the last start.",
        predicted=gib(plan.kv_pool_bytes or 0),
        measured=gib(found.kv_pool_bytes),
    )


def needs_per_card(plan: MemoryPlan) -> Message | None:
    """What a card must hold, where no card is known; None when one is."""
    if plan.verdict is not Verdict.UNKNOWN or plan.weights_bytes is None:
        return None
    if plan.kv_needed_bytes is None:
        return message(
            "Each card needs {weights} GiB for weights.", weights=gib(plan.weights_bytes)
        )
    return message(
        "Each card needs {weights} GiB for weights and {cache} GiB for one conversation.",
        weights=gib(plan.weights_bytes),
        cache=gib(plan.kv_needed_bytes),
    )


def gib(size_bytes: int) -> str:
    """One decimal."""
    return f"{size_bytes / GIB:.1f}"


def segments(gpu: GpuPlan) -> tuple[tuple[PartKind, int, Message], ...]:
    """Parts of a card that take room, in drawing order."""
    return tuple((p.kind, p.size_bytes, p.text) for p in gpu.parts if p.size_bytes > 0)

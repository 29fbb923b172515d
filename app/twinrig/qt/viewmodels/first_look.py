"""Looks for the first steps: what is on the target, a profile for a model, a first reply."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from twinrig.domain.errors import TwinrigError
from twinrig.domain.gpu import GpuInfo
from twinrig.domain.profile import Profile
from twinrig.domain.server import ACTIVE_STATES
from twinrig.qt.settings import PanelSettings
from twinrig.qt.viewmodels.chat import Running, recommended_samplers, stream_parts
from twinrig.qt.viewmodels.first_steps import Found, StepId
from twinrig.qt.viewmodels.models import engines_for
from twinrig.qt.viewmodels.runs import load_or_none
from twinrig.qt.viewmodels.saving import new_profile, save_new
from twinrig.qt.viewmodels.sizing import answer, gather_facts
from twinrig.services.completions import ChatMessage
from twinrig.services.first_reply import MAX_REPLY_TOKENS, wordless
from twinrig.services.fitting import fitting_of
from twinrig.services.free_port import with_free_port
from twinrig.services.sampler_defaults import request_options
from twinrig.services.thinking import Part

if TYPE_CHECKING:
    from twinrig.services.workbench import Workbench


class Remembered:
    """What the panel remembers of the first steps, for each target apart."""

    def __init__(self, settings: PanelSettings, target: str) -> None:
        self._settings = settings
        self._target = target

    @property
    def over(self) -> bool:
        """Dismissed, or gone through."""
        return self._flag("over")

    @over.setter
    def over(self, value: bool) -> None:
        self._set("over", value)

    @property
    def begun(self) -> bool:
        """They were shown once."""
        return self._flag("begun")

    @begun.setter
    def begun(self, value: bool) -> None:
        self._set("begun", value)

    @property
    def proven(self) -> bool:
        """A server of this target has answered a question."""
        return self._flag("proven")

    @proven.setter
    def proven(self, value: bool) -> None:
        self._set("proven", value)

    @property
    def skipped(self) -> frozenset[StepId]:
        """Steps that the user wants nothing of."""
        return frozenset(step for step in StepId if self._flag(f"skip-{step}"))

    def skip(self, step: StepId, value: bool) -> None:
        """Leave a step out, or take it up again."""
        self._set(f"skip-{step}", value)

    def wanted(self, profiles: int) -> bool:
        """Whether they show by themselves: on a fresh target, and until they are over."""
        return not self.over and not self.proven and (self.begun or profiles == 0)

    def _flag(self, name: str) -> bool:
        return self._settings.flag(f"first-steps-{self._target}-{name}")

    def _set(self, name: str, value: bool) -> None:
        self._settings.set_flag(f"first-steps-{self._target}-{name}", value)


async def look_round(workbench: Workbench, wanted_profile: str) -> Found:
    """Everything the steps are made of but the checks; a part that fails is told, not raised."""
    found = Found(looked=True, label=workbench.label, demo=workbench.demo)
    record = await workbench.controller.active_record()
    found = replace(found, record=record)
    if record is not None and record.state in ACTIVE_STATES:
        wanted_profile = record.profile_id
    try:
        await workbench.host.home()
        cards = await asyncio.to_thread(_cards, workbench)
        found = replace(found, cards=cards)
    except TwinrigError as error:
        found = replace(found, machine_fault=error)
    found = await _with_profile(workbench, found, wanted_profile)
    found = await _with_engine(workbench, found)
    if found.profile is not None:
        return found
    try:
        models = await workbench.models.scan()
    except TwinrigError:
        return found  # the list of models tells why
    complete = sum(model.complete for model in models)
    return replace(found, models=complete, incomplete=len(models) - complete)


def _cards(workbench: Workbench) -> tuple[GpuInfo, ...]:
    probe = workbench.open_gpu_probe()
    try:
        return probe.devices()
    finally:
        probe.close()


async def _with_profile(workbench: Workbench, found: Found, wanted: str) -> Found:
    own = await asyncio.to_thread(
        lambda: [p.id for p in workbench.profiles.list().profiles if p.target == workbench.target]
    )
    chosen = wanted if wanted in own else next(iter(own), "")
    profile, fault = await load_or_none(workbench, chosen)
    found = replace(found, profile=profile, profile_fault=fault)
    if profile is None:
        return found
    facts = await gather_facts(workbench, profile.model.path)
    status = await workbench.controller.status(profile.id)
    sizing = await asyncio.to_thread(answer, facts, profile)
    return replace(found, sizing=sizing, autostart=status.autostart)


async def _with_engine(workbench: Workbench, found: Found) -> Found:
    """The profile's engine; without a profile the first one of this machine."""
    engines, profile = engines_for(workbench), found.profile
    places = [(e.id, e.name, "") for e in engines]
    if profile is not None and profile.engine.id in workbench.engines:
        name = workbench.engines[profile.engine.id].name
        places = [(profile.engine.id, name, profile.engine.environment)]
        found = replace(found, engine_name=name)
    able = tuple((e_id, name) for e_id, name, _ in places if e_id in workbench.setup.engines)
    found = replace(found, set_ups=able)
    try:
        for engine_id, name, environment in places:
            installs = await workbench.installs.find(engine_id, environment)
            if installs:
                return replace(found, install=installs[0], engine_name=name)
    except TwinrigError as error:
        return replace(found, engine_fault=error)
    return found


async def make_first_profile(workbench: Workbench, model_path: str) -> Profile:
    """A saved profile for a model: an engine that reads its format, that engine's own settings
    for these cards, and a port that is free."""
    model = await workbench.models.describe(model_path)
    fitting = await fitting_of(workbench)
    engine = fitting.engine_for(model.quantization if model is not None else "")
    engine_id = engine.id if engine is not None else ""
    name = PurePosixPath(model_path.rstrip("/")).name or engine_id
    opened = await new_profile(workbench, engine_id, name, model_path)
    profile = await with_free_port(workbench, opened.profile)
    return await asyncio.to_thread(save_new, workbench.profiles, profile)


async def first_reply(
    workbench: Workbench, question: str, running: Running
) -> AsyncIterator[tuple[Part, ...]]:
    """One short streamed reply of the running server. Raises as ``stream_parts``, and
    ReplyError for a reply without a word."""
    samplers = await recommended_samplers(workbench)
    options = {**request_options(dict(samplers)), "max_tokens": MAX_REPLY_TOKENS}
    empty = True
    async for parts in stream_parts(workbench, (ChatMessage("user", question),), options, running):
        empty = empty and not any(part.text.strip() for part in parts)
        yield parts
    if empty:
        raise wordless()

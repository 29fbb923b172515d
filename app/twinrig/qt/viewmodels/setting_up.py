"""Set-ups and downloads as streams for the bridge, and what their dialogs show of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from twinrig.domain.memory import Verdict
from twinrig.domain.quantities import gib
from twinrig.domain.wording import VERDICT_WORDS
from twinrig.messages import Message, message
from twinrig.services.fitting import Fit, fitting_of
from twinrig.services.hub import HubLook, HubModel, ModelName

if TYPE_CHECKING:
    from twinrig.domain.checks import Finding
    from twinrig.domain.profile import Profile
    from twinrig.services.engine_setup import SetupPlan
    from twinrig.services.workbench import Workbench

SETUP_FINDINGS = frozenset(
    {"engine-not-installed", "cudart13-missing", "torch-cpu-build", "no-kernel-image"}
    | {"python-missing", "python-unsupported"}
)
"""Findings that a new environment of the engine is a way out of."""
UNKNOWN_FIT = Fit(None)
TONES = {Verdict.FITS: "ok", Verdict.TIGHT: "warn", Verdict.DOES_NOT_FIT: "fail"}


def engine_to_set_up(
    workbench: Workbench, finding_id: str, engine: str, profile: Profile | None
) -> str:
    """Which engine a set-up would help with; "" = none."""
    wanted = engine or (profile.engine.id if profile is not None else "")
    able = finding_id in SETUP_FINDINGS and wanted in workbench.setup.engines
    return wanted if able else ""


def engine_of_finding(workbench: Workbench, finding: Finding, profile: Profile | None) -> str:
    """As ``engine_to_set_up``, for a finding of a check or a diagnosis."""
    return engine_to_set_up(workbench, finding.id, finding.param("engine"), profile)


async def told(
    work: Callable[[Callable[[Any], object]], Awaitable[Any]],
) -> AsyncIterator[Any]:
    """What ``work`` tells while it goes on, then its result; leaving early cancels it."""
    queue: asyncio.Queue[Any] = asyncio.Queue()
    task = asyncio.ensure_future(work(queue.put_nowait))
    task.add_done_callback(lambda _task: queue.put_nowait(None))
    try:
        while (item := await queue.get()) is not None:
            yield item
        yield await task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def plan_lines(plan: SetupPlan) -> tuple[Message, ...]:
    """What a set-up would do, a sentence each."""
    lines = [
        message(
            "{engine} {version} with wheels for CUDA {cuda}, which fits your driver.",
            engine=plan.name,
            version=plan.version[:12],
            cuda=plan.build.cuda,
        ),
        message(
            "An environment of its own in {folder}; nothing else is touched.", folder=plan.root
        ),
        message(
            "It needs about {needed} GiB; {free} GiB are free.",
            needed=gib(plan.needs_bytes),
            free=gib(plan.free_bytes),
        ),
    ]
    if plan.replaces:
        lines.append(
            message("The version in use stays until the new one is proven; undo goes back to it.")
        )
    if plan.kept_bytes:
        lines.append(
            message(
                "An earlier set-up was cut off; {size} GiB of it are downloaded and used again.",
                size=gib(plan.kept_bytes),
            )
        )
    return tuple(lines)


@dataclass(frozen=True)
class FoundModel:
    """A row of the search: ``size_bytes`` None = not looked at yet."""

    name: ModelName
    downloads: int
    gated: bool
    size_bytes: int | None = None
    fit: Fit = UNKNOWN_FIT
    problem: Message | None = None

    @property
    def fit_word(self) -> Message | str:
        """Marked sentence; "" while it is not known."""
        return "" if self.fit.verdict is None else VERDICT_WORDS[self.fit.verdict]

    @property
    def usable(self) -> bool:
        """It can be downloaded as it is."""
        return self.size_bytes is not None and self.problem is None


async def find_models(
    workbench: Workbench, text: str, engine_id: str
) -> AsyncIterator[tuple[FoundModel, ...] | FoundModel]:
    """All hits at once, then each again with size and fit. A full name is looked at as it is."""
    hits = await _hits(workbench, text, engine_id)
    rows = {hit.name: FoundModel(hit.name, hit.downloads, hit.gated) for hit in hits}
    yield tuple(rows.values())
    if not rows:
        return
    fitting = await fitting_of(workbench)
    async with aclosing(workbench.hub.look(list(rows))) as looks:
        async for look in looks:
            yield _looked(rows[look.name], look, fitting.of_config)


async def _hits(workbench: Workbench, text: str, engine_id: str) -> tuple[HubModel, ...]:
    from twinrig.domain.errors import UsageError
    from twinrig.services.hub import parse_name

    if "/" in text:
        try:
            return (HubModel(parse_name(text), 0, False),)
        except UsageError:
            pass
    return await workbench.hub.search(text, engine_id)


def _looked(row: FoundModel, look: HubLook, fit: Callable[[Any, int], Fit]) -> FoundModel:
    problem = look.problem.text if look.problem is not None else None
    if look.problem is not None and look.branches:
        problem = look.problem.next_step
    known = look.config is not None and look.weights_bytes
    return replace(
        row,
        size_bytes=look.size_bytes,
        fit=fit(look.config, look.weights_bytes) if known else UNKNOWN_FIT,
        problem=problem,
    )

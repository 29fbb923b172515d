"""Work that pages hand to the bridge: streams of check results, states and log lines."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING

from twinrig import assets
from twinrig.diagnosis.rule_files import load_shipped
from twinrig.domain.checks import CheckResult
from twinrig.domain.errors import GpuUnavailableError, TwinrigError
from twinrig.domain.profile import Profile
from twinrig.domain.supervision import Failure
from twinrig.qt.viewmodels.log import CHUNK_BYTES
from twinrig.services.case import own_report
from twinrig.services.diagnoser import Diagnoser
from twinrig.services.live_diagnosis import live_failures
from twinrig.services.run_context import profile_facts

if TYPE_CHECKING:
    from twinrig.domain.install import EngineInstall
    from twinrig.services.controller import ServerController, ServerStatus
    from twinrig.services.log_reader import LogChunk
    from twinrig.services.workbench import Workbench

LOG_INTERVAL_S = 0.1
STATUS_INTERVAL_S = 1.0
MAX_FULL_CHUNKS = 5


async def load_or_none(
    workbench: Workbench, profile_id: str
) -> tuple[Profile | None, TwinrigError | None]:
    """The profile, or why it cannot be used; ``(None, None)`` when none is chosen."""
    if not profile_id:
        return None, None
    try:
        return await asyncio.to_thread(workbench.profiles.load, profile_id), None
    except TwinrigError as error:
        return None, error


async def preflight_run(
    workbench: Workbench, profile_id: str, ids: Sequence[str] | None
) -> AsyncIterator[CheckResult | Profile | TwinrigError]:
    """First the profile (or why there is none); then a result per check.

    Without a chosen profile the one that Start would mean is judged: the target's first.
    """
    if not profile_id:
        profile_id = await asyncio.to_thread(_first_profile, workbench)
    profile, error = await load_or_none(workbench, profile_id)
    if error is not None:
        yield error
    if profile is not None:
        yield profile
    async for result in workbench.preflight.run(profile=profile, ids=ids):
        yield result


def _first_profile(workbench: Workbench) -> str:
    own = (p.id for p in workbench.profiles.list().profiles if p.target == workbench.target)
    return next(own, "")


async def status_stream(
    workbench: Workbench, profile_id: str
) -> AsyncIterator[tuple[ServerStatus, str]]:
    """State of one profile once a second, with the id of another profile that is active."""
    controller = workbench.controller
    while True:
        status = await controller.status(profile_id)
        yield status, await _other_active(controller, profile_id)
        await workbench.clock.sleep(STATUS_INTERVAL_S)


async def _other_active(controller: ServerController, profile_id: str) -> str:
    active = await controller.active()
    return "" if active is None or active.profile_id == profile_id else active.profile_id


async def log_stream(
    workbench: Workbench, profile_id: str, file_id: str, offset: int
) -> AsyncIterator[LogChunk]:
    """What is new in the log, at most ten times a second, from where the reader stands.

    A log that grows faster than is read (2.6 MB/s) is continued at its end.
    """
    full = 0
    while True:
        chunk = await asyncio.to_thread(
            workbench.controller.read_log, profile_id, file_id, offset, CHUNK_BYTES
        )
        if chunk.text or chunk.file_id != file_id or chunk.offset != offset:
            yield chunk
        full = full + 1 if len(chunk.text) > CHUNK_BYTES // 2 else 0
        file_id, offset = chunk.file_id, chunk.offset
        if full > MAX_FULL_CHUNKS:
            full, offset = 0, -1
        await workbench.clock.sleep(LOG_INTERVAL_S)


async def cause_stream(workbench: Workbench, profile_id: str) -> AsyncIterator[Failure | None]:
    """What the log of a running server shows to be wrong, each time that changes."""
    rules = await asyncio.to_thread(load_shipped, assets.read_text)
    profile, _error = await load_or_none(workbench, profile_id)
    facts: dict[str, str] = {}
    if profile is not None:
        engine = workbench.engines.get(profile.engine.id)
        facts = profile_facts(profile, engine, on_wsl=workbench.on_wsl)
    path = workbench.layout.log(profile_id)
    async for failure in live_failures(path, rules, facts, workbench.clock):
        yield failure


async def report_of(workbench: Workbench, profile_id: str) -> str:
    """The masked report of a profile's server, its checks run anew."""
    rules = await asyncio.to_thread(load_shipped, assets.read_text)
    return await own_report(workbench, profile_id, Diagnoser(rules))


async def find_install(
    workbench: Workbench, engine_id: str, environment: str = ""
) -> EngineInstall | None:
    """The first environment that holds the engine; None when there is none."""
    found = await workbench.installs.find(engine_id, environment)
    return found[0] if found else None


async def gpu_count(workbench: Workbench) -> int | None:
    """How many cards the target has; None = unknown."""

    def count() -> int:
        probe = workbench.open_gpu_probe()
        try:
            return len(probe.devices())
        finally:
            probe.close()

    try:
        return await asyncio.to_thread(count)
    except GpuUnavailableError:
        return None

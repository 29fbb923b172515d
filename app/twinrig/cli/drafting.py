"""A first profile from what the machine has: engine, environment, model, cards."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from twinrig.cli.format import gib
from twinrig.cli.terminal import Terminal
from twinrig.domain.errors import GpuUnavailableError, UsageError
from twinrig.domain.gpu import GpuInfo
from twinrig.domain.install import EngineInstall
from twinrig.domain.profile import Profile
from twinrig.domain.wsl import linux_path
from twinrig.messages import message
from twinrig.services.free_port import with_free_port
from twinrig.services.models import ModelFolder
from twinrig.services.workbench import Workbench


async def cards_of(bench: Workbench) -> tuple[GpuInfo, ...]:
    """Cards of the target. Raises GpuUnavailableError."""

    def ask() -> tuple[GpuInfo, ...]:
        probe = bench.open_gpu_probe()
        try:
            return probe.devices()
        finally:
            probe.close()

    return await asyncio.to_thread(ask)


async def draft_profile(
    terminal: Terminal,
    bench: Workbench,
    *,
    name: str = "",
    engine_id: str | None = None,
    environment: str | None = None,
    model_path: str | None = None,
) -> Profile:
    """An unsaved profile; asks where there is a choice and somebody to answer.

    Raises UsageError naming what is missing and how to give it.
    """
    engine_id = engine_id or await _installed_engine(bench)
    environment = await _absolute(bench, environment)
    model_path = await _absolute(bench, model_path)
    found = await bench.installs.find(engine_id, environment or "")
    install = found[0] if found else None
    if not model_path:
        model_path = (await choose_model(terminal, bench)).path
    try:
        cards: Sequence[GpuInfo] = await cards_of(bench)
    except GpuUnavailableError:
        cards = ()
    draft = bench.profiles.draft(
        engine_id,
        name=name or model_path.rstrip("/").rpartition("/")[2] or engine_id,
        target=bench.target,
        model_path=model_path,
        gpu_count=len(cards),
        on_wsl=bench.on_wsl,
        install=_install(install, engine_id, environment),
    )
    return await _with_free_port(terminal, bench, replace(draft, distro=bench.distro))


async def _absolute(bench: Workbench, path: str | None) -> str | None:
    """A path as typed in this terminal: ``~`` is the target's home, "here" only this computer's,
    and one that Explorer shows becomes that of Linux."""
    if path and (path == "~" or path.startswith("~/")):
        return await bench.host.home() + path[1:]
    if path and bench.target == "local":
        return _from_here(path)
    return (linux_path(path) or path) if path and bench.on_wsl else path


def _from_here(path: str) -> str:
    return str(Path(path).absolute())


async def _with_free_port(terminal: Terminal, bench: Workbench, draft: Profile) -> Profile:
    """The draft on the next port that nobody uses, told when that is another one."""
    free = await with_free_port(bench, draft)
    if free.network.port != draft.network.port:
        terminal.say(
            message(
                "Port {taken} is in use; the new profile uses {port}.",
                taken=draft.network.port,
                port=free.network.port,
            ),
            "warn",
        )
    return free


def default_engine(bench: Workbench) -> str:
    """The demo engine on the demo rig, else the first real one."""
    fitting = (e.id for e in bench.engines.values() if e.simulated == bench.demo)
    return next(fitting, next(iter(bench.engines)))


async def _installed_engine(bench: Workbench) -> str:
    """The first fitting engine that this machine has, else the first fitting one."""
    for engine in bench.engines.values():
        if engine.simulated == bench.demo and await bench.installs.find(engine.id):
            return engine.id
    return default_engine(bench)


async def choose_model(terminal: Terminal, bench: Workbench) -> ModelFolder:
    """The only complete model, or the one the user picks. Raises UsageError.

    The demo rig's largest is taken when nobody is there to ask.
    """
    models = [m for m in await bench.models.scan() if m.complete]
    if len(models) == 1:
        return models[0]
    if bench.demo and models and not terminal.can_ask:
        return max(models, key=lambda m: m.size_bytes or 0)
    if not models:
        raise UsageError(
            message("No complete model folder was found."),
            message(
                'Name one with --model FOLDER, or look for one with "twinrig models search". '
                "Looked in: {folders}",
                folders=", ".join(bench.models.folders),
            ),
        )
    lines = [f"{m.name}  {gib(m.size_bytes)}  {m.path}" for m in models]
    chosen = terminal.choose(message("Which model?"), lines)
    if chosen is None:
        raise UsageError(
            message("There are several models; name one with --model FOLDER."),
            message("Models: {names}", names=", ".join(m.path for m in models)),
        )
    return models[chosen]


def _install(
    found: EngineInstall | None, engine_id: str, environment: str | None
) -> EngineInstall | None:
    if found is None and environment:
        return EngineInstall(engine_id, environment, "", "")
    return found

"""Getting profiles for the Plan page from disk and back, off the GUI thread."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from twinrig.domain.errors import DamagedFileError, UsageError
from twinrig.domain.install import EngineInstall
from twinrig.domain.profile import Profile
from twinrig.qt.viewmodels.runs import find_install, gpu_count

if TYPE_CHECKING:
    from twinrig.services.profile_store import ProfileStore
    from twinrig.services.workbench import Workbench


@dataclass(frozen=True)
class Opened:
    """A profile ready to be edited. ``base`` None = it is new. ``install`` None = no engine."""

    profile: Profile
    base: Profile | None
    install: EngineInstall | None


async def open_profile(workbench: Workbench, profile_id: str) -> Opened:
    """A saved profile, with its faults if it has some. Raises as ``load_with_faults``."""
    store = workbench.profiles
    profile, _faults = await asyncio.to_thread(store.load_with_faults, profile_id)
    engine = profile.engine
    install = None
    if engine.id in workbench.engines:
        install = await find_install(workbench, engine.id, engine.environment)
    return Opened(profile, profile, install)


async def new_profile(workbench: Workbench, engine_id: str, name: str, model_path: str) -> Opened:
    """An unsaved profile with the engine's defaults for this machine's cards.

    Where the number of cards is unknown, the defaults of one card are used: they start anywhere.
    """
    install = await find_install(workbench, engine_id)
    cards = await gpu_count(workbench)
    profile = await asyncio.to_thread(
        lambda: workbench.profiles.draft(
            engine_id,
            name=name,
            target=workbench.target,
            model_path=model_path,
            gpu_count=cards or 1,
            on_wsl=workbench.on_wsl,
            install=install,
        )
    )
    return Opened(replace(profile, distro=workbench.distro), None, install)


def save_new(store: ProfileStore, profile: Profile) -> Profile:
    """Save under an id made of the name that nobody has. Raises ProfileError."""
    named = replace(profile, id=store.free_id(profile.name))
    store.save(named)
    return named


def overwrite(store: ProfileStore, profile: Profile) -> Profile:
    """Save although the file holds something else by now; that is kept as previous version.

    A file that vanished is written anew, one that is damaged moves aside first.
    """
    try:
        current, _faults = store.load_with_faults(profile.id)
    except DamagedFileError:
        store.delete(profile.id)
        store.save(profile)
    except UsageError:
        store.save(profile)
    else:
        store.save(profile, replaces=current)
    return profile

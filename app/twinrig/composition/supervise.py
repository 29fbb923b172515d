"""``twinrig supervise PROFILE``: wires the process that owns a server."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping

from twinrig import assets
from twinrig.composition.keeping import (
    be_a_task,
    be_a_unit,
    cut_off,
    machine_watch,
    server_launcher,
    staying_awake,
)
from twinrig.composition.rig import Rig
from twinrig.composition.targets import open_rig, open_secrets, resolve_target
from twinrig.diagnosis.explain import is_permanent
from twinrig.diagnosis.rule_files import load_shipped
from twinrig.domain.errors import TwinrigError, UsageError
from twinrig.domain.launch import LaunchSpec
from twinrig.domain.ports import SecretStore
from twinrig.domain.profile import Profile
from twinrig.domain.supervision import ServerRecord, StateLayout
from twinrig.domain.wsl import is_wsl, target_with
from twinrig.engines.base import Engine, RenderContext
from twinrig.hosts.clock import SystemClock, boot_at_s
from twinrig.hosts.http import HttpxClient
from twinrig.hosts.locks import FileLock
from twinrig.hosts.paths import AppPaths, find_paths
from twinrig.messages import message
from twinrig.services.installs import EngineFinder
from twinrig.services.last_good import LastGood
from twinrig.services.profile_store import ProfileStore
from twinrig.services.rendering import render_profile, run_folder
from twinrig.services.run_context import ExitExplainer
from twinrig.services.server_files import ServerFiles
from twinrig.supervisor.parts import SupervisorParts
from twinrig.supervisor.supervise import EXIT_COULD_NOT, supervise


def run_supervisor(target: str, profile_id: str) -> tuple[int, ServerRecord | None]:
    """Own the server of a profile until it is stopped or has failed; see ``supervise``.

    Exit code and last record; without a record when another supervisor is at work.
    """
    paths = find_paths(os.environ)
    resolved = resolve_target(target)
    root = paths.target_state(resolved.partition(":")[0])
    be_a_task(root, profile_id, os.environ)
    be_a_unit(root, profile_id, os.environ)
    with staying_awake(paths.config, os.environ):
        return asyncio.run(_run(resolved, profile_id, paths))


async def _run(target: str, profile_id: str, paths: AppPaths) -> tuple[int, ServerRecord | None]:
    parts = supervisor_parts(target, profile_id, paths, os.environ)
    try:
        code = await supervise(profile_id, parts)
    finally:
        await parts.http.close()
    owned = code != EXIT_COULD_NOT
    return code, ServerFiles(parts.layout).record(profile_id) if owned else None


def supervisor_parts(
    target: str, profile_id: str, paths: AppPaths, environ: Mapping[str, str]
) -> SupervisorParts:
    """Ports of this target for one profile's supervisor."""
    rig = open_rig(_own_target(target, profile_id, paths, environ), paths, environ)
    root = paths.target_state(rig.target)
    layout = StateLayout(root)
    profiles = ProfileStore(paths.profiles, rig.engines)
    profiles.path(profile_id)
    preparer = Preparer(rig, layout, open_secrets(paths, environ))
    explain = ExitExplainer(
        load_shipped(assets.read_text),
        lambda: profiles.load(profile_id),
        on_wsl=rig.on_wsl,
        host=rig.onlooker,
        engines=rig.engines,
    )

    good = LastGood(layout, profiles)
    prepared: list[Profile] = []

    async def prepare(profile: Profile) -> LaunchSpec:
        prepared[:] = [profile]
        await explain.before_launch()
        return await preparer.prepare(profile)

    return SupervisorParts(
        layout=layout,
        load_profile=profiles.load,
        prepare=prepare,
        engine_for=preparer.engine_for,
        launcher=server_launcher(rig, root, environ),
        machine=machine_watch(rig),
        cut_off=cut_off(rig),
        http=HttpxClient(),
        clock=SystemClock(),
        lock=FileLock(root, profile_id),
        explain=explain,
        look=explain.look,
        is_permanent=is_permanent,
        proven=lambda: good.remember(prepared[0]),
        boot_at_s=boot_at_s,
    )


def _own_target(target: str, profile_id: str, paths: AppPaths, environ: Mapping[str, str]) -> str:
    """On WSL the distribution that the profile names; what is wrong with it is told later."""
    if not is_wsl(target):
        return target
    engines = open_rig(target, paths, environ).engines
    try:
        named = ProfileStore(paths.profiles, engines).load(profile_id).distro
    except TwinrigError:
        return target
    return target_with(named) if named else target


class Preparer:
    """Turns a profile into what to launch: install lookup, key, rendering."""

    def __init__(self, rig: Rig, layout: StateLayout, secrets: SecretStore) -> None:
        self._rig = rig
        self._layout = layout
        self._secrets = secrets
        self._finder = EngineFinder(rig.host, rig.engines, built_in=rig.built_in)

    def engine_for(self, profile: Profile) -> Engine:
        """Raises UsageError for an engine that this Twinrig does not know."""
        engine = self._rig.engines.get(profile.engine.id)
        if engine is None:
            raise UsageError(
                message("There is no engine {id}.", id=profile.engine.id),
                message("Known engines: {names}", names=", ".join(self._rig.engines)),
            )
        return engine

    async def prepare(self, profile: Profile) -> LaunchSpec:
        """Raises UsageError, ProfileError or HostError; each is final for this start."""
        if profile.target != self._rig.target:
            raise UsageError(
                message(
                    "The profile {id} belongs to the target {target}.",
                    id=profile.id,
                    target=profile.target,
                ),
                message("Use --target {target}, or pick another profile.", target=profile.target),
            )
        engine = self.engine_for(profile)
        install = await self._finder.resolve(profile)
        key_name = profile.network.key_name
        context = RenderContext(
            install=install,
            run_folder=await run_folder(self._rig.host, self._rig.target, self._layout, profile.id),
            on_wsl=self._rig.on_wsl,
            key=await self._secrets.get(key_name) if key_name else None,
        )
        return (await render_profile(engine, profile, context, self._rig.host))[0]

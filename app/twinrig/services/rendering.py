"""From a profile to what would be launched: reads what the engine edits, then lets it render."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from twinrig.domain.errors import UsageError
from twinrig.domain.launch import LaunchSpec
from twinrig.domain.ports import Host
from twinrig.domain.profile import Profile
from twinrig.domain.supervision import StateLayout
from twinrig.domain.wsl import is_wsl
from twinrig.engines.base import Engine, RenderContext
from twinrig.messages import message


async def render_profile(
    engine: Engine, profile: Profile, context: RenderContext, host: Host
) -> tuple[LaunchSpec, ...]:
    """Exactly what a start would use. Raises ProfileError and UsageError for what cannot be
    rendered, HostError when the target cannot be read."""
    files = await _texts(host, engine.reads(profile, context.install))
    return engine.render(profile, replace(context, files=files))


async def run_folder(host: Host, target: str, layout: StateLayout, profile_id: str) -> str:
    """Folder for a server's own files, on the target. Raises HostError when it cannot be told."""
    if not is_wsl(target):
        return str(layout.folder(profile_id))
    return f"{await host.home()}/.local/state/twinrig/servers/{profile_id}"


async def _texts(host: Host, paths: Sequence[str]) -> dict[str, str | None]:
    """Texts by path. A file that is no UTF-8 is refused: an edit would damage it."""
    found: dict[str, str | None] = {}
    for path in paths:
        data = await host.read_file(path)
        try:
            found[path] = None if data is None else data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise UsageError(
                message("{path} is not a UTF-8 text.", path=path),
                message("Save it as UTF-8; Twinrig has not changed it."),
            ) from error
    return found

"""What would be launched, as text to look at: command, environment and files, secrets masked."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from twinrig.domain.launch import LaunchSpec
from twinrig.domain.profile import Profile
from twinrig.engines.base import RenderContext
from twinrig.messages import N_, Translator
from twinrig.services.rendering import render_profile, run_folder

if TYPE_CHECKING:
    from twinrig.services.workbench import Workbench

MASK = "••••••••"


async def render_launch(workbench: Workbench, profile: Profile) -> tuple[LaunchSpec, ...]:
    """Exactly what a start would use, except that the key is never fetched, only its place shown.

    Raises UsageError when the engine is not installed, ProfileError for faulty settings.
    """
    install = await workbench.installs.resolve(profile)
    context = RenderContext(
        install=install,
        run_folder=await run_folder(workbench.host, workbench.target, workbench.layout, profile.id),
        on_wsl=workbench.on_wsl,
        key=MASK if profile.network.key_name else None,
    )
    engine = workbench.engines[profile.engine.id]
    return await render_profile(engine, profile, context, workbench.host)


def launch_text(specs: Sequence[LaunchSpec], translator: Translator) -> str:
    """All nodes, one below the other; a heading each for command, environment and files."""
    return "\n\n".join(_node_text(spec, translator) for spec in specs) + "\n"


def _node_text(spec: LaunchSpec, translator: Translator) -> str:
    tr = translator.text
    parts = [f"# {tr(N_('Command'))}", " \\\n    ".join(shlex.quote(word) for word in spec.argv)]
    if spec.env:
        parts.append(f"\n# {tr(N_('Environment variables, added to a clean environment'))}")
        parts += [f"{name}={_shown(spec, name)}" for name in sorted(spec.env)]
    if spec.unset:
        parts.append(f"\n# {tr(N_('Variables that are removed'))}")
        parts += sorted(spec.unset)
    for file in spec.files:
        parts.append(f"\n# {tr(N_('File'))} {file.path}  ({file.mode:o})")
        parts.append(_masked(spec, file.content.rstrip("\n")))
    return "\n".join(parts)


def _shown(spec: LaunchSpec, name: str) -> str:
    return MASK if name in spec.secret_env else _masked(spec, spec.env[name])


def _masked(spec: LaunchSpec, text: str) -> str:
    """Blot out a secret wherever it stands, not only where it is expected."""
    for secret in spec.masked_values:
        text = text.replace(secret, MASK)
    return text

"""What would be launched, as text to look at: command, environment and files, secrets masked."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from twinrig.domain.errors import HostError
from twinrig.domain.launch import FileSpec, LaunchSpec
from twinrig.domain.profile import Profile
from twinrig.domain.server import ACTIVE_STATES
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


async def running_launch(
    workbench: Workbench, profile_id: str, specs: Sequence[LaunchSpec]
) -> tuple[LaunchSpec, ...] | None:
    """What the profile's running server was started with, as far as the machine tells.

    Command and variables from ``/proc``, files as they are now. None: it does not run, or this
    user may not look. Only variables that ``specs`` name are told.
    """
    record = await workbench.controller.active_record()
    if record is None or record.profile_id != profile_id or record.state not in ACTIVE_STATES:
        return None
    folder = f"/proc/{record.server_pid}"
    try:
        words = await workbench.host.read_file(f"{folder}/cmdline")
        variables = await workbench.host.read_file(f"{folder}/environ")
        if not words:
            return None
        return tuple([await _as_started(workbench, s, words, variables or b"") for s in specs])
    except HostError:
        return None


async def _as_started(
    workbench: Workbench, spec: LaunchSpec, words: bytes, variables: bytes
) -> LaunchSpec:
    pairs = dict(part.partition("=")[::2] for part in _texts(variables))
    files = []
    for file in spec.files:
        present = await workbench.host.read_file(file.path)
        files.append(FileSpec(file.path, (present or b"").decode("utf-8", "replace"), file.mode))
    env = {name: pairs[name] for name in spec.env if name in pairs}
    return replace(spec, argv=tuple(_texts(words)), env=env, files=tuple(files))


def _texts(data: bytes) -> list[str]:
    return [part.decode("utf-8", "replace") for part in data.split(b"\0") if part]


def difference_text(
    running: Sequence[LaunchSpec], wanted: Sequence[LaunchSpec], translator: Translator
) -> str:
    """Lines that a restart would change, as a unified difference; "" = none."""
    before, after = (launch_text(s, translator).splitlines() for s in (running, wanted))
    lines = list(difflib.unified_diff(before, after, lineterm="", n=2))
    return "\n".join(lines[2:]) + "\n" if lines else ""


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

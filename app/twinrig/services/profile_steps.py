"""Steps that edit a profile: single entries, so that undo keeps what the user edits later."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from twinrig.domain.errors import ConflictError
from twinrig.domain.fixes import ProfileStep
from twinrig.domain.profile import EnvEntry, Profile
from twinrig.messages import message
from twinrig.services.fix_steps import StepPreview
from twinrig.services.journal import AppliedStep
from twinrig.services.profile_codec import dump_profile

_Entry = TypeVar("_Entry")
Entries = dict[str, Any]
"""Values by dotted name, such as ``env.NCCL_DEBUG``; None = there is no such entry."""


class Profiles(Protocol):
    """What is needed of the profile store."""

    def load(self, profile_id: str) -> Profile:
        """Raises UsageError when there is no such profile."""
        ...

    def save(self, profile: Profile, *, replaces: Profile | None = None) -> None:
        """Raises ConflictError when the file is not ``replaces`` any more."""
        ...


class ProfileSteps:
    """Profiles of the store."""

    def __init__(self, profiles: Profiles) -> None:
        self._profiles = profiles

    async def preview(self, step: ProfileStep) -> StepPreview:
        """A unified diff of the profile's file."""
        profile = await self._load(step.profile_id)
        changed = with_entries(profile, wanted_entries(step))
        title = message("Change the profile {name}", name=profile.name)
        return StepPreview(title, "profile", _diff(profile, changed), root=False)

    async def record(self, step: ProfileStep) -> AppliedStep:
        """Present values of the entries that the step changes."""
        profile = await self._load(step.profile_id)
        after = wanted_entries(step)
        before = {name: read_entry(profile, name) for name in after}
        return AppliedStep(
            "profile",
            _diff(profile, with_entries(profile, after)),
            {
                "profile_id": step.profile_id,
                "before": before,
                "after": after,
                "order": _order(profile),
            },
        )

    async def apply(self, step: ProfileStep, record: AppliedStep) -> None:
        """Raises ProfileError when the profile would not be valid."""
        profile = await self._load(step.profile_id)
        await self._save(with_entries(profile, record.data["after"]), profile)

    async def check_revert(self, record: AppliedStep) -> None:
        """Raises ConflictError naming the entries that were changed after the fix."""
        profile = await self._load(str(record.data["profile_id"]))
        _refuse_changed(profile, record.data)

    async def revert(self, record: AppliedStep) -> None:
        """Puts back the entries that the step changed, and only those."""
        profile = await self._load(str(record.data["profile_id"]))
        _refuse_changed(profile, record.data)
        restored = with_entries(profile, record.data["before"])
        restored = _in_order(restored, record.data.get("order", {}))
        if restored != profile:
            await self._save(restored, profile)

    async def _load(self, profile_id: str) -> Profile:
        return await asyncio.to_thread(self._profiles.load, profile_id)

    async def _save(self, profile: Profile, replaces: Profile) -> None:
        await asyncio.to_thread(self._profiles.save, profile, replaces=replaces)


def wanted_entries(step: ProfileStep) -> Entries:
    """What the step wants the entries to be."""
    entries: Entries = {f"settings.{name}": _plain(v) for name, v in step.settings.items()}
    entries |= {f"extra.{name}": _plain(value) for name, value in step.extra.items()}
    entries |= {
        f"env.{name}": None if value is None else {"value": value, "reason": step.reason}
        for name, value in step.env.items()
    }
    entries |= dict(step.fields)
    return entries


def read_entry(profile: Profile, name: str) -> Any:
    """The present value, as JSON knows it. Raises KeyError for a name no step may change."""
    part, _, key = name.partition(".")
    if part == "settings":
        return _plain(profile.settings.get(key))
    if part == "extra":
        return _plain(profile.extra.get(key))
    if part == "env":
        entry = profile.env.get(key)
        return None if entry is None else {"value": entry.value, "reason": entry.reason}
    return {
        "network.host": profile.network.host,
        "network.port": profile.network.port,
        "model.path": profile.model.path,
        "model.served_name": profile.model.served_name,
        "engine.environment": profile.engine.environment,
    }[name]


def with_entries(profile: Profile, entries: Mapping[str, Any]) -> Profile:
    """The profile with these entries; None removes one."""
    settings, extra, env = dict(profile.settings), dict(profile.extra), dict(profile.env)
    parts: dict[str, dict[str, Any]] = {"settings": settings, "extra": extra, "env": env}
    for name, value in entries.items():
        part, _, key = name.partition(".")
        if part not in parts:
            profile = _with_field(profile, name, value)
        elif value is None:
            parts[part].pop(key, None)
        elif part == "env":
            env[key] = EnvEntry(str(value["value"]), str(value["reason"]))
        else:
            parts[part][key] = tuple(value) if isinstance(value, list) else value
    return replace(profile, settings=settings, extra=extra, env=env)


def _order(profile: Profile) -> dict[str, list[str]]:
    """Names in the order of the file: an entry that comes back returns to its place."""
    return {
        "settings": list(profile.settings),
        "env": list(profile.env),
        "extra": list(profile.extra),
    }


def _in_order(profile: Profile, order: Mapping[str, Any]) -> Profile:
    return replace(
        profile,
        settings=_sorted(profile.settings, order.get("settings", ())),
        env=_sorted(profile.env, order.get("env", ())),
        extra=_sorted(profile.extra, order.get("extra", ())),
    )


def _sorted(entries: Mapping[str, _Entry], order: Sequence[str]) -> dict[str, _Entry]:
    """Known names as they were, newer ones behind them."""
    names = [*(name for name in order if name in entries), *entries]
    return {name: entries[name] for name in dict.fromkeys(names)}


def _with_field(profile: Profile, name: str, value: Any) -> Profile:
    if name == "network.host":
        return replace(profile, network=replace(profile.network, host=str(value)))
    if name == "network.port":
        return replace(profile, network=replace(profile.network, port=int(value)))
    if name == "model.path":
        return replace(profile, model=replace(profile.model, path=str(value)))
    if name == "model.served_name":
        return replace(profile, model=replace(profile.model, served_name=str(value)))
    if name == "engine.environment":
        return replace(profile, engine=replace(profile.engine, environment=str(value)))
    raise KeyError(name)


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _refuse_changed(profile: Profile, data: Mapping[str, Any]) -> None:
    before, after = data["before"], data["after"]
    present = {name: read_entry(profile, name) for name in after}
    changed = [
        f"{name}: {_shown(after[name])} -> {_shown(present[name])}"
        for name in after
        if present[name] not in (before[name], after[name])
    ]
    if changed:
        raise ConflictError(
            message(
                "The profile {name} was changed after the fix; it is left as it is. "
                "Changes since:\n{changes}",
                name=profile.name,
                changes="\n".join(changed),
            ),
            message("Change these entries by hand."),
        )


def _shown(entry: Any) -> str:
    value = entry["value"] if isinstance(entry, dict) else entry
    return "-" if value is None else str(value)


def _diff(before: Profile, after: Profile) -> str:
    lines = difflib.unified_diff(
        dump_profile(before).splitlines(),
        dump_profile(after).splitlines(),
        f"{before.id}.yaml",
        f"{before.id}.yaml",
        lineterm="",
    )
    return "\n".join(lines)

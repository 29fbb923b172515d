"""The settings of a profile's last successful start: remembered, compared, and gone back to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from twinrig.domain.errors import DamagedFileError, ProfileError, UsageError
from twinrig.domain.profile import Profile
from twinrig.domain.supervision import StateLayout
from twinrig.files import read_small, write_atomic
from twinrig.messages import message
from twinrig.services.profile_codec import dump_profile, parse_profile
from twinrig.services.profile_store import MAX_PROFILE_BYTES, ProfileStore


@dataclass(frozen=True)
class SettingChange:
    """One entry that differs: dotted name, the value that worked and the value now; "" = none."""

    name: str
    worked: str
    now: str


class LastGood:
    """One file beside the record of each profile's server."""

    def __init__(self, layout: StateLayout, profiles: ProfileStore) -> None:
        self._layout = layout
        self._profiles = profiles

    def remember(self, profile: Profile) -> None:
        """The server of this profile has just replied. Raises OSError."""
        write_atomic(self._layout.last_good(profile.id), dump_profile(profile).encode())

    def read(self, profile_id: str) -> Profile | None:
        """None when it never started, or when the file cannot be used any more."""
        path = self._layout.last_good(profile_id)
        try:
            text = read_small(path, MAX_PROFILE_BYTES).decode("utf-8")
            return replace(parse_profile(text, str(path)), id=profile_id)
        except (OSError, UnicodeDecodeError, DamagedFileError, ProfileError):
            return None

    def changes(self, profile_id: str) -> tuple[SettingChange, ...]:
        """What was changed since it worked; empty when nothing was, or nothing is known.

        Raises UsageError when there is no such profile.
        """
        good = self.read(profile_id)
        if good is None:
            return ()
        now, _faults = self._profiles.load_with_faults(profile_id)
        return changes_between(good, now)

    def restore(self, profile_id: str) -> Profile:
        """Make the settings that worked the present ones; the present ones become the previous
        version. Raises UsageError when there is nothing to go back to, ConflictError."""
        good = self.read(profile_id)
        now, _faults = self._profiles.load_with_faults(profile_id)
        if good is None or not changes_between(good, now):
            raise UsageError(
                message("{name} has no other settings that worked before.", name=now.name),
                message("They are remembered when a server has given its first reply."),
            )
        same = good.engine.environment == now.engine.environment
        engine = replace(good.engine, version=now.engine.version) if same else good.engine
        restored = replace(good, name=now.name, target=now.target, engine=engine)
        self._profiles.save(restored, replaces=now)
        return restored


def changes_between(good: Profile, now: Profile) -> tuple[SettingChange, ...]:
    """Entries that differ, by name; the name of the profile and versions are no settings."""
    before, after = _entries(good), _entries(now)
    names = sorted({*before, *after})
    return tuple(
        SettingChange(name, before.get(name, ""), after.get(name, ""))
        for name in names
        if before.get(name, "") != after.get(name, "")
    )


def _entries(profile: Profile) -> dict[str, str]:
    fields = {
        "engine.environment": profile.engine.environment,
        "engine.id": profile.engine.id,
        "model.path": profile.model.path,
        "model.served_name": profile.model.served_name,
        "network.host": profile.network.host,
        "network.key_name": profile.network.key_name,
        "network.port": profile.network.port,
        "distro": profile.distro,
    }
    env = {name: entry.value for name, entry in profile.env.items()}
    parts: Mapping[str, Mapping[str, Any]] = {
        "settings": profile.settings,
        "env": env,
        "extra": profile.extra,
    }
    found = {name: str(value) for name, value in fields.items()}
    for part, values in parts.items():
        found |= {f"{part}.{name}": _text(value) for name, value in values.items()}
    return found


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(str(item) for item in value) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)

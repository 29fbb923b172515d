"""The key that a server asks of its clients: stored under a name, which the profile carries."""

from __future__ import annotations

import secrets
from dataclasses import replace

from twinrig.domain.errors import HostError, UsageError
from twinrig.domain.ports import SecretStore
from twinrig.domain.profile import Profile
from twinrig.messages import message
from twinrig.services.profile_store import ProfileStore

NO_STORE = "no-keyring"
"""``finding_id`` of the refusal where a file needs the user's consent first."""


def new_key() -> str:
    """As hard to guess as keys are, and made of signs that every client takes."""
    return secrets.token_urlsafe(24)


class ServerKeys:
    """Gives servers their keys. Values go into the store of secrets and nowhere else."""

    def __init__(self, profiles: ProfileStore, store: SecretStore) -> None:
        self._profiles = profiles
        self._store = store

    async def give(self, profile_id: str, key: str, *, in_file: bool = False) -> Profile:
        """The profile, which asks for this key from its next start on. ``in_file``: the user
        agrees to a file. Raises UsageError without a key, HostError where it would be lost."""
        key = key.strip()
        if not key:
            raise UsageError(
                message("No key was given."), message("Type one, pipe one in, or use --generate.")
            )
        before = self._profiles.load(profile_id)
        name = before.network.key_name or before.id
        if in_file:
            await self._store.allow_file()
        await self._store.set(name, key)
        if not self._store.lasting:
            raise HostError(
                message("This system has no keyring, so the key would be lost with this program."),
                message('Repeat with "--in-file" to keep it in a file that only you can read.'),
                finding_id=NO_STORE,
            )
        if before.network.key_name == name:
            return before
        after = replace(before, network=replace(before.network, key_name=name))
        self._profiles.save(after, replaces=before)
        return after

    async def clear(self, profile_id: str) -> Profile:
        """The server asks for none from its next start on; the key is forgotten."""
        before = self._profiles.load(profile_id)
        if not before.network.key_name:
            return before
        await self._store.delete(before.network.key_name)
        after = replace(before, network=replace(before.network, key_name=""))
        self._profiles.save(after, replaces=before)
        return after

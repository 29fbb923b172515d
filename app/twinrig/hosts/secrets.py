"""Keys and tokens: environment first, then the system's keyring, else this session's memory.

A file is used only after explicit consent, with mode 0600. The keyring package is imported on
first use, and called on a worker thread: its back-ends may wait for a password dialog.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import Callable, Mapping
from enum import Enum
from pathlib import Path
from typing import Protocol

from twinrig.domain.errors import DamagedFileError, HostError
from twinrig.files import read_small, write_atomic
from twinrig.messages import N_, message

SERVICE = "twinrig"
VARIABLE_PREFIX = "TWINRIG_SECRET_"


class Keyring(Protocol):
    """The three calls used of the ``keyring`` module."""

    def get_password(self, service_name: str, username: str) -> str | None: ...

    def set_password(self, service_name: str, username: str, password: str) -> None: ...

    def delete_password(self, service_name: str, username: str) -> None: ...


class _Place(Enum):
    UNKNOWN = N_("The system's keyring if there is one, else only until this program ends")
    KEYRING = N_("The system's keyring")
    FILE = N_("A file that only this user can read")
    MEMORY = N_("Only until this program ends: this system has no keyring")


def variable_name(name: str) -> str:
    """Environment variable that overrides the secret ``name``."""
    return VARIABLE_PREFIX + re.sub(r"[^A-Za-z0-9]", "_", name).upper()


def _import_keyring() -> Keyring:
    import keyring

    return keyring


class KeyringSecrets:
    """``SecretStore``. ``file`` is where secrets may lie in plain text after consent, or None."""

    def __init__(
        self,
        environ: Mapping[str, str],
        *,
        file: Path | None = None,
        file_consent: bool = False,
        open_keyring: Callable[[], Keyring] = _import_keyring,
    ) -> None:
        self._environ = environ
        self._offered_file = file
        self._file = file if file_consent else None
        self._open = open_keyring
        self._keyring: Keyring | None = None
        self._memory: dict[str, str] = {}
        self._place = _Place.UNKNOWN

    @property
    def place(self) -> str:
        """Where secrets are kept, as learnt by the last call; a marked sentence."""
        return self._place.value

    @property
    def lasting(self) -> bool:
        """Whether what is stored outlives this program, as learnt by the last call."""
        return self._place is not _Place.MEMORY

    async def allow_file(self) -> None:
        """The user agrees to a plain file of mode 0600; that it exists is the lasting consent.

        Raises HostError when it cannot be written.
        """
        if self._offered_file is None:
            return
        self._file = self._offered_file
        if not self._file.exists():
            await asyncio.to_thread(_change_file, self._file, "", None)
        for name, value in list(self._memory.items()):
            await self.set(name, value)
        self._memory.clear()

    async def get(self, name: str) -> str | None:
        """Value, or None when there is none. Raises DamagedFileError for a damaged file."""
        from_environment = self._environ.get(variable_name(name))
        if from_environment:
            return from_environment
        if name in self._memory:
            return self._memory[name]
        value = await asyncio.to_thread(self._ask_keyring, name)
        if value is None and self._file is not None:
            value = (await asyncio.to_thread(_read_file, self._file)).get(name)
        return value

    async def set(self, name: str, value: str) -> None:
        """Keep ``value`` in the best place there is. Raises HostError when a file cannot be."""
        if await asyncio.to_thread(self._keep_in_keyring, name, value):
            self._memory.pop(name, None)
            return
        if self._file is None:
            self._memory[name] = value
            return
        await asyncio.to_thread(_change_file, self._file, name, value)

    async def delete(self, name: str) -> None:
        """Forget it everywhere; a secret that does not exist is no error."""
        self._memory.pop(name, None)
        await asyncio.to_thread(self._drop_from_keyring, name)
        if self._file is not None and self._file.exists():
            await asyncio.to_thread(_change_file, self._file, name, None)

    def _ask_keyring(self, name: str) -> str | None:
        ring = self._ring()
        if ring is None:
            return None
        # Back-ends raise what they like (D-Bus errors, OSError) when the daemon is not there.
        with contextlib.suppress(Exception):
            value = ring.get_password(SERVICE, name)
            self._place = _Place.KEYRING
            return value
        self._without_keyring()
        return None

    def _keep_in_keyring(self, name: str, value: str) -> bool:
        ring = self._ring()
        if ring is None:
            return False
        with contextlib.suppress(Exception):
            ring.set_password(SERVICE, name, value)
            self._place = _Place.KEYRING
            return True
        self._without_keyring()
        return False

    def _drop_from_keyring(self, name: str) -> None:
        ring = self._ring()
        if ring is not None:
            with contextlib.suppress(Exception):  # PasswordDeleteError: there was none
                ring.delete_password(SERVICE, name)

    def _ring(self) -> Keyring | None:
        if self._keyring is None:
            try:
                self._keyring = self._open()
            except ImportError:
                self._without_keyring()
        return self._keyring

    def _without_keyring(self) -> None:
        self._place = _Place.MEMORY if self._file is None else _Place.FILE


def _read_file(path: Path) -> dict[str, str]:
    try:
        data = json.loads(read_small(path))
        if not all(isinstance(value, str) for value in data.values()):
            raise ValueError("not a table of texts")
        return dict(data)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, AttributeError, RecursionError) as error:
        raise DamagedFileError(
            message("{path} is damaged and cannot be read.", path=str(path)),
            message("Move the file away to start afresh; it was not changed."),
        ) from error


def _change_file(path: Path, name: str, value: str | None) -> None:
    secrets = _read_file(path)
    secrets.pop(name, None)
    if value is not None:
        secrets[name] = value
    try:
        write_atomic(path, json.dumps(secrets).encode(), mode=0o600)
    except OSError as error:
        raise HostError(
            message(
                "{path} cannot be written: {reason}.",
                path=str(path),
                reason=error.strerror or str(error),
            ),
            message("Make the folder writable for this user, then try again."),
        ) from error

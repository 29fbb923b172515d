"""The folder of profiles: one YAML file each, saved atomically, never overwritten unseen."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from threading import RLock

from twinrig.domain.errors import (
    ConflictError,
    DamagedFileError,
    FieldError,
    HostError,
    ProfileError,
    TwinrigError,
    UsageError,
)
from twinrig.domain.install import EngineInstall
from twinrig.domain.profile import PROFILE_ID, EngineRef, ModelRef, Network, Profile
from twinrig.engines.base import Engine
from twinrig.files import FileTooLargeError, previous_path, read_small, write_atomic
from twinrig.messages import Message, message
from twinrig.services.profile_codec import dump_profile, read_profile
from twinrig.services.profile_rules import WINDOWS_DEVICES, converted_settings, profile_faults

MAX_PROFILE_BYTES = 256 * 1024


@dataclass(frozen=True)
class BrokenProfile:
    """A file that cannot be used as it stands, and why. It is never changed or hidden."""

    path: Path
    text: Message
    next_step: Message | None
    errors: tuple[FieldError, ...]


@dataclass(frozen=True)
class ProfileListing:
    """Usable profiles by name, and the files that are not."""

    profiles: tuple[Profile, ...]
    broken: tuple[BrokenProfile, ...]


class ProfileStore:
    """Profiles of all targets in ``folder``; the file's name is the profile's id.

    Methods raise TwinrigError kinds only; a failed write leaves the old file as it was.
    """

    def __init__(self, folder: Path, engines: Mapping[str, Engine]) -> None:
        self._folder = folder
        self._engines = engines
        self._guard = RLock()

    def path(self, profile_id: str) -> Path:
        """File of a profile. Raises UsageError for what cannot be an id (such as ``../x``)."""
        if not PROFILE_ID.fullmatch(profile_id):
            raise UsageError(
                message("{id} cannot be a profile's name.", id=profile_id),
                message("Use 1 to 48 small letters, digits or hyphens."),
            )
        return self._folder / f"{profile_id}.yaml"

    def list(self) -> ProfileListing:
        """Everything in the folder; one broken file never hides another."""
        profiles: list[Profile] = []
        broken: list[BrokenProfile] = []
        try:
            files = sorted(p for p in self._folder.glob("*.yaml") if not p.name.startswith("."))
        except OSError as error:
            fault = _unreadable(self._folder, error)
            return ProfileListing((), (BrokenProfile(self._folder, fault.text, None, ()),))
        for path in files:
            try:
                profiles.append(self.load(path.stem))
            except TwinrigError as error:
                errors = error.errors if isinstance(error, ProfileError) else ()
                broken.append(BrokenProfile(path, error.text, error.next_step, errors))
        profiles.sort(key=lambda p: (p.name.casefold(), p.id))
        return ProfileListing(tuple(profiles), tuple(broken))

    def load(self, profile_id: str) -> Profile:
        """Raises UsageError (no such profile), ProfileError (all faults), DamagedFileError."""
        return self._valid(*self.load_with_faults(profile_id))

    def load_with_faults(self, profile_id: str) -> tuple[Profile, tuple[FieldError, ...]]:
        """What can be read of a profile and its faults, so that an editor can mend them."""
        path = self.path(profile_id)
        text = _read(path)
        if text is None:
            raise self._no_such(profile_id)
        return self._read(text, path, profile_id)

    def validate(self, profile: Profile) -> tuple[FieldError, ...]:
        """All faults of a profile at once; empty when it can be saved and started."""
        return profile_faults(profile, self._engines)

    def save(self, profile: Profile, *, replaces: Profile | None = None) -> None:
        """Write ``profile``; the version before stays beside it.

        ``replaces`` is the profile as the editor read it; ConflictError when the file holds
        something else by now. Without it the profile must be new. Raises ProfileError.
        """
        faults = self.validate(profile)
        if faults:
            raise ProfileError(profile.name or profile.id, faults)
        path = self.path(profile.id)
        with self._exclusive():
            self._refuse_conflict(profile, path, replaces)
            _write(path, dump_profile(profile))

    def delete(self, profile_id: str) -> None:
        """Remove a profile, a broken one too; ``restore_previous`` brings it back."""
        path = self.path(profile_id)
        with self._exclusive():
            try:
                path.replace(previous_path(path))
            except FileNotFoundError:
                raise self._no_such(profile_id) from None
            except OSError as error:
                raise _unwritable(path, error) from error

    def previous(self, profile_id: str) -> Profile | None:
        """The version before the last save, None when there is none. Raises as ``load``."""
        path = previous_path(self.path(profile_id))
        text = _read(path)
        return None if text is None else self._valid(*self._read(text, path, profile_id))

    def restore_previous(self, profile_id: str) -> Profile:
        """Make the previous version the present one, and the present one the previous."""
        with self._exclusive():
            profile = self.previous(profile_id)
            if profile is None:
                raise UsageError(
                    message("There is no previous version of {id}.", id=profile_id),
                    message("A previous version exists after the first change of a profile."),
                )
            _write(self.path(profile_id), dump_profile(profile))
        return profile

    def import_file(self, path: Path, new_id: str | None = None) -> Profile:
        """Add the profile of a file. Raises ConflictError when its id is taken."""
        try:
            text = _read(path)
            if text is None:
                raise UsageError(
                    message("There is no file {path}.", path=str(path)),
                    message("Check the path."),
                )
            profile, faults = read_profile(text, str(path))
        except DamagedFileError as error:  # what helps with one of our own files would not here
            step = message("Choose another file, or correct this one.")
            raise DamagedFileError(error.text, step) from error
        wanted = new_id or profile.id or _slug(path.stem)
        self.path(wanted)
        profile = self._valid(*self._checked(replace(profile, id=wanted), faults), str(path))
        self.save(profile)
        return profile

    def export(self, profile_id: str, path: Path, *, overwrite: bool = False) -> None:
        """Write a profile to a file elsewhere. Raises ConflictError when it exists."""
        write_new(path, dump_profile(self.load(profile_id)), overwrite=overwrite)

    def draft(
        self,
        engine_id: str,
        *,
        name: str,
        target: str,
        model_path: str,
        gpu_count: int,
        on_wsl: bool,
        install: EngineInstall | None = None,
    ) -> Profile:
        """An unsaved profile with the engine's defaults and an id that is free."""
        engine = self._engines.get(engine_id)
        if engine is None:
            raise UsageError(
                message("There is no engine {id}.", id=engine_id),
                message("Known engines: {names}", names=", ".join(self._engines)),
            )
        version = install.version if install else ""
        environment = install.environment if install else ""
        settings = engine.defaults(gpu_count=gpu_count, on_wsl=on_wsl, version=version)
        return Profile(
            id=self.free_id(name),
            name=name,
            target=target,
            engine=EngineRef(engine_id, environment, version),
            model=ModelRef(model_path),
            network=Network(port=engine.default_port),
            settings=dict(settings),
            env=dict(engine.default_env(gpu_count=gpu_count, on_wsl=on_wsl, version=version)),
        )

    def free_id(self, name: str) -> str:
        """An id made of ``name`` that no file uses, not even a broken or deleted one."""
        stem = _slug(name)
        number = 1
        while True:
            candidate = stem if number == 1 else f"{stem[:44].rstrip('-')}-{number}"
            path = self.path(candidate)
            if not _occupied(path) and not _occupied(previous_path(path)):
                return candidate
            number += 1

    def _read(
        self, text: str, path: Path, profile_id: str
    ) -> tuple[Profile, tuple[FieldError, ...]]:
        profile, faults = read_profile(text, str(path))
        return self._checked(replace(profile, id=profile_id), faults)

    def _checked(
        self, profile: Profile, faults: tuple[FieldError, ...]
    ) -> tuple[Profile, tuple[FieldError, ...]]:
        engine = self._engines.get(profile.engine.id)
        if engine is not None:
            profile = replace(profile, settings=converted_settings(profile, engine))
        known = {fault.path for fault in faults}
        more = (f for f in self.validate(profile) if f.path not in known)
        return profile, (*faults, *more)

    def _valid(self, profile: Profile, faults: tuple[FieldError, ...], source: str = "") -> Profile:
        if faults:
            raise ProfileError(source or profile.id, faults)
        return profile

    def _refuse_conflict(self, profile: Profile, path: Path, replaces: Profile | None) -> None:
        if replaces is None:
            if _occupied(path):
                raise ConflictError(
                    message("A profile {id} exists already; nothing was written.", id=profile.id),
                    message("Choose another name, or edit the existing profile."),
                )
            return
        try:
            text = _read(path)
            current = None if text is None else self._read(text, path, profile.id)[0]
        except TwinrigError:
            current = None
        if current != replaces:
            raise ConflictError(
                message(
                    "The profile {id} was changed meanwhile; nothing was written.", id=profile.id
                ),
                message("Open the profile again and repeat your change."),
            )

    def _no_such(self, profile_id: str) -> UsageError:
        try:
            names = ", ".join(p.stem for p in sorted(self._folder.glob("*.yaml")))
        except OSError:
            names = ""
        step = (
            message("Profiles: {names}", names=names)
            if names
            else message('Make one with "twinrig profiles new NAME".')
        )
        return UsageError(message("There is no profile {id}.", id=profile_id), step)

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        """One writer at a time, in this process and, where the system can, between them."""
        with self._guard:
            try:
                self._folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise _unwritable(self._folder, error) from error
            with _folder_lock(self._folder):
                yield


def write_new(path: Path, text: str, *, overwrite: bool = False) -> None:
    """Write a file elsewhere. Raises ConflictError when it exists, UsageError when it cannot."""
    if not overwrite and path.exists():
        raise ConflictError(
            message("{path} exists already; nothing was written.", path=str(path)),
            message("Choose another file name."),
        )
    _write(path, text, keep_previous=False)


@contextmanager
def _folder_lock(folder: Path) -> Iterator[None]:
    if sys.platform == "win32":  # the check and the replace are microseconds apart
        yield
        return
    import fcntl

    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # some network file systems know no locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _slug(name: str) -> str:
    text = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:44].strip("-")
    return f"{text}-profile" if text in WINDOWS_DEVICES else text or "profile"


def _occupied(path: Path) -> bool:
    try:
        return path.is_symlink() or path.exists()
    except OSError:
        return True  # it cannot be seen, so it must not be overwritten


def _read(path: Path) -> str | None:
    """Text of a profile file, None when there is none. Raises DamagedFileError."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise DamagedFileError(
                message("{path} is not a file.", path=str(path)), message("Move it away.")
            )
        data = read_small(path, MAX_PROFILE_BYTES)
    except FileNotFoundError:
        if not path.is_symlink():
            return None
        raise DamagedFileError(
            message("{path} points to a file that is not there.", path=str(path)),
            message("Delete the profile, or put the file back."),
        ) from None
    except FileTooLargeError as error:
        raise DamagedFileError(
            message(
                "{path} is larger than any profile ({limit} KiB) and was not read.",
                path=str(path),
                limit=MAX_PROFILE_BYTES // 1024,
            ),
            message("Restore its previous version, or delete it."),
        ) from error
    except OSError as error:
        raise _unreadable(path, error) from error
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DamagedFileError(
            message("{path} is not a text file.", path=str(path)),
            message("Restore its previous version, or delete it."),
        ) from error


def _write(path: Path, text: str, *, keep_previous: bool = True) -> None:
    try:
        write_atomic(path, text.encode("utf-8"), keep_previous=keep_previous)
    except OSError as error:
        raise _unwritable(path, error) from error


def _unreadable(path: Path, error: OSError) -> DamagedFileError:
    return DamagedFileError(
        message("{path} cannot be read: {reason}.", path=str(path), reason=error.strerror or ""),
        message("Check the permissions of the file and its folder."),
    )


def _unwritable(path: Path, error: OSError) -> HostError:
    return HostError(
        message(
            "{path} cannot be written: {reason}. The old file is unchanged.",
            path=str(path),
            reason=error.strerror or str(error),
        ),
        message("Check free space and the permissions of the folder."),
    )

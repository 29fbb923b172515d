"""The list of profiles on the Server page, broken files included."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from twinrig.domain.errors import FieldError
from twinrig.domain.profile import Profile
from twinrig.messages import Message, message

if TYPE_CHECKING:
    from twinrig.services.profile_store import BrokenProfile, ProfileListing


@dataclass(frozen=True)
class ProfileRow:
    """One file of the profile folder; without ``profile`` it cannot be used, see ``problem``."""

    id: str
    name: str
    detail: Message | None
    profile: Profile | None
    path: Path | None = None
    problem: Message | None = None
    next_step: Message | None = None
    foreign: bool = False
    errors: tuple[FieldError, ...] = ()

    @property
    def usable(self) -> bool:
        """It can be started on this target."""
        return self.profile is not None and not self.foreign

    def problem_text(self) -> Message:
        """What is wrong, all faults listed."""
        parts = [self.problem or message("This file cannot be used.")]
        parts += [message("{field}: {fault}", field=e.path, fault=e.text) for e in self.errors]
        result = parts[0]
        for part in parts[1:]:
            result = message("{text}\n{more}", text=result, more=part)
        return result


def profile_rows(
    listing: ProfileListing, target: str, engine_names: Mapping[str, str]
) -> tuple[ProfileRow, ...]:
    """Profiles of this target by name, then those of other targets, then broken files."""
    rows = [_row(p, target, engine_names) for p in listing.profiles]
    rows.sort(key=lambda row: (row.foreign, row.name.casefold(), row.id))
    return (*rows, *(_broken(b) for b in listing.broken))


def _row(profile: Profile, target: str, engine_names: Mapping[str, str]) -> ProfileRow:
    foreign = profile.target != target
    engine = engine_names.get(profile.engine.id, profile.engine.id)
    model = profile.model.path.rstrip("/").rsplit("/", 1)[-1]
    if foreign:
        detail = message("For another machine: {target}", target=profile.target)
    else:
        detail = message("{engine} · {model}", engine=engine, model=model)
    return ProfileRow(profile.id, profile.name or profile.id, detail, profile, foreign=foreign)


def _broken(broken: BrokenProfile) -> ProfileRow:
    return ProfileRow(
        id=broken.path.stem,
        name=broken.path.name,
        detail=message("Cannot be used"),
        profile=None,
        path=broken.path,
        problem=broken.text,
        next_step=broken.next_step,
        errors=broken.errors,
    )


def copy_name(name: str, taken: Collection[str]) -> str:
    """``NAME (2)``, ``NAME (3)`` ...: the first one nobody has."""
    stem = re.sub(r" \(\d+\)$", "", name)
    number = 2
    while f"{stem} ({number})" in taken:
        number += 1
    return f"{stem} ({number})"

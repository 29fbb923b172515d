"""One parametrised fix for all edits of a profile; ``edit_table`` holds its rows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from twinrig.domain.checks import Facts, Finding
from twinrig.domain.fixes import FixPlan, ProfileStep
from twinrig.domain.profile import Profile
from twinrig.fixes.planning import (
    NotForThisEngineError,
    UndecidedError,
    needs_profile,
    nothing_to_change,
    only_for,
)
from twinrig.messages import Message, message

_KEPT_FREE_GIB = 0.2


@dataclass(frozen=True)
class FromFinding:
    """A value that the finding carries under one of ``names``; it is a whole number unless
    ``text`` is set. Without it the fix cannot decide."""

    names: tuple[str, ...]
    text: bool = False
    round_down_to: int = 1


@dataclass(frozen=True)
class Scaled:
    """The finding's value, else the present setting times ``factor`` plus ``offset``, kept
    within ``minimum`` and ``maximum``; ``start`` stands for a setting that is not set.

    ``start`` None: without a present value the fix cannot decide.
    """

    names: tuple[str, ...]
    factor: float = 1.0
    offset: float = 0.0
    minimum: float = 0.0
    maximum: float = float("inf")
    start: float | None = None
    whole: bool = True
    round_down_to: int = 1


@dataclass(frozen=True)
class FreeShare:
    """The share of a card's memory that is free, less 0.2 GiB, rounded down to 0.01, when the
    finding measured ``free_gib`` and ``total_gib``; else ``otherwise``."""

    otherwise: Scaled


Value = bool | int | float | str | FromFinding | Scaled | FreeShare | None


@dataclass(frozen=True)
class ProfileEdit:
    """A row. None removes an entry. ``engines`` empty = any; ``versions`` is a PEP 440 range of
    the engine. ``reason`` is kept beside each variable in the profile. ``settings_by_engine``
    stands in place of ``settings`` where engines call the same thing by other names."""

    fix_id: str
    title: str
    reason: str
    settings: Mapping[str, Value] = field(default_factory=dict)
    env: Mapping[str, Value] = field(default_factory=dict)
    fields: Mapping[str, Value] = field(default_factory=dict)
    engines: frozenset[str] = frozenset()
    versions: str = ""
    risk: str = ""
    settings_by_engine: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)


class ProfileEditFix:
    """``Fix`` made of one row."""

    probes: tuple[str, ...] = ()

    def __init__(self, row: ProfileEdit) -> None:
        self.id = row.fix_id
        self.title = row.title
        self._row = row

    def plan(self, finding: Finding, facts: Facts) -> FixPlan:
        """Raises NotForThisEngineError, UndecidedError or NothingToChangeError."""
        row, profile = self._row, needs_profile(facts.profile)
        _refuse_foreign_engine(row, profile, facts)
        title = Message(row.title)
        settings = row.settings_by_engine.get(profile.engine.id, row.settings)
        step = ProfileStep(
            profile_id=profile.id,
            settings={
                name: _resolve(value, finding, profile.settings.get(name))
                for name, value in settings.items()
            },
            env={
                name: None if value is None else str(_resolve(value, finding, None))
                for name, value in row.env.items()
            },
            reason=row.reason,
            fields={
                name: _resolve(value, finding, read_field(profile, name))
                for name, value in row.fields.items()
            },
        )
        if not changes_anything(step, profile):
            raise nothing_to_change(title)
        return FixPlan(
            fix_id=row.fix_id,
            title=title,
            steps=(step,),
            risk=Message(row.risk) if row.risk else None,
            needs_restart=True,
        )


def changes_anything(step: ProfileStep, profile: Profile) -> bool:
    """Whether the step would leave the profile different."""
    settings = any(profile.settings.get(name) != value for name, value in step.settings.items())
    extra = any(profile.extra.get(name) != value for name, value in step.extra.items())
    fields = any(read_field(profile, name) != value for name, value in step.fields.items())
    present = {name: entry.value for name, entry in profile.env.items()}
    return settings or extra or fields or any(present.get(n) != v for n, v in step.env.items())


def read_field(profile: Profile, name: str) -> object:
    """Value of a dotted field that a ProfileStep may change. Raises KeyError for another."""
    return {
        "network.port": profile.network.port,
        "model.path": profile.model.path,
        "model.served_name": profile.model.served_name,
        "engine.environment": profile.engine.environment,
    }[name]


def _refuse_foreign_engine(row: ProfileEdit, profile: Profile, facts: Facts) -> None:
    if row.engines:
        only_for(row.engines, profile, Message(row.title))
    version = facts.install.version if facts.install else profile.engine.version
    if not row.versions or not version:
        return
    try:
        fits = SpecifierSet(row.versions).contains(Version(version), prereleases=True)
    except InvalidVersion:
        return
    if not fits:
        raise NotForThisEngineError(
            message(
                "“{fix}” does not exist in {engine} {version}.",
                fix=Message(row.title),
                engine=profile.engine.id,
                version=version,
            )
        )


def _resolve(value: Value, finding: Finding, present: object) -> object:
    if isinstance(value, FromFinding):
        return _from_finding(value, finding)
    if isinstance(value, Scaled):
        return _scaled(value, finding, present)
    if isinstance(value, FreeShare):
        return _free_share(value, finding, present)
    return value


def _free_share(value: FreeShare, finding: Finding, present: object) -> float | int:
    free, total = _number(finding.param("free_gib")), _number(finding.param("total_gib"))
    if free is None or not total or free <= _KEPT_FREE_GIB:
        return _scaled(value.otherwise, finding, present)
    share = math.floor((free - _KEPT_FREE_GIB) / total * 100) / 100
    return min(max(share, value.otherwise.minimum), value.otherwise.maximum)


def _from_finding(value: FromFinding, finding: Finding) -> object:
    for name in value.names:
        text = finding.param(name)
        if value.text and text:
            return text
        if not value.text and (number := _number(text)) is not None and number > 0:
            return int(number) // value.round_down_to * value.round_down_to
    raise _undecided()


def _scaled(value: Scaled, finding: Finding, present: object) -> float | int:
    told = [_number(finding.param(name)) for name in value.names]
    known = [number for number in told if number is not None]
    start = value.start
    if isinstance(present, (int, float)) and not isinstance(present, bool):
        start = float(present)
    if not known and start is None:
        raise _undecided()
    result = known[0] if known else (start or 0.0) * value.factor + value.offset
    result = min(max(result, value.minimum), value.maximum)
    if start is not None and (value.factor < 1 or value.offset < 0):
        result = min(result, start)  # a fix that lowers never raises
    if not value.whole:
        return round(result, 3)
    rounded = int(result) // value.round_down_to * value.round_down_to
    return rounded or int(result)


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if number == number and abs(number) != float("inf") else None


def _undecided() -> UndecidedError:
    return UndecidedError(
        message("The value for this fix is not known."),
        message("Choose the value in the profile yourself."),
    )

"""Faults that are known by version, as data: which of them can meet a profile.

A fault is a warning with a way out, not a reason to refuse a start: a version range says what may
happen, not what will.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import yaml
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from twinrig.domain.options import SettingValue
from twinrig.domain.profile import Profile

SCHEMA_VERSION = 1


class FaultTableError(ValueError):
    """The table of ``resources/engines`` is malformed: a fault of this program."""


@dataclass(frozen=True)
class Condition:
    """On one setting: one of ``any_of``, or a number of ``at_least``. ``unset``: whether a profile
    without the setting counts too, because the engine's default is the dangerous one."""

    setting: str
    any_of: tuple[SettingValue, ...] = ()
    at_least: float | None = None
    unset: bool = False

    def holds(self, settings: Mapping[str, SettingValue]) -> bool:
        """Whether these settings meet it."""
        value = settings.get(self.setting)
        if value is None:
            return self.unset
        if self.at_least is not None:
            number = isinstance(value, (int, float)) and not isinstance(value, bool)
            return number and float(str(value)) >= self.at_least
        return any(type(value) is type(v) and value == v for v in self.any_of)


@dataclass(frozen=True)
class KnownFault:
    """One row. ``text`` and ``next_step`` are marked sentences, ``fixes`` fix ids, best first.

    ``fixed_in`` is "" while no version is known to be free of it. ``stops``: nothing works with
    it, on its ``platforms`` (none = all). ``log`` is what the engine writes when it happens.
    """

    id: str
    engine_id: str
    versions: str
    text: str
    next_step: str
    fixes: tuple[str, ...]
    needs: tuple[Condition, ...] = ()
    fixed_in: str = ""
    upstream: tuple[str, ...] = ()
    platforms: tuple[str, ...] = ()
    stops: bool = False
    source: str = ""
    marker: str = ""
    log: str = ""


def load_faults(text: str) -> tuple[KnownFault, ...]:
    """Rows in their order. Raises FaultTableError."""
    try:
        data = yaml.safe_load(text)
        if data["schema_version"] != SCHEMA_VERSION:
            raise FaultTableError(f"faults: schema_version must be {SCHEMA_VERSION}")
        faults = tuple(_fault(row) for row in data["faults"])
    except (yaml.YAMLError, KeyError, TypeError, AttributeError, InvalidSpecifier) as error:
        raise FaultTableError(f"faults: {error!r}") from error
    if len({fault.id for fault in faults}) != len(faults):
        raise FaultTableError("faults: an id is given twice")
    return faults


def faults_of(
    faults: Iterable[KnownFault],
    profile: Profile,
    version: str,
    *,
    platform: str = "linux",
    sources: Mapping[str, str] | None = None,
) -> tuple[KnownFault, ...]:
    """Those that can meet this profile with the engine's ``version`` on ``platform``.

    ``sources`` are texts of the checkout by their path in it, for faults without a version. An
    unknown version ("") has only the faults of all versions: nothing is claimed about it.
    """
    return tuple(
        fault
        for fault in faults
        if fault.engine_id == profile.engine.id
        and (not fault.platforms or platform in fault.platforms)
        and _has(fault.versions, version)
        and (not fault.source or fault.marker in (sources or {}).get(fault.source, ""))
        and all(condition.holds(profile.settings) for condition in fault.needs)
    )


def _has(versions: str, version: str) -> bool:
    if not versions:
        return True
    try:
        base = Version(version).base_version
    except InvalidVersion:
        return False
    return SpecifierSet(versions).contains(base, prereleases=True)


def _fault(row: Mapping[str, Any]) -> KnownFault:
    SpecifierSet(row["versions"])
    return KnownFault(
        id=row["id"],
        engine_id=row["engine"],
        versions=row["versions"],
        text=row["text"],
        next_step=row["next_step"],
        fixes=tuple(row["fixes"]),
        needs=tuple(
            Condition(**{**need, "any_of": tuple(need.get("any_of", ()))}) for need in row["needs"]
        ),
        fixed_in=row["fixed_in"],
        upstream=tuple(row["upstream"]),
        platforms=tuple(row.get("platforms", ())),
        stops=bool(row.get("stops", False)),
        source=row.get("source", ""),
        marker=row.get("marker", ""),
        log=row.get("log", ""),
    )

"""Reads single values of a profile's settings; what does not fit counts as not set."""

from __future__ import annotations

from collections.abc import Mapping

from twinrig.domain.options import SettingValue


def positive(values: Mapping[str, SettingValue], name: str) -> int | None:
    """A whole number above zero, None for anything else."""
    value = values.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        return None
    return value


def switch(values: Mapping[str, SettingValue], name: str) -> bool | None:
    """On, off, or not set."""
    value = values.get(name)
    return value if isinstance(value, bool) else None

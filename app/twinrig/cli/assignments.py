"""``KEY=VALUE`` words that edit a profile, in the types of the option table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from twinrig.domain.errors import FieldError, ProfileError, UsageError
from twinrig.domain.options import Option, OptionKind, SettingValue
from twinrig.domain.profile import EnvEntry, Profile
from twinrig.engines.base import Engine
from twinrig.messages import N_, message

REASON = N_("set on the command line")
_PARTS = {
    "engine": ("id", "environment", "version"),
    "model": ("path", "served_name"),
    "network": ("host", "port", "key_name"),
}
_TOP = ("name", "target", "distro")


def assign(profile: Profile, words: Sequence[str], engine: Engine | None) -> Profile:
    """The profile with all ``words`` applied.

    ``KEY`` is an option id, ``settings.ID``, ``env.NAME``, ``extra.KEY``, or a field such as
    ``network.port``. An empty VALUE removes a setting, variable or extra option, and empties a
    field. Raises ProfileError with all faults, UsageError for a word without "=".
    """
    faults: list[FieldError] = []
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise UsageError(
                message("{word} is not KEY=VALUE.", word=word),
                message("Example: context_length=16384 env.NCCL_DEBUG=WARN network.port=8001"),
            )
        try:
            profile = _assign(profile, key.strip(), value, engine)
        except _FaultError as fault:
            faults.append(fault.error)
    if faults:
        raise ProfileError(profile.name or profile.id, faults)
    return profile


def assigned_path(word: str) -> str:
    """Dotted path of the field that a word sets, as in a FieldError."""
    key = word.partition("=")[0].strip()
    return key if "." in key or key in _TOP else f"settings.{key}"


class _FaultError(Exception):
    def __init__(self, error: FieldError) -> None:
        super().__init__(error.path)
        self.error = error


def _assign(profile: Profile, key: str, value: str, engine: Engine | None) -> Profile:
    group, dot, name = key.partition(".")
    if not dot:
        if key in _TOP:
            changes: dict[str, Any] = {key: value}
            return replace(profile, **changes)
        return _setting(profile, key, value, engine)
    if group == "settings":
        return _setting(profile, name, value, engine)
    if group == "env":
        entry = EnvEntry(value, REASON) if value else None
        return replace(profile, env=_with(profile.env, name, entry))
    if group == "extra":
        return replace(profile, extra=_with(profile.extra, name, _guess(value)))
    if name in _PARTS.get(group, ()):
        return _part(profile, group, name, value)
    raise _FaultError(FieldError(key, message("is not a known field")))


def _with(old: Mapping[str, Any], name: str, value: Any) -> dict[str, Any]:
    new = dict(old)
    if value is None:
        new.pop(name, None)
    else:
        new[name] = value
    return new


def _part(profile: Profile, group: str, name: str, value: str) -> Profile:
    converted: str | int = value
    if (group, name) == ("network", "port"):
        if not value.isdecimal():
            raise _FaultError(
                FieldError("network.port", message("must be a number, not {value}", value=value))
            )
        converted = int(value)
    changes: dict[str, Any] = {group: replace(getattr(profile, group), **{name: converted})}
    return replace(profile, **changes)


def _setting(profile: Profile, name: str, value: str, engine: Engine | None) -> Profile:
    options = {o.id: o for o in engine.options()} if engine else {}
    option = options.get(name)
    path = f"settings.{name}"
    if value == "":
        return replace(profile, settings=_with(profile.settings, name, None))
    if option is None:
        text = message("is not a known setting; known are {names}", names=", ".join(options))
        raise _FaultError(FieldError(path, text))
    converted, fault = option.check(_typed(option, value))
    if fault is not None or converted is None:
        text = fault or message("is not a value for this setting")
        raise _FaultError(FieldError(path, text))
    return replace(profile, settings=_with(profile.settings, name, converted))


def _typed(option: Option, value: str) -> object:
    """The text in the option's type where it reads as one, else as it is: check() tells."""
    if option.kind is OptionKind.BOOL:
        return {
            "true": True,
            "yes": True,
            "on": True,
            "false": False,
            "no": False,
            "off": False,
        }.get(value.lower(), value)
    if option.kind in (OptionKind.INT, OptionKind.FLOAT):
        return _number(value)
    if option.kind is OptionKind.LIST:
        return [part.strip() for part in value.split(",") if part.strip()]
    return value


def _number(value: str) -> object:
    for convert in (int, float):
        try:
            return value if "_" in value else convert(value)
        except ValueError:
            continue
    return value


def _guess(value: str) -> SettingValue | None:
    """An extra option has no row in the table: true, false and plain numbers are told apart."""
    if value == "":
        return None
    if value in ("true", "false"):
        return value == "true"
    number = _number(value)
    return number if isinstance(number, (int, float)) else value

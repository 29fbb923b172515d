"""Turning a command that somebody else starts into a profile; the command is never changed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from twinrig.domain.options import Option, OptionKind, SettingValue


@dataclass(frozen=True)
class ForeignCommand:
    """What a unit file or a process shows. ``cwd`` and ``argv`` as they are on the target."""

    argv: tuple[str, ...]
    cwd: str = ""
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Adopted:
    """A command in the words of a profile. ``left_out`` names what could not be taken over."""

    environment: str
    model_path: str
    host: str
    port: int
    settings: Mapping[str, SettingValue]
    extra: Mapping[str, SettingValue] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()


def settings_from(
    table: Sequence[Option], values: Mapping[str, object]
) -> tuple[dict[str, SettingValue], tuple[str, ...]]:
    """Settings by option id from values by engine key, and the keys that did not fit."""
    rows = {option.engine_key: option for option in table}
    settings: dict[str, SettingValue] = {}
    left: list[str] = []
    for key, value in values.items():
        option = rows.get(key)
        if value is None:
            continue
        converted = None if option is None else option.check(_as_setting(option, value))[0]
        if option is None or converted is None:
            left.append(key)
        else:
            settings[option.id] = converted
    return settings, tuple(left)


def option_words(words: Iterable[str]) -> dict[str, object]:
    """``--key value``, ``--key=value`` and bare ``--key`` by key; several values make a list."""
    found: dict[str, object] = {}
    key = ""
    for word in words:
        if word.startswith("--") and len(word) > 2:
            key, equals, value = word[2:].partition("=")
            found[key] = value if equals else True
        elif key:
            present = found[key]
            if present is True:
                found[key] = word
            else:
                found[key] = [*present, word] if isinstance(present, list) else [present, word]
    return found


def _as_setting(option: Option, value: object) -> object:
    """The form in which a profile holds this kind of value; words of a command are read."""
    kind = option.kind
    if kind is OptionKind.JSON and not isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if kind is OptionKind.LIST:
        items = value if isinstance(value, list) else [value]
        return tuple(str(item) for item in items)
    if not isinstance(value, str):
        text = kind in (OptionKind.TEXT, OptionKind.CHOICE) and not isinstance(value, bool)
        return str(value) if text else value
    if kind is OptionKind.BOOL:
        return {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}.get(
            value.lower(), value
        )
    if kind in (OptionKind.INT, OptionKind.FLOAT):
        try:
            return float(value)
        except ValueError:
            return value
    return value

"""The option table: one row a setting; forms, CLI, validation and files come from it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from twinrig.messages import Message, message

SettingValue = bool | int | float | str | tuple[str, ...]


class OptionKind(StrEnum):
    """Type of a setting; it decides the widget and the conversion."""

    BOOL = "bool"
    INT = "int"
    FLOAT = "float"
    TEXT = "text"
    CHOICE = "choice"
    LIST = "list"
    JSON = "json"


class OptionGroup(StrEnum):
    """Section of the form."""

    CONTEXT = "context"
    CACHE = "cache"
    PARALLEL = "parallel"
    BATCH = "batch"
    DRAFT = "draft"
    MODEL = "model"
    LOADING = "loading"
    SERVING = "serving"


@dataclass(frozen=True)
class Option:
    """One setting of one engine.

    ``id`` is the product's name, ``engine_key`` the engine's own; ``versions`` is a PEP 440
    specifier set ("" = all). ``default`` None means: leave it to the engine. ``minimum`` and
    ``maximum`` are inclusive. ``choices`` are suggestions only when ``free_text`` is set;
    ``choice_versions`` names those that only some versions know, with their specifier set.
    """

    id: str
    engine_key: str
    kind: OptionKind
    group: OptionGroup
    label: str
    help: str
    default: SettingValue | None = None
    minimum: float | None = None
    maximum: float | None = None
    multiple_of: int | None = None
    choices: tuple[str, ...] = ()
    choice_versions: tuple[tuple[str, str], ...] = ()
    free_text: bool = False
    unit: str = ""
    versions: str = ""
    expert: bool = True
    risk: str = ""

    def check(self, value: object) -> tuple[SettingValue | None, Message | None]:
        """Convert ``value`` to this option's type: ``(value, None)`` or ``(None, fault)``."""
        converted, fault = _convert(self, value)
        if fault is not None or converted is None:
            return None, fault
        return (
            (converted, None) if (fault := _range_fault(self, converted)) is None else (None, fault)
        )


def _convert(option: Option, value: object) -> tuple[SettingValue | None, Message | None]:
    kind = option.kind
    if kind is OptionKind.BOOL:
        if isinstance(value, bool):
            return value, None
        return None, message("must be true or false, not {value}", value=repr(value))
    if kind in (OptionKind.INT, OptionKind.FLOAT):
        return _number(kind, value)
    if kind is OptionKind.LIST:
        if isinstance(value, (list, tuple)) and all(isinstance(v, str) for v in value):
            return tuple(value), None
        return None, message("must be a list of texts, not {value}", value=repr(value))
    if isinstance(value, str):
        return value, None
    return None, message("must be text in quotes, not {value}", value=repr(value))


def _number(kind: OptionKind, value: object) -> tuple[SettingValue | None, Message | None]:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None, message("must be a number, not {value}", value=repr(value))
    if kind is OptionKind.FLOAT:
        try:
            return float(value), None
        except OverflowError:
            return None, message("must be a number, not {value}", value="1e400")
    if isinstance(value, float) and not value.is_integer():
        return None, message("must be a whole number, not {value}", value=value)
    return int(value), None


def _range_fault(option: Option, value: SettingValue) -> Message | None:
    if option.kind is OptionKind.CHOICE and not option.free_text and value not in option.choices:
        return message(
            "must be one of {choices}, not {value}", choices=", ".join(option.choices), value=value
        )
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if isinstance(value, float) and not math.isfinite(value):  # NaN compares with nothing
        return message("must be a number, not {value}", value=value)
    if option.minimum is not None and value < option.minimum:
        return message(
            "must be at least {minimum}, not {value}", minimum=option.minimum, value=value
        )
    if option.maximum is not None and value > option.maximum:
        return message(
            "must be at most {maximum}, not {value}", maximum=option.maximum, value=value
        )
    if option.multiple_of and int(value) % option.multiple_of:
        return message(
            "must be a multiple of {step}, not {value}", step=option.multiple_of, value=value
        )
    return None

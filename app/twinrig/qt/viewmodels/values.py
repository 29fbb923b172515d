"""Texts of form fields to values and back, forgiving about width, spaces and separators."""

from __future__ import annotations

import json
import re
import unicodedata

from twinrig.domain.options import Option, OptionKind, SettingValue
from twinrig.messages import Message, message

_GROUPED = re.compile(r"[+-]?\d{1,3}([ ,_'\u00a0\u202f]\d{3})+")


def parse_setting(option: Option, text: str) -> tuple[SettingValue | None, Message | None]:
    """Value of a field, ``(None, None)`` when empty: the engine decides then."""
    if not text.strip():
        return None, None
    if option.kind is OptionKind.BOOL:
        plain = text.strip().lower()
        return option.check({"true": True, "false": False}.get(plain, text))
    if option.kind is OptionKind.LIST:
        return option.check([line.strip() for line in text.splitlines() if line.strip()])
    if option.kind is OptionKind.JSON:
        return _json(option, text)
    if option.kind in (OptionKind.INT, OptionKind.FLOAT):
        number = parse_number(text)
        if number is None:
            return None, message("must be a number, not {value}", value=repr(text.strip()))
        return option.check(number)
    return option.check(text.strip())


def parse_number(text: str) -> int | float | None:
    """A number as people type it: full-width digits, ``32,768`` and ``32 768`` are fine."""
    plain = unicodedata.normalize("NFKC", text).strip()
    if _GROUPED.fullmatch(plain):
        plain = re.sub(r"[ ,_'\u00a0\u202f]", "", plain)
    try:
        return int(plain)
    except ValueError:
        pass
    try:
        value = float(plain)
    except ValueError:
        return None
    return value if value == value and value not in (float("inf"), float("-inf")) else None


def _json(option: Option, text: str) -> tuple[SettingValue | None, Message | None]:
    try:
        json.loads(text)
    except (ValueError, RecursionError) as error:
        return None, message("is not valid JSON: {reason}", reason=str(error))
    return option.check(text.strip())


def parse_extra(text: str) -> SettingValue:
    """A further engine key has no row in the table: true, false and numbers become such."""
    plain = text.strip()
    if plain.lower() in ("true", "false"):
        return plain.lower() == "true"
    if re.fullmatch(r"[+-]?\d+", plain) and plain.isascii():
        return int(plain)
    if re.fullmatch(r"[+-]?\d+\.\d+", plain) and plain.isascii():
        return float(plain)
    return plain


def setting_text(value: SettingValue) -> str:
    """Text of a value in its field."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return "\n".join(value)
    return str(value)

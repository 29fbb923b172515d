"""Reads an engine's option table (YAML text of ``resources/engines``) and checks its form.

One row a setting; see ``domain.options.Option`` for the meaning of the fields. A fault in a
table is a fault of this program, not of the user: it raises ``OptionTableError`` at start.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import yaml
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from twinrig.domain.options import Option, OptionGroup, OptionKind

SCHEMA_VERSION = 1
_ID = re.compile(r"[a-z][a-z0-9_]*")
_TEXT_FIELDS = ("unit", "versions", "risk")
_KNOWN = frozenset(
    {"id", "key", "kind", "group", "label", "help", "default", "min", "max", "step"}
    | {"choices", "free_text", "expert", *_TEXT_FIELDS}
)


class OptionTableError(ValueError):
    """A table of ``resources/engines`` is malformed; the text names file, row and field."""


def parse_options(text: str, source: str) -> tuple[Option, ...]:
    """Rows of the table in their order. ``source`` names the file in errors.

    Raises OptionTableError for anything that is not exactly the documented form.
    """
    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise OptionTableError(f"{source}: not valid YAML: {error}") from error
    if not isinstance(data, dict) or not isinstance(data.get("options"), list):
        raise OptionTableError(f"{source}: needs a mapping with a list named options")
    if data.get("schema_version") != SCHEMA_VERSION:
        raise OptionTableError(f"{source}: schema_version must be {SCHEMA_VERSION}")
    options = tuple(
        _option(row, f"{source}: row {number}") for number, row in enumerate(data["options"], 1)
    )
    _refuse_duplicates([o.id for o in options], source)
    _refuse_duplicates([o.engine_key for o in options], source)
    return options


def known_to(option: Option, version: str) -> bool:
    """Whether the engine's ``version`` has this option; an unknown version ("") has all.

    Local tags ("0.32.0+cpu") and pre-releases count as the version they carry.
    """
    return _holds(option.versions, version)


def rows_for(options: Sequence[Option], version: str) -> tuple[Option, ...]:
    """Rows that the engine's ``version`` knows, each with the choices that it knows."""
    return tuple(_narrowed(option, version) for option in options if known_to(option, version))


def late_choice(option: Option, value: object, version: str) -> str | None:
    """The specifier set that ``version`` does not meet and this choice needs; None when fine."""
    for choice, span in option.choice_versions:
        if choice == value and not _holds(span, version):
            return span
    return None


def _narrowed(option: Option, version: str) -> Option:
    known = tuple(c for c in option.choices if late_choice(option, c, version) is None)
    return option if known == option.choices else replace(option, choices=known)


def _holds(span: str, version: str) -> bool:
    if not span or not version:
        return True
    try:
        parsed = Version(version)
    except InvalidVersion:
        return True
    return SpecifierSet(span).contains(parsed.base_version, prereleases=True)


def _option(row: object, where: str) -> Option:
    if not isinstance(row, dict):
        raise OptionTableError(f"{where}: must be a mapping")
    where = f"{where} ({row.get('id', 'no id')})"
    if unknown := set(row) - _KNOWN:
        raise OptionTableError(f"{where}: unknown fields {sorted(map(str, unknown))}")
    option = Option(
        id=_text(row, "id", where),
        engine_key=_text(row, "key", where),
        kind=_member(OptionKind, row, "kind", where),
        group=_member(OptionGroup, row, "group", where),
        label=_text(row, "label", where),
        help=_text(row, "help", where),
        minimum=_bound(row, "min", where),
        maximum=_bound(row, "max", where),
        multiple_of=_step(row, where),
        choices=tuple(choice for choice, _ in _choices(row, where)),
        choice_versions=tuple((c, span) for c, span in _choices(row, where) if span),
        free_text=_flag(row, "free_text", False, where),
        expert=_flag(row, "expert", True, where),
        **{name: _text(row, name, where, required=False) for name in _TEXT_FIELDS},
    )
    _check_row(option, where)
    return _with_default(option, row.get("default"), where)


def _check_row(option: Option, where: str) -> None:
    if not _ID.fullmatch(option.id):
        raise OptionTableError(f"{where}: id must be lower case words joined by underscores")
    if (option.kind is OptionKind.CHOICE) != bool(option.choices):
        raise OptionTableError(f"{where}: choices belong to kind choice, and only to it")
    low, high = option.minimum, option.maximum
    if low is not None and high is not None and low > high:
        raise OptionTableError(f"{where}: min is greater than max")
    try:
        SpecifierSet(option.versions)
    except InvalidSpecifier as error:
        raise OptionTableError(f"{where}: versions: {error}") from error


def _with_default(option: Option, default: object, where: str) -> Option:
    if default is None:
        return option
    value, fault = option.check(default)
    if fault is not None:
        raise OptionTableError(f"{where}: default {fault}")
    return replace(option, default=value)


def _text(row: Mapping[str, Any], name: str, where: str, *, required: bool = True) -> str:
    value = row.get(name, "")
    if not isinstance(value, str) or (required and not value.strip()):
        raise OptionTableError(f"{where}: {name} must be text")
    return value


def _flag(row: Mapping[str, Any], name: str, default: bool, where: str) -> bool:
    value = row.get(name, default)
    if not isinstance(value, bool):
        raise OptionTableError(f"{where}: {name} must be true or false")
    return value


def _bound(row: Mapping[str, Any], name: str, where: str) -> float | None:
    value = row.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise OptionTableError(f"{where}: {name} must be a number")
    return value


def _step(row: Mapping[str, Any], where: str) -> int | None:
    value = _bound(row, "step", where)
    if value is not None and (not isinstance(value, int) or value < 1):
        raise OptionTableError(f"{where}: step must be a whole number above zero")
    return value


def _choices(row: Mapping[str, Any], where: str) -> tuple[tuple[str, str], ...]:
    """Each choice with the versions that know it: a text, or ``{value: ..., versions: ...}``."""
    value = row.get("choices", [])
    if not isinstance(value, list):
        raise OptionTableError(f"{where}: choices must be a list")
    pairs = tuple(_choice(entry, where) for entry in value)
    _refuse_duplicates([choice for choice, _ in pairs], where)
    return pairs


def _choice(entry: object, where: str) -> tuple[str, str]:
    if isinstance(entry, str):
        return entry, ""
    if not isinstance(entry, dict) or set(entry) != {"value", "versions"}:
        raise OptionTableError(f"{where}: choices must be texts, or value and versions")
    choice, span = (_text(entry, name, where) for name in ("value", "versions"))
    try:
        SpecifierSet(span)
    except InvalidSpecifier as error:
        raise OptionTableError(f"{where}: versions of {choice}: {error}") from error
    return choice, span


def _member(kind: type[Any], row: Mapping[str, Any], name: str, where: str) -> Any:
    try:
        return kind(row.get(name))
    except ValueError as error:
        allowed = ", ".join(m.value for m in kind)
        raise OptionTableError(f"{where}: {name} must be one of {allowed}") from error


def _refuse_duplicates(names: Sequence[str], where: str) -> None:
    if twice := sorted(n for n, count in Counter(names).items() if count > 1):
        raise OptionTableError(f"{where}: given twice: {', '.join(twice)}")

"""Reads and checks rule files. A broken file is refused with its line; the others still work."""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import yaml

from twinrig.diagnosis.conditions import OPERATORS, Condition
from twinrig.diagnosis.derived import DERIVATIONS
from twinrig.diagnosis.rules import CONFIDENCES, TIERS, Kind, Rules, Signature, Variant
from twinrig.diagnosis.watches import OBSERVATIONS

SCHEMA_VERSION = 2
RULE_FILES = ("common", "links", "libraries", "memory", "processes", "models", "cards", "windows")
"""Names of the shipped files below ``resources/rules``; ``common`` comes first."""

_KIND_FIELDS = frozenset(
    {"id", "text", "next_step", "ceiling", "permanent", "fixes", "signatures", "unless"}
    | {"variants", "catalogued"}
)
_SIGNATURE_FIELDS = frozenset(
    {"tier", "confidence", "needles", "match", "excludes", "near", "not_near", "present", "absent"}
    | {"after", "before", "when", "exit", "observed", "derive", "repeats", "info", "warning"}
    | {"survives", "after_stop", "text", "next_step", "fixes", "permanent"}
)
_FILE_FIELDS = frozenset({"schema_version", "markers", "wrappers", "harmless", "kinds"})
_BARE = ("is_true", "is_false", "given")
_WARNING_TIERS = ("native", "library")
"""Broken libraries are told as warnings; what a worker merely warns of, it survived."""


class RulesError(ValueError):
    """A rule file is malformed; the text names file, line, rule and field."""


_Safe: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The C loader is ten times faster where PyYAML was built with it."""


class _Loader(_Safe):  # type: ignore[misc]  # chosen at run time
    """Remembers in which line each mapping begins, as ``__line__``."""


def _mapping(loader: Any, node: yaml.MappingNode) -> dict[Any, Any]:
    data = {**loader.construct_mapping(node, deep=True)}
    data["__line__"] = node.start_mark.line + 1
    return data


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def load_shipped(read_text: Callable[[str], str]) -> Rules:
    """All shipped rules. A file that is missing or broken stands in ``faults``, and only there.

    Raises RulesError when ``common`` is unusable: without markers no rule can be judged.
    """
    files: dict[str, str] = {}
    faults: list[str] = []
    for name in RULE_FILES:
        try:
            files[name] = read_text(f"rules/{name}.yaml")
        except (OSError, UnicodeDecodeError) as error:
            faults.append(f"{name}.yaml: {error}")
    return load_rules(files, faults)


def load_rules(files: Mapping[str, str], faults: Sequence[str] = ()) -> Rules:
    """Parse and check files by name, ``common`` first. Raises RulesError if that one is bad."""
    if "common" not in files:
        raise RulesError("; ".join(["common.yaml is missing", *faults]))
    common = _parse(files["common"], "common.yaml")
    markers = _markers(common, "common.yaml")
    found: list[Kind] = []
    bad = list(faults)
    for name, text in files.items():
        source = f"{name}.yaml"
        try:
            kinds = _kinds(_parse(text, source), source, frozenset(markers))
            _no_doubles([*found, *kinds])
        except RulesError as error:
            if name == "common":
                raise
            bad.append(str(error))
            continue
        found.extend(kinds)
    return Rules(
        tuple(found),
        _texts(common, "wrappers", "common.yaml"),
        _texts(common, "harmless", "common.yaml"),
        markers,
        tuple(bad),
    )


def _parse(text: str, source: str) -> dict[str, Any]:
    try:
        data = yaml.load(text, _Loader)
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        raise RulesError(f"{source}: not valid YAML: {error}") from error
    if not isinstance(data, dict):
        raise RulesError(f"{source}: needs a mapping")
    if data.get("schema_version") != SCHEMA_VERSION:
        raise RulesError(f"{source}: schema_version must be {SCHEMA_VERSION}")
    data.pop("__line__", None)
    if unknown := set(data) - _FILE_FIELDS:
        raise RulesError(f"{source}: unknown fields {sorted(map(str, unknown))}")
    return data


def _markers(data: Mapping[str, Any], source: str) -> dict[str, tuple[str, ...]]:
    rows = data.get("markers")
    if not isinstance(rows, dict):
        raise RulesError(f"{source}: markers must map names to phrases")
    markers = {str(n): _texts(rows, n, source) for n in rows if n != "__line__"}
    for name in ("started", "ready", "stopped"):
        if not markers.get(name):
            raise RulesError(f"{source}: markers must hold {name}")
    return markers


def _kinds(data: Mapping[str, Any], source: str, markers: frozenset[str]) -> list[Kind]:
    rows = data.get("kinds", [])
    if not isinstance(rows, list):
        raise RulesError(f"{source}: kinds must be a list")
    return [_kind(row, source, markers) for row in rows]


def _no_doubles(kinds: Sequence[Kind]) -> None:
    seen: set[str] = set()
    for kind in kinds:
        if kind.id in seen:
            raise RulesError(f"{kind.source}: {kind.id} is given twice")
        seen.add(kind.id)


def _kind(row: object, source: str, markers: frozenset[str]) -> Kind:
    where, row = _row(row, source, _KIND_FIELDS)
    rows = row.get("signatures")
    if not isinstance(rows, list) or not rows:
        raise RulesError(f"{where}: signatures must be a list that is not empty")
    kind = Kind(
        id=_text(row, "id", where),
        text=_text(row, "text", where),
        next_step=_text(row, "next_step", where),
        ceiling=_choice(row, "ceiling", CONFIDENCES, where, "high"),
        permanent=_flag(row, "permanent", where, None),
        fixes=_texts(row, "fixes", where),
        signatures=tuple(_signature(r, where, markers) for r in rows),
        unless=_texts(row, "unless", where),
        variants=tuple(_variant(r, where) for r in _rows(row, "variants", where)),
        catalogued=_flag(row, "catalogued", where, True),
        source=where,
    )
    for signature in kind.signatures:
        _check_texts(kind, signature, where)
    return kind


def _signature(row: object, source: str, markers: frozenset[str]) -> Signature:
    where, row = _row(row, source, _SIGNATURE_FIELDS)
    tier = _choice(row, "tier", TIERS, where)
    permanent = row.get("permanent")
    signature = Signature(
        tier=tier,
        confidence=_choice(row, "confidence", CONFIDENCES, where),
        needles=_texts(row, "needles", where),
        match=_pattern(row, "match", where),
        excludes=_pattern(row, "excludes", where),
        near=_pattern(row, "near", where),
        not_near=_pattern(row, "not_near", where),
        present=_texts(row, "present", where),
        absent=_texts(row, "absent", where),
        after=_texts(row, "after", where),
        before=_texts(row, "before", where),
        when=_conditions(row, where),
        exit=_pattern(row, "exit", where),
        observed=_text(row, "observed", where, ""),
        derive=_texts(row, "derive", where),
        repeats=_count(row, where),
        info=_flag(row, "info", where, False),
        warning=_flag(row, "warning", where, tier in _WARNING_TIERS),
        survives=_flag(row, "survives", where, tier == "request"),
        after_stop=_flag(row, "after_stop", where, tier in ("windows", "native")),
        text=_text(row, "text", where, ""),
        next_step=_text(row, "next_step", where, ""),
        fixes=_texts(row, "fixes", where),
        permanent=None if permanent is None else _flag(row, "permanent", where, None),
    )
    _check_signature(signature, where, markers)
    return signature


def _check_signature(signature: Signature, where: str, markers: frozenset[str]) -> None:
    if not (signature.needles or signature.exit or signature.observed or signature.when):
        raise RulesError(f"{where}: needs needles, an observation, conditions or an exit pattern")
    if signature.match and not signature.needles:
        raise RulesError(f"{where}: match needs needles")
    if unknown := {*signature.after, *signature.before} - markers:
        raise RulesError(f"{where}: no such markers: {sorted(unknown)}")
    if unknown := set(signature.derive) - set(DERIVATIONS):
        raise RulesError(f"{where}: no such derivations: {sorted(unknown)}")
    if signature.observed and signature.observed not in OBSERVATIONS:
        raise RulesError(f"{where}: no such observation: {signature.observed}")


def _check_texts(kind: Kind, signature: Signature, where: str) -> None:
    given = set(signature.match.groupindex) if signature.match else set()
    given |= {DERIVATIONS[name].gives for name in signature.derive}
    given |= set(OBSERVATIONS.get(signature.observed, ()))
    for text in (signature.text or kind.text, signature.next_step or kind.next_step):
        if lost := _placeholders(text, where) - given:
            raise RulesError(f"{where}: texts name {sorted(lost)}, which nothing captures")


def _placeholders(text: str, where: str) -> set[str]:
    try:
        return {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}
    except ValueError as error:
        raise RulesError(f"{where}: braces in a text: {error}") from error


def _variant(row: object, source: str) -> Variant:
    where, row = _row(row, source, frozenset({"when", "fixes", "next_step"}))
    variant = Variant(
        _conditions(row, where), _texts(row, "fixes", where), _text(row, "next_step", where, "")
    )
    if not variant.when or not variant.fixes:
        raise RulesError(f"{where}: a variant needs conditions and fixes")
    return variant


def _conditions(row: Mapping[str, Any], where: str) -> tuple[Condition, ...]:
    return tuple(_condition(r, where) for r in _rows(row, "when", where))


def _condition(row: object, source: str) -> Condition:
    where, row = _row(row, source, frozenset({"fact", "required", *OPERATORS}))
    chosen = [name for name in OPERATORS if name in row]
    if len(chosen) != 1:
        raise RulesError(f"{where}: a condition needs one of {', '.join(OPERATORS)}")
    operator = chosen[0]
    value = "" if operator in _BARE else _text(row, operator, where)
    if operator == "matches":
        _pattern(row, operator, where)
    return Condition(
        _text(row, "fact", where), operator, value, _flag(row, "required", where, False)
    )


def _row(row: object, source: str, fields: frozenset[str]) -> tuple[str, Mapping[str, Any]]:
    if not isinstance(row, dict):
        raise RulesError(f"{source}: {row!r} must be a mapping")
    line = row.get("__line__", "?")
    file, _, rest = source.partition(":")
    owner = rest[rest.find("(") :] if "(" in rest else ""
    if "id" in row:
        owner = f"({row['id']})"
    where = f"{file}:{line} {owner}".rstrip()
    if unknown := set(row) - fields - {"__line__"}:
        raise RulesError(f"{where}: unknown fields {sorted(map(str, unknown))}")
    return where, row


def _rows(row: Mapping[str, Any], name: str, where: str) -> list[object]:
    value = row.get(name, [])
    if not isinstance(value, list):
        raise RulesError(f"{where}: {name} must be a list")
    return value


def _text(row: Mapping[str, Any], name: str, where: str, default: str | None = None) -> str:
    value = row.get(name, default)
    if not isinstance(value, str) or (default is None and not value.strip()):
        raise RulesError(f"{where}: {name} must be text")
    return value


def _choice(
    row: Mapping[str, Any],
    name: str,
    choices: Sequence[str],
    where: str,
    default: str | None = None,
) -> str:
    value = row.get(name, default)
    if value not in choices:
        raise RulesError(f"{where}: {name} must be one of {', '.join(choices)}")
    return str(value)


def _texts(row: Mapping[Any, Any], name: object, where: str) -> tuple[str, ...]:
    value = row.get(name, [])
    value = [value] if isinstance(value, str) else value
    if not isinstance(value, list) or not all(isinstance(v, str) and v for v in value):
        raise RulesError(f"{where}: {name} must be a text or a list of texts")
    return tuple(value)


def _flag(row: Mapping[str, Any], name: str, where: str, default: bool | None) -> bool:
    value = row.get(name, default)
    if not isinstance(value, bool):
        raise RulesError(f"{where}: {name} must be true or false")
    return value


def _count(row: Mapping[str, Any], where: str) -> int:
    value = row.get("repeats", 1)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise RulesError(f"{where}: repeats must be a whole number above zero")
    return value


def _pattern(row: Mapping[str, Any], name: str, where: str) -> re.Pattern[str] | None:
    value = row.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or not value:
        raise RulesError(f"{where}: {name} must be a regular expression")
    try:
        return re.compile(value)
    except re.error as error:
        raise RulesError(f"{where}: {name}: {error}") from error

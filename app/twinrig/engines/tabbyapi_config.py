"""What a profile puts into tabbyAPI's ``config.yml``, and what that file must not hide.

Rules as read and run in tabbyAPI up to 2026-08-13: unknown keys are ignored silently, a key with
an old name makes it rewrite the file without its comments, a ``tabby_config.yml`` in the model's
folder wins over everything. A key that Twinrig sets keeps its former value in a last comment
line, so that another profile does not inherit it.
"""

from __future__ import annotations

import ast
import json
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from twinrig.domain.errors import FieldError
from twinrig.domain.options import Option, OptionKind, SettingValue
from twinrig.domain.profile import Profile
from twinrig.engines.tabbyapi_edit import ConfigRefusedError, edit_sections, read_sections
from twinrig.messages import message

NUMBER_LISTS = frozenset({"gpu_split", "autosplit_reserve", "draft_gpu_split"})
SAMPLERS = "sampler_overrides"
_HEADER = (
    "# tabbyAPI's settings. Twinrig sets some keys for each start and leaves the others alone.\n"
)
_MARK = "# Set by Twinrig; before: "
_MARK_LINE = re.compile(re.escape(_MARK) + r"(\{.*\})[ \t]*\r?(?:\n|\Z)")
_LEGACY = (("model", "draft"), ("model", "lora"))

Values = dict[str, dict[str, object]]


def wanted_values(profile: Profile, table: Sequence[Option], disable_auth: bool | None) -> Values:
    """Sections and keys that this profile asks for. ``disable_auth`` None leaves it alone."""
    path = profile.model.path.rstrip("/")
    values: Values = {
        "network": {"host": profile.network.host, "port": profile.network.port},
        "model": {"model_dir": posixpath.dirname(path), "model_name": posixpath.basename(path)},
    }
    if disable_auth is not None:
        values["network"]["disable_auth"] = disable_auth
    for option in table:
        section, _, key = option.engine_key.partition(".")
        value = profile.settings.get(option.id)
        if value is not None and section != SAMPLERS:
            values.setdefault(section, {})[key] = engine_value(option, value)
    if sampler_values(profile, table):
        values.setdefault("sampling", {})["override_preset"] = preset_name(profile)
    for name, value in sorted(profile.extra.items()):
        section, _, key = name.partition(".")
        values.setdefault(section, {})[key] = list(value) if isinstance(value, tuple) else value
    return values


def engine_value(option: Option, value: SettingValue) -> object:
    """A setting in the type that tabbyAPI's schema has for it."""
    if option.kind is OptionKind.JSON:
        return json.loads(str(value))
    if isinstance(value, tuple):
        return [float(v) for v in value] if option.id in NUMBER_LISTS else list(value)
    if option.id == "rope_alpha" and value != "auto":
        return float(str(value))
    if option.kind is OptionKind.FLOAT and not isinstance(value, (bool, str)):
        return float(value)
    return value


def sampler_values(profile: Profile, table: Sequence[Option]) -> dict[str, SettingValue]:
    """Sampler defaults of the profile by tabbyAPI's own names."""
    return {
        option.engine_key.partition(".")[2]: profile.settings[option.id]
        for option in table
        if option.engine_key.startswith(f"{SAMPLERS}.") and option.id in profile.settings
    }


def preset_name(profile: Profile) -> str:
    """Name of the profile's own sampler preset."""
    return f"twinrig-{profile.id}"


def preset_text(values: Mapping[str, SettingValue]) -> str:
    """A preset that stands in where a client says nothing."""
    parts = [
        f"{name}:\n  override: {json.dumps(v)}\n  force: false\n" for name, v in values.items()
    ]
    return "# Written by Twinrig for each start; edit the profile instead.\n" + "".join(parts)


def config_text(present: str | None, wanted: Values, path: str) -> str:
    """``present`` with the wanted keys set and earlier ones of ours put back.

    Raises ConfigRefusedError; the file must then be left as it is.
    """
    text = present if present is not None else _HEADER
    text, earlier = _without_mark(text)
    data = read_sections(text, path)
    _refuse_legacy(data, path)
    changes: Values = {section: dict(values) for section, values in wanted.items()}
    for name, value in earlier.items():
        section, _, key = name.partition(".")
        if key not in wanted.get(section, {}):
            changes.setdefault(section, {})[key] = value
    now = {
        f"{section}.{key}": earlier.get(f"{section}.{key}", _present(data, section, key))
        for section, values in wanted.items()
        for key in values
    }
    text = edit_sections(text, changes, path)
    newline = "\r\n" if "\r\n" in text else "\n"
    if text and not text.endswith("\n"):
        text += newline
    return text + _MARK + json.dumps(now, ensure_ascii=False, default=str) + newline


def _without_mark(text: str) -> tuple[str, dict[str, Any]]:
    found = _MARK_LINE.search(text)
    if found is None:
        return text, {}
    rest = text[: found.start()] + text[found.end() :]
    try:
        earlier = json.loads(found[1])
    except (ValueError, RecursionError):
        return rest, {}
    return rest, earlier if isinstance(earlier, dict) else {}


def _present(data: Mapping[str, Any], section: str, key: str) -> object:
    values = data.get(section)
    return values.get(key) if isinstance(values, dict) else None


def _refuse_legacy(data: Mapping[str, Any], path: str) -> None:
    old = [f"{s}.{k}" for s, k in _LEGACY if _present(data, s, k)]
    logging = data.get("logging")
    if isinstance(logging, dict):
        old += [f"logging.{k}" for k in logging if not str(k).startswith("log_")]
    if old:
        raise ConfigRefusedError(
            path,
            message(
                "{key} is an old name, for which tabbyAPI rewrites the file without its comments",
                key=old[0],
            ),
        )


def known_keys(source: str) -> Mapping[str, frozenset[str]]:
    """Keys of each section that this tabbyAPI knows, from the text of its config models.

    Empty when the text is not what it was: then nothing is known, and nothing is refused.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return {}
    classes = {
        node.name: {
            item.target.id: ast.unparse(item.annotation)
            for item in node.body
            if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
        }
        for node in tree.body
        if isinstance(node, ast.ClassDef)
    }
    sections = {}
    for section, annotation in classes.get("TabbyConfigModel", {}).items():
        names = re.findall(r"\w+", annotation)
        model = next((classes[name] for name in names if name in classes), None)
        if model is not None:
            sections[section] = frozenset(key for key in model if not key.startswith("_"))
    return sections


def unknown_wanted(
    wanted: Values, known: Mapping[str, frozenset[str]], table: Sequence[Option]
) -> Iterator[FieldError]:
    """Keys that this tabbyAPI would ignore without a word."""
    ids = {option.engine_key: f"settings.{option.id}" for option in table}
    for section, values in wanted.items():
        for key in values:
            if known and key not in known.get(section, frozenset()):
                name = f"{section}.{key}"
                yield FieldError(
                    ids.get(name, f"extra.{name}"),
                    message(
                        "this tabbyAPI does not know {key} and would ignore it; update tabbyAPI,"
                        " or remove the setting",
                        key=name,
                    ),
                )


def strange_keys(text: str, known: Mapping[str, frozenset[str]], path: str) -> tuple[str, ...]:
    """Keys of a file that this tabbyAPI ignores: misspelt, in a wrong section, or without one.

    Raises ConfigRefusedError for a file that tabbyAPI cannot read either.
    """
    found = []
    for section, values in read_sections(text, path).items():
        if section not in known:
            found.append(str(section))
        elif isinstance(values, dict):
            found += [f"{section}.{key}" for key in values if key not in known[section]]
    return tuple(found)


def overruled(
    model_text: str | None, wanted: Values, table: Sequence[Option], path: str
) -> Iterator[FieldError]:
    """Settings that the model folder's own ``tabby_config.yml`` would silently replace."""
    if model_text is None:
        return
    ids = {option.engine_key: f"settings.{option.id}" for option in table}
    data = read_sections(model_text, path)
    for section in ("model", "draft_model"):
        for key, value in wanted.get(section, {}).items():
            theirs = _present(data, section, key)
            if theirs is not None and theirs != value:
                name = f"{section}.{key}"
                yield FieldError(
                    ids.get(name, "model.path"),
                    message(
                        "{path} says {theirs} for {key}, which wins; use the same value or remove"
                        " it there",
                        path=path,
                        theirs=str(theirs)[:60],
                        key=name,
                    ),
                )

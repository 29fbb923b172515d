"""Profiles as YAML text: reading reports every fault at once, writing quotes every text.

Layout: one top-level key per field of ``Profile``; ``env`` holds ``{value, reason}`` per name.
Unknown keys are faults, never dropped silently.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import yaml

from twinrig.domain.errors import DamagedFileError, FieldError, NewerSchemaError, ProfileError
from twinrig.domain.options import SettingValue
from twinrig.domain.profile import (
    SCHEMA_VERSION,
    EngineRef,
    EnvEntry,
    ModelRef,
    Network,
    Profile,
)
from twinrig.messages import N_, Message, message
from twinrig.services.yaml_text import read_yaml

Migration = Callable[[dict[str, Any]], dict[str, Any]]

MIGRATIONS: Mapping[int, Migration] = {}
"""From version N to N + 1, by N. Version 1 is the first, so there is none yet."""

_HEADER = "# A Twinrig profile. Keys and tokens do not belong here.\n"


_LAST_KEY = "nodes"
"""Half a YAML file is often valid YAML: what we wrote ourselves always ends with this key."""


class _Quoted(str):
    """A text value, always written in double quotes so that nobody guesses its type."""

    __slots__ = ()


class _Dumper(yaml.SafeDumper):
    """SafeDumper with quoted text values."""


_Dumper.add_representer(
    _Quoted,
    lambda dumper, value: dumper.represent_scalar("tag:yaml.org,2002:str", str(value), style='"'),
)


def dump_profile(profile: Profile) -> str:
    """YAML text that ``parse_profile`` reads back to an equal profile."""
    data: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "id": profile.id,
        "name": profile.name,
        "target": profile.target,
        "distro": profile.distro,
        "engine": {
            "id": profile.engine.id,
            "environment": profile.engine.environment,
            "version": profile.engine.version,
        },
        "model": {"path": profile.model.path, "served_name": profile.model.served_name},
        "network": {
            "host": profile.network.host,
            "port": profile.network.port,
            "key_name": profile.network.key_name,
        },
        "settings": dict(profile.settings),
        "env": {
            name: {"value": entry.value, "reason": entry.reason}
            for name, entry in profile.env.items()
        },
        "extra": dict(profile.extra),
        "nodes": list(profile.nodes),
    }
    body = yaml.dump(
        _quoted(data), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1_000_000
    )
    return _HEADER + body


def _quoted(value: Any) -> Any:
    if isinstance(value, str):
        return _Quoted(value)
    if isinstance(value, Mapping):
        return {str(k): _quoted(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_quoted(v) for v in value]
    return value


def parse_profile(text: str, source: str) -> Profile:
    """The profile in ``text``; ``source`` names it in messages.

    Raises ProfileError with all faults, DamagedFileError, NewerSchemaError.
    Setting values are as written; the engine's option table judges them (ProfileStore).
    """
    profile, faults = read_profile(text, source)
    if faults:
        raise ProfileError(source, faults)
    return profile


def read_profile(
    text: str, source: str, migrations: Mapping[int, Migration] = MIGRATIONS
) -> tuple[Profile, tuple[FieldError, ...]]:
    """Like ``parse_profile``, but returns what could be read together with the faults."""
    data, yaml_faults = read_yaml(text, source)
    if data is None:
        raise DamagedFileError(
            message("{path} is empty.", path=source),
            message("Restore its previous version, or delete it."),
        )
    if not isinstance(data, dict):
        raise DamagedFileError(
            message("{path} does not hold a profile.", path=source),
            message("Correct the file in a text editor, or restore its previous version."),
        )
    if text.startswith(_HEADER) and _LAST_KEY not in data:
        raise DamagedFileError(
            message("{path} is cut off: its end is missing.", path=source),
            message("Restore its previous version, or complete the file in a text editor."),
        )
    reader = _Reader(_migrated(data, source, migrations))
    profile = reader.profile()
    known = {fault.path for fault in yaml_faults}
    faults = (*yaml_faults, *(f for f in reader.faults if f.path not in known))
    return profile, faults


def _migrated(
    data: dict[str, Any], source: str, migrations: Mapping[int, Migration]
) -> dict[str, Any]:
    version = data.get("schema_version")
    if not isinstance(version, int) or isinstance(version, bool):
        return data  # the reader reports it
    if version > SCHEMA_VERSION:
        raise NewerSchemaError(
            message(
                "{path} was written by a newer Twinrig (version {version}).",
                path=source,
                version=version,
            ),
            message("Update Twinrig to use this profile; the file was not changed."),
        )
    while version < SCHEMA_VERSION and version in migrations:
        data = migrations[version](data)
        version += 1
        data["schema_version"] = version
    return data


class _Reader:
    """Takes one profile apart and collects the faults."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.faults: list[FieldError] = []
        self._data = data

    def profile(self) -> Profile:
        top = self._data
        self._unknown("", top, _TOP)
        version = top.get("schema_version")
        if version != SCHEMA_VERSION or isinstance(version, bool):
            self._fault("schema_version", N_("must be {version}"), version=SCHEMA_VERSION)
        engine = self._group("engine", ("id", "environment", "version"), required=True)
        model = self._group("model", ("path", "served_name"), required=True)
        network = self._group("network", ("host", "port", "key_name"))
        port = network.get("port", Network.port)
        if not isinstance(port, int) or isinstance(port, bool):
            self._fault("network.port", N_("must be a whole number, not {value}"), value=repr(port))
            port = Network.port
        return Profile(
            id=self._text("", top, "id"),
            name=self._text("", top, "name", required=True),
            target=self._text("", top, "target", required=True),
            engine=EngineRef(
                self._text("engine", engine, "id", required=True),
                self._text("engine", engine, "environment"),
                self._text("engine", engine, "version"),
            ),
            model=ModelRef(
                self._text("model", model, "path", required=True),
                self._text("model", model, "served_name"),
            ),
            network=Network(
                self._text("network", network, "host", default=Network.host),
                port,
                self._text("network", network, "key_name"),
            ),
            distro=self._text("", top, "distro"),
            settings=self._values("settings"),
            env=self._env(),
            extra=self._values("extra"),
            nodes=self._nodes(),
        )

    def _fault(self, path: str, msgid: str, **params: Any) -> None:
        self.faults.append(FieldError(path, Message(msgid, params)))

    def _unknown(self, prefix: str, data: Mapping[str, Any], known: tuple[str, ...]) -> None:
        for name in data:
            if name not in known:
                path = f"{prefix}.{name}" if prefix else str(name)
                self._fault(
                    path, N_("is not a known field; known are {names}"), names=", ".join(known)
                )

    def _group(
        self, name: str, known: tuple[str, ...] | None, required: bool = False
    ) -> Mapping[str, Any]:
        value = self._data.get(name)
        if value is None and not required:
            return {}
        if not isinstance(value, dict):
            self._fault(name, N_("must be a group of fields, not {value}"), value=repr(value)[:80])
            return {}
        if known is not None:
            self._unknown(name, value, known)
        return value

    def _text(
        self,
        prefix: str,
        data: Mapping[str, Any],
        name: str,
        default: str = "",
        required: bool = False,
    ) -> str:
        path = f"{prefix}.{name}" if prefix else name
        if name not in data:
            if required and (not prefix or data):
                self._fault(path, N_("is missing"))
            return default
        value = data[name]
        if not isinstance(value, str):
            self._fault(path, N_("must be text in quotes, not {value}"), value=repr(value)[:80])
            return default
        return value

    def _values(self, name: str) -> dict[str, SettingValue]:
        values: dict[str, SettingValue] = {}
        for key, value in self._group(name, None).items():
            if isinstance(value, (bool, int, float, str)):
                values[key] = value
            elif isinstance(value, list) and all(isinstance(v, str) for v in value):
                values[key] = tuple(value)
            else:
                self._fault(
                    f"{name}.{key}",
                    N_("must be text, a number, true, false or a list of texts, not {value}"),
                    value=repr(value)[:80],
                )
        return values

    def _env(self) -> dict[str, EnvEntry]:
        entries: dict[str, EnvEntry] = {}
        for key, value in self._group("env", None).items():
            path = f"env.{key}"
            if isinstance(value, str):
                entries[key] = EnvEntry(value)
            elif isinstance(value, dict):
                self._unknown(path, value, ("value", "reason"))
                entries[key] = EnvEntry(
                    self._text(path, value, "value", required=True),
                    self._text(path, value, "reason"),
                )
            else:
                self._fault(path, N_("must be text in quotes, not {value}"), value=repr(value)[:80])
        return entries

    def _nodes(self) -> tuple[str, ...]:
        value = self._data.get("nodes", list(Profile.nodes))
        if isinstance(value, list) and all(isinstance(v, str) for v in value):
            return tuple(value)
        self._fault("nodes", N_("must be a list of texts, not {value}"), value=repr(value)[:80])
        return Profile.nodes


_TOP = (
    "schema_version",
    "id",
    "name",
    "target",
    "distro",
    "engine",
    "model",
    "network",
    "settings",
    "env",
    "extra",
    "nodes",
)

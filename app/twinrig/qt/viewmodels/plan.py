"""The profile being edited on the Plan page: fields, faults, and what changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from twinrig.domain.errors import FieldError
from twinrig.domain.options import Option, OptionGroup, SettingValue
from twinrig.domain.profile import EnvEntry, Profile
from twinrig.messages import Message, message
from twinrig.qt.viewmodels.values import parse_extra, parse_number, parse_setting, setting_text


@dataclass(frozen=True)
class EnvRow:
    """One line of the environment table; ``reason`` is kept from the profile."""

    name: str
    value: str
    reason: str = ""


@dataclass(frozen=True)
class ExtraRow:
    """One line of the table of further engine keys, as typed."""

    key: str
    text: str


def group_options(
    options: Iterable[Option], *, expert: bool, used: Iterable[str] = ()
) -> dict[OptionGroup, tuple[Option, ...]]:
    """Options by section in the order of the sections.

    Simple leaves out expert options, except those the profile uses: what is set is shown.
    """
    kept = set(used)
    groups: dict[OptionGroup, tuple[Option, ...]] = {}
    rows = [o for o in options if expert or not o.expert or o.id in kept]
    for group in OptionGroup:
        members = tuple(o for o in rows if o.group is group)
        if members:
            groups[group] = members
    return groups


class PlanModel:
    """Holds texts as typed beside the profile, so that a half-typed number is never lost.

    ``base`` is the profile as it is on disk (None = never saved).
    """

    def __init__(self, profile: Profile, options: Sequence[Option], base: Profile | None) -> None:
        self.options: Mapping[str, Option] = {o.id: o for o in options}
        self.load(profile, base)

    def load(self, profile: Profile, base: Profile | None) -> None:
        """Start over from ``profile``."""
        self.base = base
        self._profile = profile
        self._texts: dict[str, str] = {}
        self._port_text = str(profile.network.port)
        self.env_rows: list[EnvRow] = [
            EnvRow(name, entry.value, entry.reason) for name, entry in profile.env.items()
        ]
        self.extra_rows: list[ExtraRow] = [
            ExtraRow(key, setting_text(value)) for key, value in profile.extra.items()
        ]

    @property
    def profile(self) -> Profile:
        """What is edited, without the texts of form fields; ``build`` has all."""
        return self._profile

    def set_name(self, name: str) -> None:
        """Name to show."""
        self._profile = replace(self._profile, name=name.strip())

    def set_model(self, path: str) -> None:
        """Model folder on the target."""
        self._profile = replace(
            self._profile, model=replace(self._profile.model, path=path.strip())
        )

    def set_served_name(self, name: str) -> None:
        """Name that clients use; "" = the folder's name."""
        model = replace(self._profile.model, served_name=name.strip())
        self._profile = replace(self._profile, model=model)

    def set_environment(self, folder: str) -> None:
        """Python environment of the engine; "" = find one."""
        engine = replace(self._profile.engine, environment=folder.strip())
        self._profile = replace(self._profile, engine=engine)

    def set_host(self, host: str) -> None:
        """Listen address."""
        network = replace(self._profile.network, host=host.strip())
        self._profile = replace(self._profile, network=network)

    def set_key_name(self, name: str) -> None:
        """Name under which the server's key is stored; "" = no key."""
        network = replace(self._profile.network, key_name=name.strip())
        self._profile = replace(self._profile, network=network)

    def set_port(self, text: str) -> None:
        """Port as typed."""
        self._port_text = text

    def set_setting(self, option_id: str, text: str) -> None:
        """A setting as typed; "" leaves it to the engine."""
        self._texts[option_id] = text

    def setting(self, option_id: str) -> str:
        """Text to show in the field of a setting."""
        if option_id in self._texts:
            return self._texts[option_id]
        value = self._profile.settings.get(option_id)
        return "" if value is None else setting_text(value)

    @property
    def port_text(self) -> str:
        """Port as typed."""
        return self._port_text

    def build(self) -> tuple[Profile, tuple[FieldError, ...]]:
        """The profile as typed, and the faults of texts that are no value at all.

        A faulty field keeps its last good value in the profile.
        """
        errors: list[FieldError] = []
        settings = self._settings(errors)
        network = self._profile.network
        port, fault = _port(self._port_text)
        if fault is not None:
            errors.append(FieldError("network.port", fault))
        elif port is not None:
            network = replace(network, port=port)
        profile = replace(
            self._profile,
            settings=settings,
            network=network,
            env=self._env(errors),
            extra=self._extra(errors),
        )
        return profile, tuple(errors)

    def _settings(self, errors: list[FieldError]) -> dict[str, SettingValue]:
        settings = dict(self._profile.settings)
        for option_id, text in self._texts.items():
            option = self.options.get(option_id)
            if option is None:
                continue
            value, fault = parse_setting(option, text)
            if fault is not None:
                errors.append(FieldError(f"settings.{option_id}", fault))
            elif value is None:
                settings.pop(option_id, None)
            else:
                settings[option_id] = value
        return settings

    def _env(self, errors: list[FieldError]) -> dict[str, EnvEntry]:
        env: dict[str, EnvEntry] = {}
        for row in self.env_rows:
            name = row.name.strip()
            if not name and not row.value:
                continue
            if name in env:
                errors.append(FieldError(f"env.{name}", message("is listed twice")))
            env[name] = EnvEntry(row.value, row.reason)
        return env

    def _extra(self, errors: list[FieldError]) -> dict[str, SettingValue]:
        extra: dict[str, SettingValue] = {}
        for row in self.extra_rows:
            key = row.key.strip()
            if not key and not row.text:
                continue
            if not key:
                errors.append(FieldError("extra.", message("has a value but no name")))
            if key in extra:
                errors.append(FieldError(f"extra.{key}", message("is listed twice")))
            extra[key] = parse_extra(row.text)
        return extra

    @property
    def dirty(self) -> bool:
        """Something differs from the file (a faulty text counts as a difference)."""
        profile, errors = self.build()
        return self.base is None or bool(errors) or profile != self.base

    def changed(self, option_id: str) -> bool:
        """Whether the setting differs from the file."""
        before = None if self.base is None else self.base.settings.get(option_id)
        return self.setting(option_id).strip() != ("" if before is None else setting_text(before))

    def retitled(self, new_id: str, name: str) -> Profile:
        """A copy under another id, for "Save as new profile"."""
        profile, _ = self.build()
        return replace(profile, id=new_id, name=name)


def merge_errors(
    typed: Sequence[FieldError], stored: Sequence[FieldError]
) -> dict[str, tuple[Message, ...]]:
    """Faults by field path; what the user typed wrong comes first and hides its echo."""
    merged: dict[str, list[Message]] = {}
    for error in typed:
        merged.setdefault(error.path, []).append(error.text)
    wrong = set(merged)
    for error in stored:
        if error.path not in wrong:
            merged.setdefault(error.path, []).append(error.text)
    return {path: tuple(texts) for path, texts in merged.items()}


def _port(text: str) -> tuple[int | None, Message | None]:
    number = parse_number(text)
    if not isinstance(number, int):
        return None, message("must be a whole number, not {value}", value=repr(text))
    return number, None

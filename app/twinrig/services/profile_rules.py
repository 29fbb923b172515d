"""Rules that hold for every profile, whatever the engine; and where secrets belong instead."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from twinrig.domain.errors import FieldError
from twinrig.domain.options import OptionKind, SettingValue
from twinrig.domain.profile import ENV_NAME, PROFILE_ID, Profile
from twinrig.engines.base import Engine
from twinrig.messages import Message, message

DEMO = "demo"
TARGETS = ("local", "wsl", DEMO)

WINDOWS_DEVICES = frozenset(
    {"con", "prn", "aux", "nul", *(f"{n}{i}" for n in ("com", "lpt") for i in range(1, 10))}
)
"""No file can have these names on Windows, whatever its ending."""

_EXTRA_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_SECRET_NAME = re.compile(
    r"(^|[_.-])(api_?-?keys?|(hf|hub|access|auth|admin|bearer)_?-?(token|key)s?|token|secret"
    r"|password|passwd|credentials?)$",
    re.IGNORECASE,
)
_SECRET_VALUE = re.compile(r"\b(hf_[A-Za-z0-9]{20,}|sk-[A-Za-z0-9_-]{20,}|ghp_[A-Za-z0-9]{20,})\b")
_LOOPBACK = re.compile(r"localhost|127(\.\d{1,3}){3}|::1|\[::1\]")
_HOST = re.compile(r"[A-Za-z0-9.:\[\]_-]{1,255}")


def profile_faults(profile: Profile, engines: Mapping[str, Engine]) -> tuple[FieldError, ...]:
    """All faults at once: general rules, secrets, and the engine's own rules."""
    found: dict[str, FieldError] = {}
    for fault in _all_faults(profile, engines):
        found.setdefault(fault.path, fault)
    return tuple(found.values())


def converted_settings(profile: Profile, engine: Engine) -> dict[str, SettingValue]:
    """Settings in the types of the option table; faulty and unknown ones stay as they are."""
    table = {option.id: option for option in engine.options()}
    result: dict[str, SettingValue] = {}
    for name, value in profile.settings.items():
        option = table.get(name)
        checked = None if option is None else option.check(value)[0]
        result[name] = value if checked is None else checked
    return result


def _all_faults(profile: Profile, engines: Mapping[str, Engine]) -> Iterator[FieldError]:
    yield from _identity_faults(profile)
    yield from _network_faults(profile)
    yield from _env_faults(profile)
    yield from _extra_faults(profile)
    yield from _secret_values(profile)
    engine = engines.get(profile.engine.id)
    if engine is None:
        yield FieldError(
            "engine.id",
            message(
                "must be one of {choices}, not {value}",
                choices=", ".join(engines),
                value=profile.engine.id,
            ),
        )
        return
    if engine.simulated and profile.target != DEMO:
        yield FieldError("engine.id", message("the demo engine runs on the demo rig only"))
    yield from _setting_faults(profile, engine)
    yield from engine.validate(profile)


def _identity_faults(profile: Profile) -> Iterator[FieldError]:
    if not PROFILE_ID.fullmatch(profile.id):
        yield FieldError(
            "id",
            message(
                "must be 1 to 48 small letters, digits or hyphens, not {value}", value=profile.id
            ),
        )
    elif profile.id in WINDOWS_DEVICES:
        yield FieldError("id", message("is a name that Windows keeps for itself"))
    if not profile.name.strip() or len(profile.name) > 100 or not profile.name.isprintable():
        yield FieldError("name", message("must be one line of 1 to 100 characters"))
    if profile.target not in TARGETS:
        yield FieldError(
            "target",
            message(
                "must be one of {choices}, not {value}",
                choices=", ".join(TARGETS),
                value=profile.target,
            ),
        )
    if not profile.model.path.strip():
        yield FieldError("model.path", message("choose a model folder"))
    for path, text in (
        ("model.path", profile.model.path),
        ("model.served_name", profile.model.served_name),
        ("engine.environment", profile.engine.environment),
    ):
        if text and not text.isprintable():
            yield FieldError(path, message("must be one line without control characters"))
    if len(profile.nodes) != 1:
        yield FieldError("nodes", message("must name one machine; several are not supported yet"))


def _network_faults(profile: Profile) -> Iterator[FieldError]:
    network = profile.network
    if not 1 <= network.port <= 65535:
        yield FieldError(
            "network.port", message("must be between 1 and 65535, not {value}", value=network.port)
        )
    if not _HOST.fullmatch(network.host):
        yield FieldError(
            "network.host",
            message("must be an address such as 127.0.0.1, not {value}", value=network.host),
        )
    elif not _LOOPBACK.fullmatch(network.host) and not network.key_name:
        yield FieldError(
            "network.key_name",
            message("is needed when other machines can reach the server; name a stored key"),
        )
    if network.key_name and not PROFILE_ID.fullmatch(network.key_name):
        yield FieldError(
            "network.key_name",
            message(
                "must be the name of a stored key: small letters, digits or hyphens; "
                "the key itself does not belong in a profile"
            ),
        )


def _env_faults(profile: Profile) -> Iterator[FieldError]:
    for name, entry in profile.env.items():
        path = f"env.{name}"
        if not ENV_NAME.fullmatch(name):
            yield FieldError(path, message("is not a name for an environment variable"))
        elif _SECRET_NAME.search(name):
            yield FieldError(path, _secret_message())
        elif "\0" in entry.value:
            yield FieldError(path, message("must not contain a null character"))


def _extra_faults(profile: Profile) -> Iterator[FieldError]:
    for name in profile.extra:
        path = f"extra.{name}"
        if not _EXTRA_KEY.fullmatch(name):
            yield FieldError(path, message("is not a name for an engine option"))
        elif _SECRET_NAME.search(name):
            yield FieldError(path, _secret_message())


def _secret_values(profile: Profile) -> Iterator[FieldError]:
    texts = {
        "name": profile.name,
        "model.path": profile.model.path,
        "network.key_name": profile.network.key_name,
        **{f"env.{k}": e.value + " " + e.reason for k, e in profile.env.items()},
        **{f"settings.{k}": str(v) for k, v in profile.settings.items()},
        **{f"extra.{k}": str(v) for k, v in profile.extra.items()},
    }
    for path, text in texts.items():
        if _SECRET_VALUE.search(text):
            yield FieldError(path, _secret_message())


def _secret_message() -> Message:
    return message(
        "looks like a key or token, which does not belong in a profile; store the server's key "
        'with "twinrig profiles key PROFILE" (a model folder on disk needs no token)'
    )


def _setting_faults(profile: Profile, engine: Engine) -> Iterator[FieldError]:
    table = {option.id: option for option in engine.options()}
    for name, value in profile.settings.items():
        option = table.get(name)
        if option is None:
            yield FieldError(
                f"settings.{name}",
                message("is not a known setting; the engine's own options go under extra"),
            )
            continue
        fault = option.check(value)[1]
        if fault is not None:
            yield FieldError(f"settings.{name}", fault)
        elif option.kind is OptionKind.TEXT and "\0" in str(value):
            yield FieldError(f"settings.{name}", message("must not contain a null character"))

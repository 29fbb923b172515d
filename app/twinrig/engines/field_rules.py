"""Rules for what every real engine's profile has: identity, address, environment."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from twinrig.domain.errors import FieldError
from twinrig.domain.options import Option, SettingValue
from twinrig.domain.profile import ENV_NAME, PROFILE_ID, Profile
from twinrig.engines.option_table import known_to, late_choice
from twinrig.messages import Message, message

OWN_VARIABLES = frozenset({"TWINRIG_RUN_ID"})
LOWEST_PORT = 1024
HIGHEST_PORT = 65535
_MAX_HOST_CHARS = 253
_LABEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?")


def unprintable(text: str) -> bool:
    """Whether a text holds characters that no option, path or variable needs."""
    return any(ord(c) < 32 or ord(c) == 127 for c in text)


def text_fault() -> Message:
    """The one sentence for a text that cannot be passed on."""
    return message("must not be empty, begin with a hyphen or hold control characters")


def no_card() -> Message:
    """For a list of visible cards that is empty."""
    return message("shows the server no card at all; name the cards, or remove it")


def check_identity(profile: Profile) -> Iterator[FieldError]:
    """Id, machine, model folder and served name."""
    if not PROFILE_ID.fullmatch(profile.id):
        yield FieldError(
            "id", message("may hold small letters, digits and hyphens, at most 48 in all")
        )
    if len(profile.nodes) != 1:
        yield FieldError(
            "nodes", message("must name one machine; several machines are not supported yet")
        )
    path = profile.model.path
    if not path.strip("/"):
        yield FieldError("model.path", message("must name the model's folder"))
    elif not path.startswith("/") or unprintable(path):
        yield FieldError(
            "model.path",
            message(
                "must be an absolute Linux path such as /home/you/models/NAME, not {path}",
                path=repr(path),
            ),
        )
    if unprintable(profile.model.served_name) or profile.model.served_name.startswith("-"):
        yield FieldError("model.served_name", text_fault())


@dataclass(frozen=True)
class SettingWords:
    """What one engine says of a setting: not in its table, not in this version, wrong content."""

    unknown: Callable[[str], Message]
    other_version: Callable[[Option, str], Message]
    content_fault: Callable[[Option, SettingValue], Message | None]


def check_settings(
    profile: Profile, table: Sequence[Option], words: SettingWords
) -> tuple[dict[str, SettingValue], list[FieldError]]:
    """Settings that are right by themselves, converted; and the faults of the others."""
    rows = {option.id: option for option in table}
    good: dict[str, SettingValue] = {}
    faults: list[FieldError] = []
    for name, value in profile.settings.items():
        converted, fault = _setting(rows.get(name), name, value, profile.engine.version, words)
        if fault is not None:
            faults.append(FieldError(f"settings.{name}", fault))
        elif converted is not None:
            good[name] = converted
    return good, faults


def _setting(
    option: Option | None, name: str, value: object, version: str, words: SettingWords
) -> tuple[SettingValue | None, Message | None]:
    if option is None:
        return None, words.unknown(name)
    if not known_to(option, version):
        return None, words.other_version(option, version)
    if (span := late_choice(option, value, version)) is not None:
        return None, message(
            "{value} needs version {versions}; installed is {version}",
            value=str(value),
            versions=span,
            version=version,
        )
    converted, fault = option.check(value)
    if fault is None and converted is not None:
        fault = words.content_fault(option, converted)
    return converted, fault


def check_environment(env: Mapping[str, object], secrets: Collection[str]) -> Iterator[FieldError]:
    """Names and values; ``secrets`` are variables whose value does not belong in a profile."""
    for name, entry in env.items():
        path = f"env.{name}"
        value = getattr(entry, "value", None)
        if not ENV_NAME.fullmatch(name):
            yield FieldError(path, message("is not a name for an environment variable"))
        elif name in secrets:
            yield FieldError(
                path, message("is a secret; enter it as a key, so that it is stored safely")
            )
        elif name in OWN_VARIABLES:
            yield FieldError(path, message("is set by Twinrig itself; remove it"))
        elif not isinstance(value, str) or "\0" in value or "\n" in value:
            yield FieldError(path, message("must be a text of one line"))


def check_address(profile: Profile) -> Iterator[FieldError]:
    """Port and host, and no open door without a key."""
    network = profile.network
    port: object = network.port
    number = isinstance(port, int) and not isinstance(port, bool)
    if not number or not LOWEST_PORT <= network.port <= HIGHEST_PORT:
        yield FieldError(
            "network.port",
            message(
                "must be a number from {low} to {high}, not {value}",
                low=LOWEST_PORT,
                high=HIGHEST_PORT,
                value=repr(port),
            ),
        )
    if not is_address(network.host):
        yield FieldError(
            "network.host", message("must be an address such as 127.0.0.1, or a host name")
        )
    elif not is_loopback(network.host) and not network.key_name:
        yield FieldError(
            "network.key_name",
            message("is needed when other machines can reach the server; set an API key"),
        )


def is_loopback(host: str) -> bool:
    """Whether only programs of the same machine reach this address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_address(host: object) -> bool:
    """Whether this is an IP address or can be a host name."""
    if not isinstance(host, str) or not host or len(host) > _MAX_HOST_CHARS:
        return False
    try:
        ipaddress.ip_address(host)
    except ValueError:
        looks_like_ip = host.replace(".", "").isdigit() or ":" in host
        return not looks_like_ip and all(_LABEL.fullmatch(part) for part in host.split("."))
    return True

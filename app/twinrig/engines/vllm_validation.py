"""All faults of a vLLM profile at once: single settings here, rules between them in ``RULES``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence

from twinrig.domain.errors import FieldError
from twinrig.domain.options import Option, OptionKind, SettingValue
from twinrig.domain.profile import Profile
from twinrig.engines import vllm_cross_rules, vllm_network_rules
from twinrig.engines.field_rules import (
    SettingWords,
    check_environment,
    check_identity,
    check_settings,
    text_fault,
    unprintable,
)
from twinrig.messages import Message, message

SECRET_VARIABLES = frozenset({"VLLM_API_KEY", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"})

_LONG_OPTION = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*")
OWN_KEYS = frozenset(
    {"model", "model-tag", "served-model-name", "host", "port", "uds", "api-key", "config"}
    | {"disable-log-stats", "disable-access-log-for-endpoints", "root-path", "middleware"}
    | {"nnodes", "node-rank", "master-addr", "master-port", "headless", "api-server-count"}
    | {"ssl-keyfile", "ssl-certfile", "ssl-ca-certs", "ssl-cert-reqs", "grpc", "device-ids"}
)
"""Engine keys that Twinrig sets itself, or that would cut it off from the server."""

_ALIASES: Mapping[str, str] = {
    "device-memory-utilization": "gpu-memory-utilization",
    "spec-method": "speculative-config",
    "spec-tokens": "speculative-config",
    "spec-model": "speculative-config",
}


def validate_profile(profile: Profile, table: Sequence[Option]) -> tuple[FieldError, ...]:
    """Faults in the order of the form; empty means that the profile can be rendered.

    Cross-field rules look only at settings that are right by themselves.
    """
    faults: list[FieldError] = list(check_identity(profile))
    words = SettingWords(_unknown, _other_version, _content_fault)
    settings, setting_faults = check_settings(profile, table, words)
    faults += setting_faults
    faults += vllm_network_rules.check_network(profile)
    faults += check_environment(profile.env, SECRET_VARIABLES)
    faults += _extra(profile.extra, table)
    faults += vllm_cross_rules.check_together(profile, settings)
    return tuple(faults)


def _unknown(name: str) -> Message:
    return message("vLLM has no setting {name}; remove it", name=name)


def _other_version(option: Option, version: str) -> Message:
    return message(
        "vLLM {version} does not have {name}; it exists in versions {versions}",
        version=version,
        name=option.engine_key,
        versions=option.versions,
    )


def _content_fault(option: Option, value: SettingValue) -> Message | None:
    if option.id == "context_length" and value == 0:
        return message("must be -1 or at least 1")
    if option.kind is OptionKind.JSON:
        return (
            None
            if _is_object(str(value))
            else message("must be a JSON object such as {example}", example='{"key": 1}')
        )
    texts = value if isinstance(value, tuple) else (value,)
    if any(isinstance(t, str) and _bad_text(t) for t in texts):
        return text_fault()
    return None


def _bad_text(text: str) -> bool:
    """vLLM turns the file into command-line words, where "-x" would be an option of its own."""
    return not text.strip() or text.startswith("-") or unprintable(text)


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _extra(extra: Mapping[str, SettingValue], table: Sequence[Option]) -> Iterator[FieldError]:
    for key, value in extra.items():
        fault = _extra_key_fault(key, table) or _extra_value_fault(value)
        if fault is not None:
            yield FieldError(f"extra.{key}", fault)


def _extra_key_fault(key: str, table: Sequence[Option]) -> Message | None:
    if not _LONG_OPTION.fullmatch(key):
        return message("must be a long option of vLLM without the leading hyphens")
    plain = key.partition(".")[0].lower()
    if any(_same_option(own, plain) for own in OWN_KEYS):
        return message("is set by Twinrig itself or would break its view of the server; remove it")
    plain = _ALIASES.get(plain, plain)
    for option in table:
        if _same_option(option.engine_key, plain):
            return message("has a setting of its own; use {name} instead", name=option.id)
    return None


def _same_option(known: str, given: str) -> bool:
    """Same option, its negation, or an abbreviation, which vLLM's parser accepts as well."""
    return known.startswith(given) or _stem(known) == _stem(given)


def _stem(key: str) -> str:
    for prefix in ("no-", "enable-", "disable-"):
        key = key.removeprefix(prefix)
    return key


def _extra_value_fault(value: object) -> Message | None:
    if isinstance(value, (bool, int, float)):
        return None
    texts = value if isinstance(value, (tuple, list)) else (value,)
    if all(isinstance(t, str) and not _bad_text(t) for t in texts):
        return None
    return text_fault()

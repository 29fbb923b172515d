"""All faults of a tabbyAPI profile at once: single settings, settings together, environment."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence

from twinrig.domain.errors import FieldError
from twinrig.domain.options import Option, OptionKind, SettingValue
from twinrig.domain.profile import Profile
from twinrig.engines.field_rules import (
    SettingWords,
    check_address,
    check_environment,
    check_identity,
    check_settings,
    no_card,
    text_fault,
    unprintable,
)
from twinrig.engines.tabbyapi_config import NUMBER_LISTS, SAMPLERS
from twinrig.messages import Message, message

OWN_KEYS = frozenset(
    {"network.host", "network.port", "network.disable_auth", "model.model_dir", "model.model_name"}
)
"""Keys that come from the profile's own fields."""

SECRET_KEYS = frozenset({"developer.seqlog_api_key"})
SECRET_VARIABLES = frozenset({"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"})
ALLOCATOR_VARIABLES = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
_CACHE_MODE = re.compile(r"FP16|Q8|Q6|Q4|[2-8]\s*,\s*[2-8]")
_EXTRA_KEY = re.compile(r"[a-z][a-z0-9_]*\.[a-z][a-z0-9_]*")
_LINES_ALLOWED = frozenset({"reasoning_budget_message", "reasoning_start_token"})

Settings = Mapping[str, SettingValue]


def validate_profile(profile: Profile, table: Sequence[Option]) -> tuple[FieldError, ...]:
    """Faults in the order of the form; empty means that the profile can be rendered."""
    faults = list(check_identity(profile))
    words = SettingWords(_unknown, _other_version, _content_fault)
    settings, setting_faults = check_settings(profile, table, words)
    faults += setting_faults
    faults += check_address(profile)
    faults += check_environment(profile.env, SECRET_VARIABLES)
    faults += _tabby_variables(profile)
    faults += _extra(profile.extra, table)
    faults += _memory(settings)
    faults += _parallel(profile, settings)
    faults += _draft(settings)
    faults += _serving(settings)
    faults += _allocator(profile, settings)
    return tuple(faults)


def _unknown(name: str) -> Message:
    return message("tabbyAPI has no setting {name}; remove it", name=name)


def _other_version(option: Option, version: str) -> Message:
    return message(
        "tabbyAPI learnt {name} with exllamav3 {versions}, not {version}",
        version=version,
        name=option.engine_key,
        versions=option.versions,
    )


def _content_fault(option: Option, value: SettingValue) -> Message | None:
    if option.id == "cache_mode" and not _CACHE_MODE.fullmatch(str(value)):
        return message("must be FP16, Q8, Q6, Q4 or two numbers from 2 to 8 such as 4,4")
    if option.id == "rope_alpha" and value != "auto" and not _is_number(str(value)):
        return message("must be auto or a number, not {value}", value=repr(value))
    if option.id in NUMBER_LISTS and isinstance(value, tuple):
        return None if all(_is_number(v) for v in value) else message("must be a list of numbers")
    if option.id == "context_length" and value == 0:
        return message("must be -1 or at least 1")
    if option.kind is OptionKind.JSON:
        return _json_fault(option, str(value))
    texts = value if isinstance(value, tuple) else (value,)
    bad = (isinstance(t, str) and _bad_text(t, option.id in _LINES_ALLOWED) for t in texts)
    return text_fault() if any(bad) else None


def _json_fault(option: Option, text: str) -> Message | None:
    wanted = list if option.id == "loras" else dict
    try:
        fits = isinstance(json.loads(text), wanted)
    except (ValueError, RecursionError):
        fits = False
    example = '[{"name": "mine"}]' if wanted is list else '{"key": 1}'
    return None if fits else message("must be JSON such as {example}", example=example)


def _bad_text(text: str, lines: bool) -> bool:
    return not text.strip() or unprintable(text.replace("\n", "") if lines else text)


def _is_number(text: str) -> bool:
    return re.fullmatch(r"\d{1,9}(\.\d{1,6})?", text, re.ASCII) is not None


def _tabby_variables(profile: Profile) -> Iterator[FieldError]:
    """``TABBY_SECTION_KEY`` beats the file, so the form would not show what is used."""
    for name in profile.env:
        if name.startswith("TABBY_") and name not in ("TABBY_LOG_LEVEL", "TABBY_LOG_CONSOLE_WIDTH"):
            yield FieldError(
                f"env.{name}", message("would overrule the settings; use the setting instead")
            )


def _extra(extra: Mapping[str, SettingValue], table: Sequence[Option]) -> Iterator[FieldError]:
    rows = {option.engine_key: option.id for option in table}
    for key in extra:
        fault = None
        if key in SECRET_KEYS:
            fault = message("is a secret; keep it in tabbyAPI's own file")
        elif key in OWN_KEYS or key.startswith(f"{SAMPLERS}."):
            fault = message(
                "is set by Twinrig itself or would break its view of the server; remove it"
            )
        elif key in rows:
            fault = message("has a setting of its own; use {name} instead", name=rows[key])
        elif not _EXTRA_KEY.fullmatch(key):
            fault = message("must be section and key, such as model.vision")
        if fault is not None:
            yield FieldError(f"extra.{key}", fault)


def _memory(settings: Settings) -> Iterator[FieldError]:
    """tabbyAPI caps the context to the cache with nothing but a warning in the log."""
    context, cache = _number(settings, "context_length"), _number(settings, "cache_tokens")
    if context is not None and cache is not None and context > cache:
        yield FieldError(
            "settings.context_length",
            message("must not be larger than cache_tokens ({value})", value=cache),
        )


def _parallel(profile: Profile, settings: Settings) -> Iterator[FieldError]:
    """What tensor parallel excludes (facts of exllamav3 1.6), and settings without effect."""
    together = settings.get("tensor_parallel") is True
    for name in ("sysmem_kv_cache", "cpu_moe_offload_layers"):
        if together and _number(settings, name):
            yield FieldError(f"settings.{name}", message("cannot be combined with tensor_parallel"))
    if settings.get("gpu_split") and settings.get("autosplit_reserve"):
        yield FieldError(
            "settings.autosplit_reserve",
            message("has no effect beside gpu_split; remove one of the two"),
        )
    yield from _shares(settings.get("gpu_split"), together)
    visible = profile.env.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        cards = {card.strip() for card in visible.value.split(",") if card.strip()}
        if not cards:
            yield FieldError("env.CUDA_VISIBLE_DEVICES", no_card())
        elif together and len(cards) < 2:
            yield FieldError(
                "settings.tensor_parallel",
                message("is ignored with the one card that CUDA_VISIBLE_DEVICES shows"),
            )


def _shares(split: SettingValue | None, together: bool) -> Iterator[FieldError]:
    """An empty list leaves it to exllamav3; a card with 0 is left out."""
    if not isinstance(split, tuple) or not split or not all(_is_number(v) for v in split):
        return
    used = sum(float(v) > 0 for v in split)
    if used == 0:
        yield FieldError("settings.gpu_split", message("gives no card anything; empty it instead"))
    elif together and used < 2:
        yield FieldError(
            "settings.gpu_split",
            message("must give something to two cards at least under tensor_parallel"),
        )


def _draft(settings: Settings) -> Iterator[FieldError]:
    mode = settings.get("draft_mode")
    named = "draft_model_name" in settings
    if mode == "model" and not named:
        yield FieldError("settings.draft_mode", message("needs a draft_model_name as well"))
    if named and mode not in (None, "model"):
        yield FieldError(
            "settings.draft_model_name", message("is only used while draft_mode is model")
        )


def _serving(settings: Settings) -> Iterator[FieldError]:
    servers = settings.get("api_servers")
    if isinstance(servers, tuple) and "oai" not in [s.lower() for s in servers]:
        yield FieldError("settings.api_servers", message("must contain OAI, which Twinrig asks"))
    if "override_preset" in settings and any(n.startswith("sampler_") for n in settings):
        yield FieldError(
            "settings.override_preset",
            message("cannot be combined with sampler values of the profile"),
        )


def _allocator(profile: Profile, settings: Settings) -> Iterator[FieldError]:
    """tabbyAPI sets both variables itself unless it is told not to (main.py, read and run)."""
    if settings.get("cuda_malloc_async") is False:
        return
    for name in ALLOCATOR_VARIABLES:
        if name in profile.env:
            yield FieldError(
                f"env.{name}",
                message("is overwritten by tabbyAPI unless cuda_malloc_async is switched off"),
            )


def _number(settings: Settings, name: str) -> int | None:
    value = settings.get(name)
    return None if isinstance(value, bool) or not isinstance(value, (int, float)) else int(value)

"""Settings of vLLM that are right alone and wrong together; each rule names its source."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from twinrig.domain.errors import FieldError
from twinrig.domain.options import SettingValue
from twinrig.domain.profile import Profile
from twinrig.engines.field_rules import is_loopback, no_card
from twinrig.engines.vllm_defaults import in_range
from twinrig.messages import message

Settings = Mapping[str, SettingValue]
ALLOCATOR_VARIABLES = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")


def check_together(profile: Profile, settings: Settings) -> Iterator[FieldError]:
    """Faults between settings, and between settings and environment."""
    yield from _by_version(profile, settings)
    yield from _sleep(profile, settings)
    yield from _speculation(settings)
    yield from _memory(settings)
    yield from _batch(settings)
    yield from _tools(settings)
    yield from _cards(profile, settings)
    yield from _allocator(profile, settings)


def _by_version(profile: Profile, settings: Settings) -> Iterator[FieldError]:
    """Values that a setting has learnt later than its name (packages as read)."""
    version = profile.engine.version
    if settings.get("context_length") == -1 and in_range(version, "<0.19"):
        yield FieldError(
            "settings.context_length",
            message("-1 is known to vLLM 0.19 and later; give a number of tokens"),
        )
    if str(settings.get("quantization", "")).startswith("exl"):
        yield FieldError(
            "settings.quantization",
            message("is a format of exllamav3; use tabbyAPI for this model"),
        )
    kind = str(settings.get("kv_cache_dtype", ""))
    if "," in kind:
        yield FieldError(
            "settings.kv_cache_dtype",
            message("{value} are bits of tabbyAPI's cache; vLLM has fp8, for example", value=kind),
        )
    if kind.startswith("octave_") and in_range(version, "<0.33"):
        yield FieldError(
            "settings.kv_cache_dtype",
            message("{value} is known to vLLM 0.33 and later", value=kind),
        )


def _sleep(profile: Profile, settings: Settings) -> Iterator[FieldError]:
    """The calls exist only in dev mode, which no key guards (vLLM 0.32 as run)."""
    if settings.get("enable_sleep_mode") is True and not is_loopback(profile.network.host):
        yield FieldError(
            "settings.enable_sleep_mode",
            message("opens commands without a key; use it with the address 127.0.0.1 only"),
        )


def _speculation(settings: Settings) -> Iterator[FieldError]:
    """A method without its number, or a draft model without its name, ends the start late."""
    text = settings.get("speculative_config")
    try:
        found = json.loads(str(text)) if text else None
    except (ValueError, RecursionError):
        return  # told as a fault of the setting itself
    if not isinstance(found, dict):
        return
    method = found.get("method")
    if method in ("mtp", "ngram", "eagle", "eagle3") and "num_speculative_tokens" not in found:
        yield FieldError(
            "settings.speculative_config",
            message("needs num_speculative_tokens for {method}", method=method),
        )
    if method in ("draft_model", "eagle", "eagle3") and "model" not in found:
        yield FieldError(
            "settings.speculative_config", message("needs model for {method}", method=method)
        )


def _memory(settings: Settings) -> Iterator[FieldError]:
    """The exact size overrides the share (vLLM 0.32 help): one of the two would be a lie."""
    if "kv_cache_memory_bytes" in settings and "gpu_memory_utilization" in settings:
        yield FieldError(
            "settings.gpu_memory_utilization",
            message("has no effect beside kv_cache_memory_bytes; remove one of the two"),
        )


def _batch(settings: Settings) -> Iterator[FieldError]:
    """vLLM's scheduler refuses both (SchedulerConfig, 0.32)."""
    tokens = _number(settings, "max_num_batched_tokens")
    if tokens is None:
        return
    requests = _number(settings, "max_num_seqs")
    if requests is not None and tokens < requests:
        yield FieldError(
            "settings.max_num_batched_tokens",
            message("must not be smaller than max_num_seqs ({value})", value=requests),
        )
    context = _number(settings, "context_length")
    whole = settings.get("enable_chunked_prefill") is False
    if whole and context is not None and tokens < context:
        yield FieldError(
            "settings.max_num_batched_tokens",
            message(
                "must not be smaller than context_length ({value}) without chunked prefill",
                value=context,
            ),
        )


def _tools(settings: Settings) -> Iterator[FieldError]:
    """Both or none (vLLM 0.32)."""
    wanted = settings.get("enable_auto_tool_choice") is True
    parser = "tool_call_parser" in settings
    if parser and not wanted:
        yield FieldError(
            "settings.tool_call_parser", message("needs enable_auto_tool_choice switched on")
        )
    if wanted and not parser:
        yield FieldError(
            "settings.enable_auto_tool_choice", message("needs a tool_call_parser as well")
        )


def _cards(profile: Profile, settings: Settings) -> Iterator[FieldError]:
    """Ranks against the cards that the profile shows to the server."""
    ranks = (_number(settings, "tensor_parallel_size") or 1) * (
        _number(settings, "pipeline_parallel_size") or 1
    )
    if ranks > 1 and settings.get("distributed_executor_backend") == "uni":
        yield FieldError(
            "settings.distributed_executor_backend",
            message("uni works with one card only; use mp"),
        )
    named = str(settings.get("device_ids", ""))
    if named:
        yield from _named_cards([part.strip() for part in named.split(",")], ranks)
    visible = profile.env.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return
    cards = [card.strip() for card in visible.value.split(",") if card.strip()]
    if not cards:
        yield FieldError("env.CUDA_VISIBLE_DEVICES", no_card())
    elif len(set(cards)) != len(cards):
        yield FieldError(
            "env.CUDA_VISIBLE_DEVICES", message("names a card twice; name each card once")
        )
    elif len(cards) < ranks:
        yield FieldError(
            "settings.tensor_parallel_size",
            message(
                "asks for {wanted} cards with pipeline_parallel_size, but"
                " CUDA_VISIBLE_DEVICES shows {shown}",
                wanted=ranks,
                shown=len(cards),
            ),
        )


def _named_cards(cards: Sequence[str], ranks: int) -> Iterator[FieldError]:
    """vLLM refuses a card twice, and numbers beside UUIDs (0.33)."""
    path = "settings.device_ids"
    if len(set(cards)) != len(cards):
        yield FieldError(path, message("names a card twice; name each card once"))
    elif not all(cards) or len({card.isdigit() for card in cards}) > 1:
        yield FieldError(path, message("must be numbers such as 0,1, or UUIDs, not both"))
    elif len(cards) < ranks:
        yield FieldError(
            path,
            message(
                "names {count} cards; the profile uses {wanted}", count=len(cards), wanted=ranks
            ),
        )


def _allocator(profile: Profile, settings: Settings) -> Iterator[FieldError]:
    """Expandable segments help tabbyAPI and break three parts of vLLM (failure catalogue A, D)."""
    name = _expandable_variable(profile)
    if name is None:
        return
    if settings.get("kv_offloading_size", 0) != 0:
        yield FieldError(
            f"env.{name}",
            message("expandable_segments cannot be combined with kv_offloading_size in vLLM"),
        )
    ranks = _number(settings, "tensor_parallel_size") or 1
    if ranks > 1 and settings.get("disable_custom_all_reduce") is not True:
        yield FieldError(
            f"env.{name}",
            message("expandable_segments breaks vLLM unless disable_custom_all_reduce is on"),
        )
    sleep = settings.get("enable_sleep_mode") is True
    if sleep and in_range(profile.engine.version, "<0.20", unknown=True):
        yield FieldError(
            f"env.{name}",
            message("expandable_segments cannot be combined with enable_sleep_mode before 0.20"),
        )


def _expandable_variable(profile: Profile) -> str | None:
    for name in ALLOCATOR_VARIABLES:
        entry = profile.env.get(name)
        if entry is not None and "expandable_segments:true" in entry.value.lower().replace(" ", ""):
            return name
    return None


def _number(settings: Settings, name: str) -> int | None:
    value = settings.get(name)
    return None if isinstance(value, bool) or not isinstance(value, (int, float)) else int(value)

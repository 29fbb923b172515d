"""What two measured setups differ in, in words a recommendation can use. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from twinrig.domain.benchmark import BenchmarkResult
from twinrig.messages import Message, message
from twinrig.services.bench_store import difference


class Axis(StrEnum):
    """Kinds of change that are worth a comparison of their own."""

    SPLIT = "split"
    DRAFT = "draft"
    KV = "kv"
    BATCH = "batch"
    OTHER = "other"


_AXES: Mapping[str, Axis] = {
    "settings.tensor_parallel": Axis.SPLIT,
    "settings.tensor_parallel_size": Axis.SPLIT,
    "settings.pipeline_parallel_size": Axis.SPLIT,
    "settings.tensor_parallel_backend": Axis.SPLIT,
    "settings.gpu_split": Axis.SPLIT,
    "settings.gpu_split_auto": Axis.SPLIT,
    "settings.autosplit_reserve": Axis.SPLIT,
    "settings.speculative_config": Axis.DRAFT,
    "settings.dynamic_draft": Axis.DRAFT,
    "settings.ngram_match_min": Axis.DRAFT,
    "settings.kv_cache_dtype": Axis.KV,
    "settings.cache_mode": Axis.KV,
    "settings.max_num_seqs": Axis.BATCH,
    "settings.max_batch_size": Axis.BATCH,
    "settings.max_num_batched_tokens": Axis.BATCH,
    "settings.chunk_size": Axis.BATCH,
    "settings.enable_chunked_prefill": Axis.BATCH,
    "settings.async_scheduling": Axis.BATCH,
    "settings.stream_interval": Axis.BATCH,
    "settings.output_chunking": Axis.BATCH,
}
_DRAFT_PREFIX = "settings.draft_"
_METHODS = {"mtp": "MTP", "ngram": "n-gram", "eagle": "EAGLE", "eagle3": "EAGLE-3"}


@dataclass(frozen=True)
class Change:
    """The one kind of change between two setups. ``on`` has what ``what`` names."""

    axis: Axis
    what: Message
    on: BenchmarkResult
    off: BenchmarkResult


def axis_of(name: str) -> Axis:
    """The axis of one dotted name."""
    return Axis.DRAFT if name.startswith(_DRAFT_PREFIX) else _AXES.get(name, Axis.OTHER)


def change_between(one: BenchmarkResult, other: BenchmarkResult) -> Change | None:
    """What the two differ in, when that is a single axis with an on and an off; else None."""
    rows = difference(one, other)
    axes = {axis_of(name) for name, _, _ in rows}
    if len(axes) != 1:
        return None
    (axis,) = axes
    if axis is Axis.DRAFT:
        return _draft(one, other)
    if axis is Axis.SPLIT:
        return _split(one, other)
    if axis in (Axis.KV, Axis.BATCH) and len(rows) == 1:
        name, _, value = rows[0]
        label = name.partition(".")[2]
        if value is None:
            return Change(axis, _named(label, rows[0][1]), one, other)
        return Change(axis, _named(label, value), other, one)
    return None


def drafting(settings: Mapping[str, object]) -> str:
    """How a setup guesses tokens ahead: "MTP", "n-gram", ...; "" when it does not."""
    mode = settings.get("settings.draft_mode")
    if mode is not None:
        if mode == "model" and not settings.get("settings.draft_model_name"):
            return ""
        return "" if mode == "disabled" else _METHODS.get(str(mode), str(mode))
    text = settings.get("settings.speculative_config")
    if not isinstance(text, str) or not text.strip():
        return ""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(found, dict):
        return ""
    method = str(found.get("method") or "draft model")
    return next((word for key, word in _METHODS.items() if method.endswith(key)), method)


def together(settings: Mapping[str, object]) -> bool:
    """Whether the cards work on each layer together (tensor parallel)."""
    size = settings.get("settings.tensor_parallel_size")
    if isinstance(size, int) and not isinstance(size, bool):
        return size > 1
    return settings.get("settings.tensor_parallel") is True


def _draft(one: BenchmarkResult, other: BenchmarkResult) -> Change | None:
    words = drafting(one.settings), drafting(other.settings)
    if bool(words[0]) == bool(words[1]):
        return None
    on, off = (one, other) if words[0] else (other, one)
    what = message("Speculative decoding ({method})", method=words[0] or words[1])
    return Change(Axis.DRAFT, what, on, off)


def _split(one: BenchmarkResult, other: BenchmarkResult) -> Change | None:
    modes = together(one.settings), together(other.settings)
    if modes[0] == modes[1]:
        return None
    on, off = (one, other) if modes[0] else (other, one)
    return Change(Axis.SPLIT, message("Tensor parallel"), on, off)


def _named(label: str, value: object) -> Message:
    return message("{setting} = {value}", setting=label, value=str(value))

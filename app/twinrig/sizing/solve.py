"""Solvers: longest context for what is free, most bits for a wanted context, and the levers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from twinrig.domain.errors import TwinrigError
from twinrig.domain.memory import Lever, MemoryPlan, SizingRules, SizingSettings, Verdict
from twinrig.messages import Message, message
from twinrig.sizing.estimate import SizedModel, estimate
from twinrig.sizing.exl3_plan import exl3_base, longest_in, model_limit
from twinrig.sizing.vllm_plan import card_utilization, gather, longest_context
from twinrig.sizing.weights import BITS, quantization_of

_NO_LIMIT = 2**23
"""Gains are compared beyond the model's own limit."""
_STEP = 0.05
_FEWEST, _MOST = 1.0, 8.0
LADDER = ("bf16", "fp8", "nvfp4", "awq-int4", "w4a16-int4")
"""Quantisations of vLLM by bits, best first."""


@dataclass(frozen=True)
class Quantization:
    """Best quantisation for a context: name (vLLM) or "exl3", its bits, and the plan with it."""

    name: str
    bits: float
    plan: MemoryPlan


def largest_context(
    model: SizedModel, settings: SizingSettings, limit: int | None = None
) -> int | None:
    """Tokens of the longest single request, up to ``limit`` (None: the model's own).

    None when the cards or the weights are not known.
    """
    if settings.rules is SizingRules.EXL3:
        base = exl3_base(model.shape, settings, model.tensors)
        return longest_in(base, limit or model_limit(model.shape, settings))
    return longest_context(gather(model.shape, settings, model.file_bytes), limit)


def best_quantization(
    model: SizedModel, settings: SizingSettings, context: int
) -> Quantization | None:
    """Most bits with which ``context`` tokens still fit; None when nothing fits.

    The weights are computed from the configuration: files of one quantisation tell nothing
    about another.
    """
    bare = SizedModel(model.shape)
    wanted = replace(settings, context_tokens=context, measurement=None)
    if settings.rules is SizingRules.EXL3:
        return _most_bits(bare, wanted)
    for name in LADDER:
        plan = estimate(bare, replace(wanted, quantization=name))
        if plan.verdict is not Verdict.DOES_NOT_FIT and plan.kv_pool_bytes is not None:
            return Quantization(name, BITS[name], plan)
    return None


def _most_bits(model: SizedModel, settings: SizingSettings) -> Quantization | None:
    def plan(step: int) -> MemoryPlan:
        return estimate(model, replace(settings, bits_per_weight=round(step * _STEP, 2)))

    low, high = round(_FEWEST / _STEP), round(_MOST / _STEP)
    best = plan(low)
    if best.verdict is Verdict.DOES_NOT_FIT:
        return None
    while low < high:
        middle = (low + high + 1) // 2
        found = plan(middle)
        if found.verdict is Verdict.DOES_NOT_FIT:
            high = middle - 1
        else:
            low, best = middle, found
    return Quantization("exl3", round(low * _STEP, 2), best)


Change = tuple[str, str, SizingSettings, Message]


def levers(model: SizedModel, settings: SizingSettings) -> tuple[Lever, ...]:
    """Changes of one setting that give a longer context, the best first."""
    now = largest_context(model, settings, _NO_LIMIT)
    if now is None:
        return ()
    exl3 = settings.rules is SizingRules.EXL3
    changes = _exl3_changes(settings) if exl3 else _vllm_changes(model, settings)
    found = []
    for setting, value, changed, text in changes:
        try:
            then = largest_context(model, changed, _NO_LIMIT)
        except TwinrigError:
            continue
        if then is not None and then > now:
            found.append(Lever(setting, value, then - now, text))
    return tuple(sorted(found, key=lambda lever: -lever.gain_tokens))


def _vllm_changes(model: SizedModel, settings: SizingSettings) -> Iterator[Change]:
    yield from _batch_changes(settings)
    yield from _share_changes(settings)
    if settings.kv_dtype in ("", "auto"):
        yield (
            "kv_cache_dtype",
            "fp8",
            replace(settings, kv_dtype="fp8"),
            message("Keep the KV cache in 8 bits: kv-cache-dtype fp8."),
        )
    if not settings.enforce_eager:
        yield (
            "enforce_eager",
            "true",
            replace(settings, enforce_eager=True),
            message("Do without CUDA graphs: enforce-eager. Replies become slower."),
        )
    if model.shape.vision is not None and not settings.text_only:
        yield (
            "language_model_only",
            "true",
            replace(settings, text_only=True),
            message("Leave out the image encoder: language-model-only."),
        )
    if model.shape.hybrid and settings.prefix_caching is not False:
        yield (
            "enable_prefix_caching",
            "false",
            replace(settings, prefix_caching=False, mamba_cache_mode="none"),
            message("Switch prefix caching off; it keeps a second state per request."),
        )
    if settings.draft_tokens:
        yield (
            "speculative_config",
            "",
            replace(settings, draft_tokens=0),
            message("Do without speculative decoding."),
        )
    if quantization_of(model.shape, settings.quantization) in ("bf16", "fp16"):
        yield from _quantization_changes(settings, model)


def _share_changes(settings: SizingSettings) -> Iterator[Change]:
    """The largest share that is free on every card."""
    if settings.utilization is None or settings.kv_pool_bytes is not None or not settings.cards:
        return
    most = min(card_utilization(replace(settings, utilization=None), c) for c in settings.cards)
    most = int(most * 100) / 100
    if most > settings.utilization:
        yield (
            "gpu_memory_utilization",
            str(most),
            replace(settings, utilization=most),
            message("Give vLLM a larger share: gpu-memory-utilization {value}.", value=most),
        )


def _quantization_changes(settings: SizingSettings, model: SizedModel) -> Iterator[Change]:
    if model.file_bytes is None:
        yield (
            "model",
            "fp8",
            replace(settings, quantization="fp8", measurement=None),
            message("Take a version of the model with 8-bit weights."),
        )


def _batch_changes(settings: SizingSettings) -> Iterator[Change]:
    for tokens in (2048, 1024):
        if (settings.max_num_batched_tokens or 8192) > tokens:
            yield (
                "max_num_batched_tokens",
                str(tokens),
                replace(settings, max_num_batched_tokens=tokens),
                message("Lower max-num-batched-tokens to {value}.", value=tokens),
            )
            break
    for sequences in (8, 4, 1):
        if (settings.max_num_seqs or 256) > sequences:
            yield (
                "max_num_seqs",
                str(sequences),
                replace(settings, max_num_seqs=sequences),
                message("Lower max-num-seqs to {value}.", value=sequences),
            )
            break


_CACHE_STEPS = ("8,8", "6,6", "4,4")


def _exl3_changes(settings: SizingSettings) -> Iterator[Change]:
    rank = {"FP16": 0, "Q8": 1, "Q6": 2, "Q4": 3, **{m: i + 1 for i, m in enumerate(_CACHE_STEPS)}}
    for mode in _CACHE_STEPS[rank.get(settings.cache_mode.replace(" ", ""), 3) :]:
        yield (
            "cache_mode",
            mode,
            replace(settings, cache_mode=mode),
            message("Keep the cache in fewer bits: cache_mode {value}.", value=mode),
        )
    if settings.max_batch_size != 1:
        yield (
            "max_batch_size",
            "1",
            replace(settings, max_batch_size=1),
            message("One request at a time: max_batch_size 1."),
        )
    if settings.chunk_size > 1024:
        yield (
            "chunk_size",
            "1024",
            replace(settings, chunk_size=1024),
            message("Read prompts in smaller pieces: chunk_size 1024."),
        )
    if settings.draft_tokens:
        yield (
            "draft_mode",
            "disabled",
            replace(settings, draft_tokens=0),
            message("Do without speculative decoding."),
        )
    if len(settings.cards) > 1 and not settings.gpu_split:
        equal = tuple(10.0 for _ in settings.cards)
        if settings.tensor_parallel:
            yield (
                "gpu_split",
                "10, 10",
                replace(settings, gpu_split=equal),
                message("Split evenly: the same number for each card in gpu_split."),
            )

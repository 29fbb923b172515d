"""The JSON document of ``twinrig estimate``: one shape for all engines."""

from __future__ import annotations

from typing import Any

from twinrig.domain.memory import GpuPlan, Lever, MemoryPlan, PartKind
from twinrig.sizing.solve import Quantization

_PARTS = {
    "weights_bytes": (PartKind.WEIGHTS,),
    "kv_bytes": (PartKind.KV,),
    "state_bytes": (PartKind.STATE,),
    "activations_bytes": (PartKind.ACTIVATIONS,),
    "runtime_bytes": (PartKind.RUNTIME, PartKind.DRAFTER),
    "graphs_bytes": (PartKind.GRAPHS,),
    "headroom_bytes": (PartKind.HEADROOM,),
}


def document(
    plan: MemoryPlan, levers: tuple[Lever, ...], best: Quantization | None = None
) -> dict[str, Any]:
    """All figures in whole bytes; null is "cannot be known"."""
    found: dict[str, Any] = {
        "engine": plan.engine_id,
        "weights_bytes": plan.weights_bytes,
        "kv_bytes_needed": plan.kv_needed_bytes,
        "kv_capacity_tokens": plan.capacity_tokens,
        "kv_capacity_tokens_legacy": plan.legacy_capacity_tokens,
        "max_concurrency": plan.max_concurrency,
        "max_context_tokens": plan.max_context_tokens,
        "attention_block_size": plan.attention_block_size,
        "kv_pool_bytes": plan.kv_pool_bytes,
        "max_num_seqs": plan.max_num_seqs,
        "kv_bytes_per_token_total": plan.kv_bytes_per_token_total,
        "state_bytes_per_slot_total": plan.state_bytes_per_slot_total,
        "weights_bytes_total": plan.weights_bytes_total,
        "kv_bytes_total": plan.kv_bytes_total,
        "gpus": [_gpu(gpu) for gpu in plan.gpus],
        "reserved": [_reserved(gpu) for gpu in plan.gpus],
        "verdict": plan.verdict,
        "summary": plan.summary,
        "refusals": plan.refusals,
        "assumptions": plan.assumptions,
        "calibrated": plan.calibrated,
        "levers": [
            {"setting": v.setting, "value": v.value, "gain_tokens": v.gain_tokens, "text": v.text}
            for v in levers
        ],
    }
    if best is not None:
        found["best_quantization"] = {
            "name": best.name,
            "bits": best.bits,
            "max_context_tokens": best.plan.max_context_tokens,
        }
    return found


def _gpu(gpu: GpuPlan) -> dict[str, int]:
    """``total_bytes`` is the sum of the parts: the card less what is reserved, if it fits."""
    sizes = {name: sum(gpu.size(kind) for kind in kinds) for name, kinds in _PARTS.items()}
    return {**sizes, "total_bytes": sum(sizes.values())}


def _reserved(gpu: GpuPlan) -> dict[str, Any]:
    """What of a card is not the engine's, and who holds it where that can be told."""
    held = next((part for part in gpu.parts if part.kind is PartKind.RESERVED), None)
    return {
        "gpu": gpu.index,
        "bytes": held.size_bytes if held else None,
        "text": held.text if held else None,
    }

"""What vLLM's own code says about KV cache groups. Run by vLLM's Python: cases in, answers out.

A case lists layers as ``[kind, count, KV heads, head dim or state bytes, window]``; the answer is
``[bytes that one request needs, number of groups]``.
"""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace

import torch
from vllm.v1.core import kv_cache_utils
from vllm.v1.kv_cache_interface import (
    ChunkedLocalAttentionSpec,
    FullAttentionSpec,
    MambaSpec,
    SlidingWindowSpec,
)


class Layout:
    """One region for each layer, the default."""

    is_block_outermost = False
    is_block_compact = True
    name = "LBHNC"


def settings(case: dict) -> SimpleNamespace:
    """As much of a VllmConfig as the code looks at."""
    return SimpleNamespace(
        model_config=SimpleNamespace(max_model_len=case["tokens"]),
        scheduler_config=SimpleNamespace(disable_hybrid_kv_cache_manager=False),
        max_in_flight_tokens=case["in_flight"],
        parallel_config=SimpleNamespace(
            decode_context_parallel_size=1,
            prefill_context_parallel_size=1,
            pipeline_parallel_size=1,
            tensor_parallel_size=1,
        ),
        cache_config=SimpleNamespace(
            mamba_cache_mode=case["mode"],
            get_resolved_kv_cache_layout=lambda: Layout,
            num_gpu_blocks_override=None,
        ),
        attention_config=SimpleNamespace(hisparse_config=None),
        speculative_config=None,
        num_speculative_tokens=0,
    )


def spec(case: dict, kind: str, heads: int, size: int, window: int) -> object:
    """vLLM's description of one layer."""
    if kind == "state":
        return MambaSpec(
            block_size=case["tokens"],
            shapes=((size,),),
            dtypes=(torch.uint8,),
            page_size_padded=case["page"],
            mamba_cache_mode=case["mode"],
            num_speculative_blocks=case["drafts"],
        )
    common = {
        "block_size": case["block"],
        "num_kv_heads": heads,
        "head_size": size,
        "dtype": torch.bfloat16 if case["element_bytes"] == 2 else torch.uint8,
    }
    if kind == "sliding":
        return SlidingWindowSpec(sliding_window=window, **common)
    if kind == "chunked":
        return ChunkedLocalAttentionSpec(attention_chunk_size=window, **common)
    return FullAttentionSpec(**common)


def answer(case: dict) -> list[int]:
    config = settings(case)
    specs = {}
    for kind, count, heads, size, window in case["layers"]:
        for _ in range(count):
            specs[f"model.layers.{len(specs)}.x"] = spec(case, kind, heads, size, window)
    groups = kv_cache_utils.get_kv_cache_groups(config, specs)
    return [kv_cache_utils._max_memory_usage_bytes_from_groups(config, groups), len(groups)]


if __name__ == "__main__":
    answers = [answer(case) for case in json.load(sys.stdin)]
    sys.stdout.write("\nANSWERS " + json.dumps(answers) + "\n")

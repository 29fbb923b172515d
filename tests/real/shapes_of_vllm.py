"""What vLLM itself makes of configurations: no weights, torch's meta device. Run by vLLM's Python.

Reads one case a line (``{"name", "config"}``) and writes it again with ``weights``, the bytes of
all parameters on one card of one and of two, and ``cache``, for each: ``[kind, bytes a token or of
a state, window, layers]``. On a CPU vLLM lifts states to 32 bits; that is taken back here.
"""

from __future__ import annotations

import json
import math
import os
import sys
import tempfile
from collections import Counter
from pathlib import Path

os.environ.update(VLLM_LOGGING_LEVEL="ERROR", HF_HUB_OFFLINE="1", VLLM_CPU_KVCACHE_SPACE="1")

import torch
from vllm.config import VllmConfig, set_current_vllm_config
from vllm.distributed import parallel_state
from vllm.engine.arg_utils import EngineArgs
from vllm.model_executor.layers.attention_layer_base import AttentionLayerBase
from vllm.model_executor.model_loader.utils import initialize_model
from vllm.model_executor.models import registry

KINDS = {"SlidingWindowSpec": "sliding", "ChunkedLocalAttentionSpec": "chunked"}
torch.cpu._is_avx512_bf16_supported = lambda: False
plain_item = torch.Tensor.item
torch.Tensor.item = lambda self: 1.0 if self.is_meta else plain_item(self)
registry._LazyRegisteredModel.inspect_model_cls = lambda self: registry._ModelInfo.from_model_cls(
    self.load_model_cls()
)  # else a process for every class


def prepare(folder: str) -> None:
    with set_current_vllm_config(VllmConfig()):
        parallel_state.init_distributed_environment(1, 0, f"file://{folder}/rendezvous", 0, "gloo")
        parallel_state.ensure_model_parallel_initialized(1, 1)


def built(config: dict, cards: int) -> tuple[int, list]:
    """The model as the first of so many cards has it. Some classes read the file once more."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "config.json").write_text(json.dumps(config))
        settings = EngineArgs(
            model=folder,
            tokenizer=folder,
            skip_tokenizer_init=True,
            load_format="dummy",
            dtype="bfloat16",
            max_model_len=1024,
            enforce_eager=True,
        ).create_engine_config()
        return on_card(settings, cards)


def on_card(settings: VllmConfig, cards: int) -> tuple[int, list]:
    parallel_state._TP.world_size = cards
    settings.parallel_config.tensor_parallel_size = cards
    usual = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        with set_current_vllm_config(settings):
            with torch.device("meta"):
                model = initialize_model(vllm_config=settings)
            return sum(p.numel() * p.element_size() for p in model.parameters()), cache(settings)
    finally:
        torch.set_default_dtype(usual)
        parallel_state._TP.world_size = 1


def cache(settings: VllmConfig) -> list:
    found: Counter = Counter()
    for layer in settings.compilation_config.static_forward_context.values():
        shares = getattr(layer, "kv_sharing_target_layer_name", None)
        if not isinstance(layer, AttentionLayerBase) or shares:
            continue
        spec = layer.get_kv_cache_spec(settings)
        if spec is None:
            continue
        if type(spec).__name__ == "MambaSpec":
            sizes = zip(spec.shapes, spec.dtypes, strict=True)
            found["state", sum(math.prod(s) * d.itemsize for s, d in sizes), 0] += 1
            continue
        kind = KINDS.get(type(spec).__name__, "full")
        window = 0
        if kind != "full":
            name = "sliding_window" if kind == "sliding" else "attention_chunk_size"
            window = getattr(spec, name)
        found[kind, spec.page_size_bytes // spec.block_size, window] += 1
    return sorted([*key, layers] for key, layers in found.items())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as rendezvous:
        prepare(rendezvous)
        for line in sys.stdin:
            case = json.loads(line)
            both = [built(case["config"], cards) for cards in (1, 2)]
            case["weights"], case["cache"] = map(list, zip(*both, strict=True))
            sys.stdout.write("\nCASE " + json.dumps(case, separators=(",", ":")) + "\n")
            sys.stdout.flush()

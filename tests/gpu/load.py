"""A decode load like that of a large model on two cards, in plain torch; for real hardware only.

    python tests/gpu/load.py tensor --seconds 60     # every layer on both cards, all-reduce twice
    python tests/gpu/load.py layers --seconds 60     # half of the layers on each card

The weights have a 27B model's shapes (64 layers, hidden 5120) in bfloat16 and random values. One
token at a time is multiplied through all of them, so memory traffic per token is the model's own.
Prints one JSON line at the end. ``--config-out FILE`` writes the matching ``config.json``.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

LAYERS, HIDDEN, INNER, HEADS, KV_HEADS, HEAD_DIM, VOCABULARY = 64, 5120, 17408, 40, 8, 128, 151_936
CONTEXT = 16_384


def config() -> dict[str, object]:
    """What ``twinrig estimate`` needs to size the same load."""
    return {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "hidden_size": HIDDEN,
        "intermediate_size": INNER,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HEAD_DIM,
        "vocab_size": VOCABULARY,
        "max_position_embeddings": 40_960,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
    }


def matrix(torch: Any, rows: int, columns: int, device: str) -> Any:
    return torch.randn(rows, columns, dtype=torch.bfloat16, device=device) * rows**-0.5


def layer(torch: Any, device: str, ranks: int) -> dict[str, Any]:
    """One decoder layer's matrices, this rank's share."""
    return {
        "q": matrix(torch, HIDDEN, HEADS * HEAD_DIM // ranks, device),
        "k": matrix(torch, HIDDEN, KV_HEADS * HEAD_DIM // ranks, device),
        "v": matrix(torch, HIDDEN, KV_HEADS * HEAD_DIM // ranks, device),
        "o": matrix(torch, HEADS * HEAD_DIM // ranks, HIDDEN, device),
        "gate": matrix(torch, HIDDEN, INNER // ranks, device),
        "up": matrix(torch, HIDDEN, INNER // ranks, device),
        "down": matrix(torch, INNER // ranks, HIDDEN, device),
    }


def kv_cache(torch: Any, device: str, layers: int, ranks: int) -> Any:
    shape = (layers, 2, CONTEXT, KV_HEADS // ranks, HEAD_DIM)
    return torch.zeros(shape, dtype=torch.bfloat16, device=device)


def forward(torch: Any, weights: dict[str, Any], x: Any, reduce: Any) -> Any:
    attended = x @ weights["q"]
    _ = x @ weights["k"], x @ weights["v"]
    x = x + reduce(attended @ weights["o"])
    inner = torch.nn.functional.silu(x @ weights["gate"]) * (x @ weights["up"])
    x = x + reduce(inner @ weights["down"])
    return x / x.float().norm().clamp(min=1).to(x.dtype)


def tensor_rank(rank: int, seconds: float) -> None:
    """One rank of the tensor-parallel load."""
    import torch
    import torch.distributed as dist

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29577")
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=2, device_id=torch.device("cuda", rank))
    device = f"cuda:{rank}"
    layers = [layer(torch, device, 2) for _ in range(LAYERS)]
    ends = [matrix(torch, VOCABULARY // 2, HIDDEN, device) for _ in range(2)]
    cache = kv_cache(torch, device, LAYERS, 2)
    x = torch.ones(1, HIDDEN, dtype=torch.bfloat16, device=device)

    def reduce(part: Any) -> Any:
        dist.all_reduce(part)
        return part

    def token(x: Any) -> Any:
        for weights in layers:
            x = forward(torch, weights, x, reduce)
        _ = x @ ends[1].T
        return x

    # All ranks must agree on the end: the first one's clock decides, 32 tokens at a time.
    go_on = torch.ones(1, device=device)
    with torch.inference_mode():
        graph = captured(torch, token, x)
        tokens, began = 0, time.monotonic()
        while bool(go_on.item()):
            for _ in range(32):
                graph.replay()
            tokens += 32
            go_on.fill_(float(time.monotonic() - began < seconds))
            dist.broadcast(go_on, 0)
    torch.cuda.synchronize()
    report(torch, rank, "tensor", tokens, time.monotonic() - began, [cache, *ends])
    # Taking a communicator down that a graph has captured was seen to hang (torch 2.11).
    os._exit(0)


def captured(torch: Any, token: Any, x: Any) -> Any:
    """One token as a CUDA graph, as engines run it: without it the host's launches decide."""
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            token(x)
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        token(x)
    return graph


def layer_split(seconds: float) -> None:
    """One process, half of the layers on each card."""
    import torch

    layers = [layer(torch, f"cuda:{i * 2 // LAYERS}", 1) for i in range(LAYERS)]
    caches = [kv_cache(torch, f"cuda:{card}", LAYERS // 2, 1) for card in (0, 1)]
    head = matrix(torch, VOCABULARY, HIDDEN, "cuda:1")
    tokens, began = 0, time.monotonic()
    x = torch.ones(1, HIDDEN, dtype=torch.bfloat16, device="cuda:0")
    with torch.inference_mode():
        while time.monotonic() - began < seconds:
            for _ in range(16):
                x = x.to("cuda:0")
                for number, weights in enumerate(layers):
                    x = x.to("cuda:1") if number == LAYERS // 2 else x
                    x = forward(torch, weights, x, lambda part: part)
                _ = x @ head.T
                torch.cuda.synchronize()
            tokens += 16
    report(torch, 0, "layers", tokens, time.monotonic() - began, caches)


def report(torch: Any, rank: int, mode: str, tokens: int, seconds: float, kept: list[Any]) -> None:
    allocated = [torch.cuda.memory_allocated(i) for i in range(torch.cuda.device_count())]
    line = {
        "rank": rank,
        "mode": mode,
        "tokens_per_s": round(tokens / seconds, 1),
        "allocated_bytes": allocated,
        "kept": len(kept),
    }
    print(json.dumps(line), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mode", choices=("tensor", "layers", "config"))
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--config-out", type=Path)
    args = parser.parse_args()
    if args.config_out:
        args.config_out.write_text(json.dumps(config(), indent=1))
    if args.mode == "tensor":
        import torch.multiprocessing as processes

        processes.spawn(tensor_rank, args=(args.seconds,), nprocs=2)
    elif args.mode == "layers":
        layer_split(args.seconds)


if __name__ == "__main__":
    main()

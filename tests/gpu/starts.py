"""Predicted against printed: start a real vLLM on real cards with random weights, and compare.

    python tests/gpu/starts.py --vllm ENV/bin/vllm --version 0.24.0 --total-gib 139.8 --out FOLDER

For real hardware only; needs the packages of vLLM (transformers) and of Twinrig in one Python.
Each kind is a ``config.json`` with the shapes of a published size, written by transformers' own
configuration class; ``--load-format dummy`` fills the weights. vLLM's log stays in FOLDER. Two
kinds run at once on two cards unless ``--tp`` needs both. Prints a table and ends 1 on a miss.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twinrig.sizing.start_log import StartFigures, read_start

TESTS = Path(__file__).resolve().parents[1]
GIB = 1024**3
READY = "Application startup complete"
MAMBA_LAYERS = ["attention" if n % 10 == 5 else "mamba" for n in range(40)]


@dataclass(frozen=True)
class Kind:
    """One architecture; ``options`` are further arguments of vLLM, ``says`` ours for the same."""

    model_type: str
    architecture: str
    values: dict[str, Any]
    options: tuple[str, ...] = ()
    says: tuple[str, ...] = ()


def decoder(
    layers: int, hidden: int, inner: int, heads: int, kv: int, **more: Any
) -> dict[str, Any]:
    return {
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_attention_heads": heads,
        "num_key_value_heads": kv,
        "max_position_embeddings": 131_072,
        **more,
    }


DENSE = decoder(36, 4096, 12288, 32, 8, head_dim=128, vocab_size=151_936)
EXPERTS = decoder(
    48, 2048, 6144, 32, 4, head_dim=128, vocab_size=151_936, num_experts=128,
    num_experts_per_tok=8, moe_intermediate_size=768, norm_topk_prob=True,
)  # fmt: skip
LATENT = decoder(
    27, 2048, 10944, 16, 16, vocab_size=102_400, kv_lora_rank=512, q_lora_rank=None,
    qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128, n_routed_experts=64,
    n_shared_experts=2, num_experts_per_tok=6, moe_intermediate_size=1408, first_k_dense_replace=1,
    n_group=1, topk_group=1, topk_method="greedy",
)  # fmt: skip
DELTA = decoder(
    24, 2048, 5120, 16, 2, head_dim=256, vocab_size=151_936, num_experts=128,
    num_experts_per_tok=10, moe_intermediate_size=512, shared_expert_intermediate_size=512,
    linear_num_key_heads=16, linear_num_value_heads=32, linear_key_head_dim=128,
    linear_value_head_dim=128,
)  # fmt: skip
MAMBA = decoder(
    40, 1536, 512, 12, 4, vocab_size=100_352, num_local_experts=64, num_experts_per_tok=6,
    shared_intermediate_size=1024, mamba_n_heads=48, mamba_d_head=64, mamba_d_state=128,
    mamba_n_groups=1, mamba_expand=2, layer_types=MAMBA_LAYERS, position_embedding_type="nope",
)  # fmt: skip
BOTH = decoder(
    32, 2560, 10240, 10, 2, head_dim=128, vocab_size=65_536, mamba_d_ssm=6144, mamba_n_heads=48,
    mamba_d_head=128, mamba_d_state=256, mamba_n_groups=1,
)  # fmt: skip
WINDOWS = decoder(48, 3840, 15360, 16, 8, head_dim=256, vocab_size=262_208, sliding_window=1024)

KINDS = {
    "uniform": Kind("qwen3", "Qwen3ForCausalLM", DENSE),
    "fp8-cache": Kind(
        "qwen3", "Qwen3ForCausalLM", DENSE, ("--kv-cache-dtype", "fp8"), ("--kv-cache-dtype", "fp8")
    ),
    "experts": Kind("qwen3_moe", "Qwen3MoeForCausalLM", EXPERTS),
    "sliding": Kind("gemma3_text", "Gemma3ForCausalLM", WINDOWS),
    "latent": Kind("deepseek_v2", "DeepseekV2ForCausalLM", LATENT),
    "hybrid-mamba": Kind("granitemoehybrid", "GraniteMoeHybridForCausalLM", MAMBA),
    "hybrid-parallel": Kind("falcon_h1", "FalconH1ForCausalLM", BOTH),
    "hybrid-delta": Kind("qwen3_next", "Qwen3NextForCausalLM", DELTA),
}


def write_model(folder: Path, kind: Kind) -> None:
    """The configuration as transformers writes it whole, and a tokenizer of single bytes."""
    from transformers import AutoConfig

    sys.path.insert(0, str(TESTS))
    from real.tiny_model import tokenizer_files

    folder.mkdir(parents=True, exist_ok=True)
    config = AutoConfig.for_model(kind.model_type, **kind.values).to_dict()
    # transformers 5 renames these kinds when it reads them; published files keep the old names.
    config |= {name: kind.values[name] for name in ("layer_types",) if name in kind.values}
    config |= {"architectures": [kind.architecture], "dtype": "bfloat16", "torch_dtype": "bfloat16"}
    (folder / "config.json").write_text(json.dumps(config, indent=1, default=str))
    for name, content in tokenizer_files().items():
        (folder / name).write_text(json.dumps(content))


@dataclass(frozen=True)
class Bench:
    """Where and how one start runs."""

    vllm: str
    out: Path
    tp: int
    context: int
    share: float
    limit_s: float

    def start(self, name: str, cards: str, port: int) -> tuple[StartFigures, bool, float]:
        kind, folder = KINDS[name], self.out / name
        argv = [
            self.vllm, "serve", str(folder), "--load-format", "dummy", "--port", str(port),
            "--tensor-parallel-size", str(self.tp), "--max-model-len", str(self.context),
            "--max-num-seqs", "16", "--max-num-batched-tokens", "2048",
            "--gpu-memory-utilization", str(self.share), *kind.options,
        ]  # fmt: skip
        log = self.out / f"{name}-tp{self.tp}.log"
        began, ready = time.monotonic(), False
        with log.open("wb") as sink:
            server = subprocess.Popen(
                argv,
                stdout=sink,
                stderr=subprocess.STDOUT,
                env=os.environ | {"CUDA_VISIBLE_DEVICES": cards},
                start_new_session=True,
            )
            while server.poll() is None and time.monotonic() - began < self.limit_s and not ready:
                time.sleep(0.5)
                ready = READY in log.read_text(errors="replace")
            took_s = time.monotonic() - began
            os.killpg(server.pid, signal.SIGTERM)
            try:
                server.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(server.pid, signal.SIGKILL)
                server.wait()
        return read_start(log.read_text(errors="replace").splitlines()), ready, took_s

    def estimate(self, name: str, version: str, *more: str) -> dict[str, Any]:
        kind = KINDS[name]
        argv = [
            sys.executable, "-m", "twinrig", "estimate", "--target", "local", "--json",
            "--no-measurements", "--model", str(self.out / name / "config.json"),
            "--engine", "vllm", "--engine-version", version, "--tp", str(self.tp),
            "--context", str(self.context), "--max-num-seqs", "16",
            "--max-num-batched-tokens", "2048", *kind.says, *more,
        ]  # fmt: skip
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
        return json.loads(done.stdout) if done.returncode == 0 else {"refused": done.stderr}


def row(bench: Bench, name: str, version: str, total_gib: str, cards: str, port: int) -> str:
    seen, ready, took_s = bench.start(name, cards, port)
    if seen.pool_bytes is None:
        return f"{name:16} no figures in {took_s:.0f} s: see its log"
    given = bench.estimate(name, version, "--kv-pool-gib", f"{seen.pool_bytes / GIB:.2f}")
    own = bench.estimate(
        name, version, "--gpu-total-gib", total_gib, "--gpu-memory-utilization", str(bench.share)
    )
    pairs = (
        ("weights GiB", own.get("weights_bytes"), seen.weights_bytes, GIB),
        ("own pool GiB", own.get("kv_pool_bytes"), seen.pool_bytes, GIB),
        ("tokens", given.get("kv_capacity_tokens"), seen.capacity_tokens, 1),
        ("requests", given.get("max_concurrency"), seen.concurrency, 1),
    )
    words = [
        f"{what} {p / unit if p is not None else None} : {s / unit if s is not None else None}"
        for what, p, s, unit in pairs
    ]
    state = "ready" if ready else "not ready"
    return (
        f"{name:16} {state} {took_s:4.0f} s | "
        + " | ".join(words)
        + f" | graphs {seen.graphs_bytes}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vllm", required=True)
    parser.add_argument("--version", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--total-gib", type=float, required=True)
    parser.add_argument("--tp", type=int, default=1)
    parser.add_argument("--context", type=int, default=32_768)
    parser.add_argument("--share", type=float, default=0.5)
    parser.add_argument("--limit", type=float, default=150.0)
    parser.add_argument("--only", default=",".join(KINDS))
    at = parser.parse_args()
    bench = Bench(at.vllm, at.out, at.tp, at.context, at.share, at.limit)
    total = ",".join([str(at.total_gib)] * at.tp)
    names = at.only.split(",")
    for name in names:
        write_model(at.out / name, KINDS[name])

    def one(numbered: tuple[int, str]) -> None:
        n, name = numbered
        cards = "0,1" if at.tp > 1 else str(n % 2)
        print(row(bench, name, at.version, total, cards, 8100 + n), flush=True)

    with ThreadPoolExecutor(1 if at.tp > 1 else 2) as pool:
        list(pool.map(one, enumerate(names)))


if __name__ == "__main__":
    main()

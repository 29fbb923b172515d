"""Against vLLM's own code: KV cache needs, where every byte and every group must agree, and what it
makes of configurations, which must be what stands in the fixture that unit tests compare with.

Holds for 0.30 and later, whose functions are called by name; another version skips.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
from pathlib import Path

import pytest

from fixtures.sizing_models import ALL, DENSE_8B
from twinrig.sizing.kv_groups import PoolRules, Traffic, build_pool
from twinrig.sizing.model import read_model
from twinrig.sizing.states import vllm_state_bytes

ENVIRONMENT = os.environ.get("TWINRIG_REAL_VLLM", "")
pytestmark = [
    pytest.mark.real,
    pytest.mark.slow,
    pytest.mark.skipif(not ENVIRONMENT, reason="TWINRIG_REAL_VLLM names no environment"),
]
SCRIPT = Path(__file__).with_name("pools_of_vllm.py")
SHAPES_SCRIPT = Path(__file__).with_name("shapes_of_vllm.py")
SHAPES = Path(__file__).parents[1] / "fixtures" / "vllm_shapes.jsonl"
EVERY = 6
LATENT = ("latent", "sparse", "kimi")


def mixed(full: int, sliding: int, window: int) -> dict:
    kinds = ["full_attention"] * full + ["sliding_attention"] * sliding
    count = full + sliding
    return {
        **DENSE_8B,
        "num_hidden_layers": count,
        "sliding_window": window,
        "layer_types": kinds,
    }


def models() -> dict[str, dict]:
    found = {name: config for name, config in ALL.items() if name not in LATENT}
    for full, sliding, window in ((8, 24, 512), (10, 12, 1024), (7, 33, 128), (20, 30, 4096)):
        found[f"{full} full, {sliding} sliding"] = mixed(full, sliding, window)
    chunks = {"attention_chunk_size": 8192, "no_rope_layers": [1, 1, 1, 0] * 8}
    found["chunks"] = {**DENSE_8B, **chunks}
    for case in (json.loads(line) for line in SHAPES.read_text("utf-8").splitlines()):
        latent = "kv_lora_rank" in case["config"]
        if not latent and read_model(case["config"]).attentions:
            found[case["name"]] = case["config"]
    return found


def cases() -> tuple[list[dict], list[list[int]]]:
    """What vLLM is asked, and what is expected of it."""
    asked, expected = [], []
    variants = itertools.product((1, 2), (2, 1), ("none", "align"), (0, 2), (1, 4096, 200_001))
    for (name, config), variant in itertools.product(models().items(), list(variants)):
        tp, element_bytes, mode, drafts, tokens = variant
        shape = read_model(config)
        drafts = drafts if shape.hybrid else 0
        pool = build_pool(shape, PoolRules("auto" if element_bytes == 2 else "fp8", tp, drafts))
        block = pool.attention_block or 16
        layers = [
            [a.kind.value, n, max(1, a.kv_heads // tp), a.head_dim, a.window]
            for a, n in shape.attentions
        ]
        first = shape.attentions[0][0]
        page = block * max(1, first.kv_heads // tp) * 2 * first.head_dim * element_bytes
        layers += [["state", n, 0, vllm_state_bytes(s, tp, drafts), 0] for s, n in shape.states]
        asked.append(
            {
                "name": name,
                "layers": layers,
                "block": block,
                "element_bytes": element_bytes,
                "tokens": tokens,
                "in_flight": 4096,
                "mode": mode,
                "drafts": drafts,
                "page": page,
            }
        )
        traffic = Traffic(4096, drafts, mode == "align")
        expected.append([pool.needed_bytes(tokens, traffic), pool.group_count])
    return asked, expected


def test_every_pool_is_that_of_the_engine() -> None:
    asked, expected = cases()
    python = Path(ENVIRONMENT) / "bin" / "python"
    done = subprocess.run(
        [str(python), str(SCRIPT)],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    if "ImportError" in done.stderr or "AttributeError" in done.stderr:
        pytest.skip("this vLLM has other functions")
    line = next(x for x in done.stdout.splitlines() if x.startswith("ANSWERS "))
    answers = json.loads(line.removeprefix("ANSWERS "))
    wrong = [
        (case["name"], case["tokens"], case["mode"], ours, theirs)
        for case, ours, theirs in zip(asked, expected, answers, strict=True)
        if ours != theirs
    ]
    assert len(asked) > 3000
    assert wrong == []


def test_the_engine_makes_of_configurations_what_the_fixture_says() -> None:
    """Every sixth: loading the classes takes most of a minute."""
    chosen = [json.loads(line) for line in SHAPES.read_text("utf-8").splitlines()[::EVERY]]
    asked = "".join(json.dumps({"name": c["name"], "config": c["config"]}) + "\n" for c in chosen)
    done = subprocess.run(
        [str(Path(ENVIRONMENT) / "bin" / "python"), str(SHAPES_SCRIPT)],
        input=asked,
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )
    if "ImportError" in done.stderr:
        pytest.skip("this vLLM has other modules")
    lines = [x for x in done.stdout.splitlines() if x.startswith("CASE ")]
    answers = [json.loads(line.removeprefix("CASE ")) for line in lines]
    assert len(answers) == len(chosen) > 8, done.stderr[-2000:]
    assert answers == chosen

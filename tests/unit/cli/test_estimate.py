"""``twinrig estimate`` as people and programs call it."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest

from fixtures.sizing_models import DENSE_8B, FALCON_7B, HYBRID_27B
from twinrig.cli.main import main
from twinrig.composition.targets import open_workbench
from twinrig.domain.memory import GIB, Measurement
from twinrig.hosts.paths import find_paths
from twinrig.services.calibration import settings_key

PARTS = (
    "weights_bytes",
    "kv_bytes",
    "state_bytes",
    "activations_bytes",
    "runtime_bytes",
    "graphs_bytes",
    "headroom_bytes",
)
MODEL = "/home/demo/models/Demo-24B-AWQ"


@pytest.fixture
def run(twinrig_home, capsys):
    environ = {"TWINRIG_HOME": str(twinrig_home), "PATH": "/usr/bin:/bin"}
    paths = find_paths(environ)

    def call(*argv: str, target: str = "local") -> tuple[int, str]:
        words = ["--target", target, "estimate", *argv]
        code = main(words, lambda t: open_workbench(t, paths, environ), environ=environ)
        return code, "".join(capsys.readouterr())

    return call


@pytest.fixture
def model(tmp_path) -> Path:
    path = tmp_path / "hybrid.json"
    path.write_text(json.dumps(HYBRID_27B))
    return path


def test_without_cards_nobody_says_that_it_fits(run, model) -> None:
    argv = ("--model", str(model), "--engine", "vllm", "--engine-version", "0.24")
    code, out = run(*argv)
    assert code == 0
    assert out.startswith("It cannot be told whether it fits\n")
    assert "Weights, per GPU, in GiB: " in out and "KV cache for one request" in out
    data = json.loads(run(*argv, "--json")[1])
    assert data["verdict"] == "unknown" and data["weights_bytes"] > 0


def test_the_json_of_vllm(run, model) -> None:
    code, out = run(
        "--model",
        str(model),
        "--engine",
        "vllm",
        "--json",
        "--tp",
        "1",
        "--engine-version",
        "0.22+",
        "--kv-pool-gib",
        "7.04",
        "--context",
        "131072",
        "--quantization",
        "fp8",
    )
    data = json.loads(out)
    assert code == 0
    assert data["kv_bytes_needed"] == 171 * 51_380_224
    assert data["attention_block_size"] == 784
    assert data["verdict"] == "does_not_fit"
    assert data["gpus"] == []
    assert all(isinstance(text, str) for text in data["assumptions"])


def test_the_json_of_exllamav3(run, model) -> None:
    code, out = run(
        "--model",
        str(model),
        "--engine",
        "tabbyapi",
        "--json",
        "--bpw",
        "4.15",
        "--head-bits",
        "6",
        "--cache-mode",
        "2,2",
        "--cache-size",
        "131072",
        "--max-batch-size",
        "8",
        "--tp",
        "2",
        "--gpus",
        "12,12",
        "--draft-tokens",
        "4",
        "--engine-version",
        "1.6.1",
    )
    data = json.loads(out)
    assert code == 0
    assert data["kv_bytes_per_token_total"] == 10_240
    assert data["state_bytes_per_slot_total"] == 314_838_528
    for gpu in data["gpus"]:
        assert set(gpu) == {*PARTS, "total_bytes"}
        assert all(isinstance(v, int) and v >= 0 for v in gpu.values())
        assert gpu["total_bytes"] == sum(gpu[part] for part in PARTS)
    assert data["kv_bytes_total"] == sum(g["kv_bytes"] for g in data["gpus"])
    assert any("table of readings" in text for text in data["assumptions"])


def test_own_pool_and_share(run, model) -> None:
    code, out = run(
        "--model",
        str(model),
        "--json",
        "--tp",
        "2",
        "--gpu-total-gib",
        "23.56,23.56",
        "--gpu-memory-utilization",
        "0.9",
        "--enforce-eager",
        "--quantization",
        "awq-int4",
    )
    assert code == 0
    assert 5 * 2**30 < json.loads(out)["kv_pool_bytes"] < 12 * 2**30


def test_the_table_for_people(run, model) -> None:
    code, out = run(
        "--model",
        str(model),
        "--gpus",
        "24,24",
        "--quantization",
        "awq-int4",
        "--engine-version",
        "0.32",
        "--context",
        "200000",
        "--want-context",
        "32768",
    )
    assert code == 0
    for words in (
        "Weights",
        "KV cache",
        "Headroom",
        "Whole card",
        "GPU 1",
        "Assumed:",
        "What would give more context:",
        "Best quantisation with 32768 tokens",
    ):
        assert words in out


def test_a_plan_that_does_not_fit_is_an_answer(run, model) -> None:
    code, out = run("--model", str(model), "--gpus", "8", "--context", "1000")
    assert code == 0
    assert out.startswith("Does not fit")
    code, out = run("--model", str(model), "--gpus", "8", "--want-context", "1000")
    assert "No quantisation gives 1000 tokens here." in out


def test_this_machines_cards_and_a_folder(run) -> None:
    code, out = run("--model", MODEL, "--json", "--context", "4096", target="demo")
    data = json.loads(out)
    assert code == 0
    assert len(data["gpus"]) == 2
    assert data["verdict"] == "fits"
    assert data["weights_bytes"] > 6 * 2**30
    assert data["levers"][0]["gain_tokens"] >= data["levers"][-1]["gain_tokens"]


def test_a_key_that_is_missing_is_named_and_ends_with_3(run, tmp_path) -> None:
    path = tmp_path / "broken.json"
    path.write_text(json.dumps({k: v for k, v in DENSE_8B.items() if k != "num_hidden_layers"}))
    code, out = run("--model", str(path))
    assert code == 3
    assert "num_hidden_layers" in out
    code, out = run("--model", str(path), "--json")
    assert code == 3
    assert "num_hidden_layers" in json.loads(out)["error"]["text"]
    path.write_bytes(b"\x00junk")
    assert run("--model", str(path))[0] == 3


def test_a_refusal_of_the_engine_is_in_its_words(run, tmp_path) -> None:
    path = tmp_path / "falcon.json"
    path.write_text(json.dumps(FALCON_7B))
    code, out = run("--model", str(path), "--tp", "2", "--gpus", "24,24")
    assert code == 1
    assert "Total number of attention heads (71) must be divisible" in out


@pytest.mark.parametrize(
    "words",
    [
        ("--model", "/nowhere/config.json"),
        ("--model", "m.json", "--gpus", "0,12"),
        ("--model", "m.json", "--gpus", "x"),
        ("--model", "m.json", "--gpu-memory-utilization", "1.5"),
        ("--model", "m.json", "--context", "0"),
        ("--model", "m.json", "--bpw", "99"),
        ("--model", "m.json", "--engine", "other"),
        ("--model", "m.json", "--speculative-tokens", "-1"),
        ("--model", "m.json", "--reserve-gib", "nan"),
        (),
    ],
)
def test_wrong_usage(run, words) -> None:
    assert run(*words)[0] == 2


def test_reserves(run, model) -> None:
    def longest(*more: str) -> int:
        words = ("--model", str(model), "--json", "--gpus", "24,24", "--quantization", "awq-int4")
        return json.loads(run(*words, *more)[1])["max_context_tokens"]

    assert longest("--safe") <= longest() <= longest("--reserve-gib", "0")
    assert longest("--safe", "--text-only") >= longest("--safe")


async def _this_machine(twinrig_home: Path, **changes) -> None:
    """Keep a measurement of the demo rig's cards and model."""
    environ = {"TWINRIG_HOME": str(twinrig_home), "PATH": "/usr/bin:/bin"}
    bench = open_workbench("demo", find_paths(environ), environ)
    facts = bench.estimating()
    _, machine = await facts.cards()
    key = settings_key({"tensor_parallel_size": 2})
    found = Measurement(
        machine, "vllm", "0.30.1", MODEL, 5.0, 6 * GIB, 2 * GIB, 3 * GIB, settings_key=key
    )
    assert facts.store.add(replace(found, **changes))
    await bench.http.close()


async def test_an_earlier_start_of_this_machine_is_used_and_told(run, twinrig_home) -> None:
    await _this_machine(twinrig_home)
    words = ("--model", MODEL)

    def asked(*more: str) -> dict:
        code, out = run(*words, "--json", *more, target="demo")
        assert code == 0
        return json.loads(out)

    found = await asyncio.to_thread(asked)
    assert found["calibrated"] is True
    assert found["gpus"][0]["weights_bytes"] == 6 * GIB
    cold = await asyncio.to_thread(asked, "--no-measurements")
    assert cold["calibrated"] is False
    assert cold["gpus"][0]["weights_bytes"] != 6 * GIB
    for other in (
        ("--engine-version", "0.29.0"),
        ("--enforce-eager",),
        ("--tp", "1"),
        ("--gpus", "12,12"),
        ("--quantization", "fp8"),
    ):
        assert (await asyncio.to_thread(asked, *other))["calibrated"] is False, other
    _, text = await asyncio.to_thread(lambda: run(*words, target="demo"))
    assert "Overhead as measured on this machine with vllm 0.30.1" in " ".join(text.split())


def test_who_holds_the_rest_of_a_card_is_told_or_said_to_be_unknown(run) -> None:
    code, out = run("--model", MODEL, "--json", target="demo")
    held = json.loads(out)["reserved"][0]
    assert code == 0
    assert (held["gpu"], held["bytes"] > 0) == (0, True)
    assert "cannot be told" in held["text"]
    assert "cannot be told" in run("--model", MODEL, target="demo")[1]

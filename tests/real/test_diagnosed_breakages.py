"""A real vLLM broken in eight more ways; each must be told rightly from the server's own log.

``test_breakages`` has those that the product sees before or around a start; these all come out of
what vLLM itself printed. All share one rig; a start that must fail takes 20 to 60 s on two cores.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from real.rig import CONTEXT, CPU_ENV, Rig, free_port
from twinrig.domain.profile import EnvEntry, ModelRef

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(900)]

START_S = 420.0
Breaker = Callable[[Path], None]


def cut_weights(model: Path) -> None:
    """As a download that was cut off leaves it."""
    first = sorted(model.glob("*.safetensors"))[0]
    first.write_bytes(first.read_bytes()[:4000])


def lose_weights(model: Path) -> None:
    for file in (*model.glob("*.safetensors"), model / "model.safetensors.index.json"):
        file.unlink()


def lose_config(model: Path) -> None:
    (model / "config.json").unlink()


def spoil_tokenizer(model: Path) -> None:
    (model / "tokenizer.json").write_text("{", encoding="utf-8")


def edit_config(**changes: object) -> Breaker:
    def breaker(model: Path) -> None:
        path = model / "config.json"
        document = {**json.loads(path.read_text("utf-8")), **changes}
        path.write_text(json.dumps(document), encoding="utf-8")

    return breaker


def nothing(model: Path) -> None:
    """The model stays whole."""


@dataclass(frozen=True)
class Breakage:
    """``broken`` spoils a copy of the model; ``extra``, ``settings``, ``env`` spoil the profile."""

    name: str
    expected: str
    broken: Breaker = nothing
    settings: dict[str, Any] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)


BREAKAGES = (
    Breakage("cut-weights", "safetensors-corrupt", cut_weights),
    Breakage("no-weights", "weights-missing", lose_weights),
    Breakage("no-config", "model-path-missing", lose_config),
    Breakage("bad-tokenizer", "tokenizer-load-failed", spoil_tokenizer),
    Breakage(
        "new-architecture",
        "arch-unsupported",
        edit_config(architectures=["TwinrigForCausalLM"]),
    ),
    Breakage(
        "own-code",
        "trust-remote-code",
        edit_config(
            auto_map={
                "AutoConfig": "configuration_own.OwnConfig",
                "AutoModelForCausalLM": "modeling_own.OwnForCausalLM",
            },
            model_type="twinrig-own",
        ),
    ),
    Breakage("three-cards", "tp-not-divisible", settings={"tensor_parallel_size": 3}),
    Breakage("odd-argument", "bad-cli-argument", extra={"no-such-option": "1"}),
    Breakage(
        "no-pool",
        "kv-max-len",
        edit_config(max_position_embeddings=4_000_000, num_hidden_layers=2),
        settings={"context_length": 4_000_000},
    ),
)


@pytest.mark.parametrize("breakage", BREAKAGES, ids=lambda b: b.name)
def test_the_cause_is_told_from_the_servers_own_log(
    rig: Rig, tmp_path: Path, breakage: Breakage
) -> None:
    model = tmp_path / "model"
    shutil.copytree(rig.model, model)
    breakage.broken(model)
    settings = {"context_length": CONTEXT, "enforce_eager": True, "max_num_seqs": 8}
    env = {name: EnvEntry(value, "runs on the CPU") for name, value in CPU_ENV.items()}
    rig.add_profile(
        breakage.name,
        free_port(),
        model=ModelRef(str(model), "tiny"),
        settings={**settings, **breakage.settings},
        extra=breakage.extra,
        env={**env, **{name: EnvEntry(value, "broken") for name, value in breakage.env.items()}},
    )
    started = rig.twinrig("start", breakage.name, "--timeout", "200", timeout_s=START_S)
    record = rig.record(breakage.name)
    log = rig.home / "state" / "local" / "servers" / breakage.name / "server.log"
    told = rig.twinrig("diagnose", "--profile", breakage.name, "--json")
    bare = rig.twinrig("diagnose", str(log), "--json")
    print(f"\n{breakage.name}: {record.get('failure', {}).get('finding_id')}")
    assert started.returncode == 1, started.stdout + started.stderr
    assert record["state"] == "failed", record
    assert record["failure"]["finding_id"] == breakage.expected, log.read_text("utf-8")[-3000:]
    assert record["failure"]["log_line_no"]
    for done in (told, bare):
        document = json.loads(done.stdout)
        assert (document["kind"], done.returncode) == ("failure", 1)
        assert document["findings"][0]["id"] == breakage.expected
        assert document["findings"][0]["confidence"] in ("high", "medium")

"""Bench and chat on the demo rig, through real processes: turns, advice, undo, what ran before."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fixtures.demo_rig import Rig

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
SHORT = ("--users", "2", "--rounds", "1", "--yes")


def add(rig: Rig, name: str, *settings: str) -> None:
    rig.new_profile(name, scale=0.0)
    if settings:
        rig.run("profiles", "edit", name.lower(), "set", *settings)


def json_of(rig: Rig, *words: str) -> Any:
    """As ``Rig.json``, with the patience that a benchmark takes."""
    process = rig.popen(*words, "--json")
    out, err = process.communicate(timeout=500)
    assert process.returncode == 0, out + err
    return json.loads(out)


def test_layers_and_tensor_parallel_in_turns(rig: Rig) -> None:
    add(rig, "Together", "tensor_parallel_size=2")
    add(rig, "Layers", "tensor_parallel_size=1", "pipeline_parallel_size=2")
    rig.run("start", "layers")
    words = ("bench", "--compare", "layers", "together", *SHORT, "--apply", "alone")
    data = json_of(rig, *words)

    assert {advice["use"]: advice["best"] for advice in data["advice"]} == {
        "alone": "together",
        "several": "together",
    }
    assert "Tensor parallel makes" in data["advice"][0]["text"]
    one, other = data["results"]
    speeds = [r["loads"][0]["figures"]["generation_tps"]["median"] for r in (one, other)]
    assert speeds[1] > 1.2 * speeds[0]  # 1.8 by the rig's physics, on a machine with nothing else
    assert all(entry["disturbed"] == 0 for r in (one, other) for entry in r["loads"])
    assert any(card["load"] for card in other["loads"][-1]["cards"])
    status = rig.json("status", "layers")["status"]
    assert status["record"]["state"] in ("starting", "loading", "ready"), "it ran before"

    shown = rig.json("profiles", "show", "layers")
    assert "pipeline_parallel_size" not in str(shown) or "tensor_parallel_size" in str(shown)
    rig.run("undo", data["change"]["entry"], "--yes")
    again = rig.json("profiles", "show", "layers")
    assert again != shown
    rig.run("stop", "layers")


def test_a_comparison_that_is_killed_is_put_back_at_the_next_start(rig: Rig) -> None:
    add(rig, "Mine", "max_num_seqs=4")
    add(rig, "Other", "max_num_seqs=1")
    rig.run("start", "mine")
    before = rig.json("status", "mine")["status"]["record"]["run_id"]
    measuring = rig.popen("bench", "--compare", "other", "mine", "--users", "2", "--yes")

    def state_of(profile: str) -> str:
        record = rig.json("status", profile)["status"]["record"]
        return str(record["state"]) if record else ""

    rig.until(lambda: state_of("other") == "ready", 60)
    measuring.kill()
    measuring.communicate(timeout=20)
    assert state_of("other") == "ready" and state_of("mine") == "stopped"
    told = rig.run("up", "--profile", "mine", "--seconds", "0", "--keep")
    assert "A measurement was cut off. The server of mine, which ran before it" in told
    rig.until(lambda: state_of("mine") == "ready", 60)
    assert state_of("other") == "stopped"
    assert rig.json("status", "mine")["status"]["record"]["run_id"] != before
    assert "cut off" not in rig.run("up", "--seconds", "0")
    rig.run("stop", "mine")


def test_a_single_measurement_and_a_chat_with_the_running_server(rig: Rig) -> None:
    add(rig, "Demo")
    rig.run("start")
    data = json_of(rig, "bench", *SHORT)
    first = data["results"][0]["loads"][0]["figures"]
    assert first["generation_tps"]["median"] > 20
    assert rig.status()["record"]["state"] == "ready"
    reply = rig.json("chat", "Tell me about two cards.")
    assert "demo engine" in reply["reply"]
    assert reply["figures"]["counted"] and reply["figures"]["first_token_s"] > 0
    rig.run("stop")

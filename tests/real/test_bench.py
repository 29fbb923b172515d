"""Benchmarks and a chat on a real vLLM: figures beside the server's own, and a planted slower one.

The plan is short, since a CPU does the work: what is pinned is that both clocks agree.
"""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from real.rig import Rig, free_port

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(1500)]

PROFILE, SLOWER = "measured", "slower"
WORDS = ("--users", "2", "--rounds", "3", "--yes")


@pytest.fixture(scope="module")
def serving(rig: Rig) -> Rig:
    port = free_port()
    settings = {"context_length": 2048, "enforce_eager": True, "max_num_seqs": 8}
    rig.add_profile(PROFILE, port, settings=settings)
    rig.add_profile(SLOWER, port, settings={**settings, "max_num_seqs": 1})
    return rig


def bench(rig: Rig, *words: str) -> dict[str, Any]:
    done = rig.twinrig("bench", *words, "--json", timeout_s=1200)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    data: dict[str, Any] = json.loads(done.stdout)
    assert "results" in data, data
    return data


def load_of(result: dict[str, Any], streams: int, prompt: str, sampling: str) -> dict[str, Any]:
    wanted = {"streams": streams, "prompt": prompt, "sampling": sampling}
    (found,) = [entry for entry in result["loads"] if entry["load"] == wanted]
    return dict(found)


def spread(figure: dict[str, Any]) -> float:
    widest = max(figure["median"] - figure["low"], figure["high"] - figure["median"])
    return float(max(widest, 0.02 * figure["median"]))


def test_speed_agrees_with_the_servers_own_counters(serving: Rig) -> None:
    began = time.monotonic()
    data = bench(serving, PROFILE, *WORDS)
    result = data["results"][0]
    print(f"\nmeasured in {time.monotonic() - began:.0f} s")
    found = load_of(result, 1, "short", "sampled")
    ours = found["figures"]["generation_tps"]["median"]
    server = found["figures"]["server_generation_tps"]["median"]
    print(f"{ours:.1f} T/s here, {server:.1f} T/s by the server's own clock")
    assert ours == pytest.approx(server, rel=0.02)
    for entry in result["loads"]:
        assert entry["failures"] == 0 and entry["disturbed"] == 0
    # Greedy replies of random weights are bytes that make no characters: vLLM hands them out late.
    greedy = load_of(result, 1, "short", "greedy")["figures"]
    assert greedy["generation_tps"]["median"] > 0
    assert greedy["server_generation_tps"]["median"] > 0
    long = load_of(result, 1, "long", "sampled")
    assert 1000 < long["prompt_tokens"] < 1450
    assert long["figures"]["prompt_tps"]["median"] > 0
    assert serving.record(PROFILE)["state"] == "stopped", "it ran before nobody"


@pytest.mark.slow
def test_two_runs_of_the_same_profile_differ_by_less_than_they_state(serving: Rig) -> None:
    first, second = (bench(serving, PROFILE, *WORDS)["results"][0] for _ in range(2))
    for streams in (1, 2):
        one, two = (
            load_of(r, streams, "short", "sampled")["figures"]["generation_tps"]
            for r in (first, second)
        )
        gap, stated = abs(one["median"] - two["median"]), spread(one) + spread(two)
        print(f"{streams}: {one['median']:.1f} and {two['median']:.1f} T/s, ± {stated:.1f}")
        assert gap <= stated


@pytest.mark.slow
def test_a_planted_slower_profile_is_found_slower(serving: Rig) -> None:
    """One slot: two requests at once wait for each other, so that both get half the speed."""
    data = bench(serving, "--compare", SLOWER, PROFILE, "--users", "2", "--rounds", "2", "--yes")
    advice = {entry["use"]: entry for entry in data["advice"]}
    for entry in advice.values():
        print(f"{entry['use']}: {entry['text']}")
    assert advice["several"]["best"] == PROFILE
    assert advice["alone"]["best"] in (None, PROFILE, SLOWER)


def test_a_chat_with_the_real_server(serving: Rig) -> None:
    assert serving.twinrig("start", PROFILE, timeout_s=600).returncode == 0
    done = serving.twinrig("chat", "こんにちは", "--max-tokens", "24", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    data = json.loads(done.stdout)
    figures = data["figures"]
    assert figures["counted"] and figures["generation_tokens"] <= 24
    assert figures["first_token_s"] > 0 and figures["prompt_tokens"] > 0
    too_long = serving.twinrig("chat", "word " * 3000, "--json")
    assert too_long.returncode == 1
    assert "does not fit" in json.loads(too_long.stdout)["error"]["text"]
    assert serving.twinrig("stop", PROFILE).returncode == 0

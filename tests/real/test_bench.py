"""Benchmarks and a chat on a real vLLM: figures beside the server's own, and a planted slower one.

The model has sixteen layers, so that a token takes as long as on a real card: with two layers the
server makes them faster than its own front end can hand them out on a machine of two cores.
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from real.client import counter
from real.rig import Rig, free_port, wait_until
from real.tiny_model import write_model
from twinrig.composition.targets import open_workbench
from twinrig.domain.benchmark import Figure, Load, Prompt, Round, Sampling
from twinrig.domain.profile import ModelRef
from twinrig.hosts.paths import find_paths
from twinrig.services.bench_prompts import PromptMaker
from twinrig.services.bench_rounds import RoundRunner
from twinrig.services.bench_server import BenchServer
from twinrig.services.endpoints import find_serving
from twinrig.services.workbench import Workbench

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(1500)]

PROFILE, SLOWER = "measured", "slower"
WORDS = ("--users", "2", "--rounds", "3", "--yes")
GENERATED = "vllm:generation_tokens_total"
CONTEXT = 4096


@pytest.fixture(scope="module")
def serving(rig: Rig) -> Rig:
    port = free_port()
    model = write_model(rig.home.parent / "deep-llama", context=CONTEXT, layers=16)
    settings = {"context_length": CONTEXT, "enforce_eager": True, "max_num_seqs": 8}
    wanted = {"model": ModelRef(str(model), "tiny")}
    rig.add_profile(PROFILE, port, settings=settings, **wanted)
    rig.add_profile(SLOWER, port, settings={**settings, "max_num_seqs": 1}, **wanted)
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
    return Figure(**figure).spread


def test_figures_agree_with_the_servers_own_counters(serving: Rig) -> None:
    began = time.monotonic()
    data = bench(serving, PROFILE, *WORDS)
    result = data["results"][0]
    print(f"\nmeasured in {time.monotonic() - began:.0f} s")
    for entry in result["loads"]:
        assert entry["failures"] == 0 and entry["disturbed"] == 0
        assert entry["generation_tokens"] == entry["server_generation_tokens"] > 0
    for prompt, sampling in (("short", "sampled"), ("short", "greedy"), ("long", "sampled")):
        found = load_of(result, 1, prompt, sampling)
        ours = found["figures"]["generation_tps"]["median"]
        server = found["figures"]["server_generation_tps"]["median"]
        print(f"{prompt}, {sampling}: {ours:.1f} T/s here, {server:.1f} by the server's own clock")
        assert ours == pytest.approx(server, rel=0.02)
    long = load_of(result, 1, "long", "sampled")
    assert 1600 < long["prompt_tokens"] < 2600
    assert long["figures"]["prompt_tps"]["median"] > 0
    assert serving.record(PROFILE)["state"] == "stopped", "it ran before nobody"


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


def settings_in_use(rig: Rig, profile_id: str) -> str:
    """What the running server itself says that it was started with."""
    assert rig.processes_of(profile_id), "no server"
    log = rig.home / "state" / "local" / "servers" / profile_id / "server.log"
    return re.findall(r"'max_num_seqs': (\d+)", log.read_text("utf-8", "replace"))[-1]


def test_a_planted_slower_profile_is_found_slower_and_what_ran_runs_again(serving: Rig) -> None:
    """One slot: two requests at once wait for each other, so that both get half the speed."""
    assert serving.twinrig("start", PROFILE, timeout_s=600).returncode == 0
    before = serving.record(PROFILE)["run_id"]
    data = bench(serving, "--compare", SLOWER, PROFILE, "--users", "2", "--rounds", "2", "--yes")
    advice = {entry["use"]: entry for entry in data["advice"]}
    for entry in advice.values():
        print(f"{entry['use']}: {entry['text']}")
    assert advice["several"]["best"] == PROFILE
    assert advice["alone"]["best"] in (None, PROFILE, SLOWER)
    assert [result["visits"] for result in data["results"]] == [2, 2], "restarted in turns"
    wait_until(lambda: serving.record(PROFILE).get("state") == "ready", 300, "ready again")
    assert serving.record(PROFILE)["run_id"] != before
    assert serving.record(SLOWER)["state"] == "stopped"
    assert settings_in_use(serving, PROFILE) == "8"


def test_a_comparison_that_is_killed_is_put_back_at_the_next_start(running: Rig) -> None:
    words = ("bench", "--compare", SLOWER, PROFILE, "--users", "2", "--yes")
    measuring = subprocess.Popen(
        [sys.executable, "-m", "twinrig", "--target", "local", *words],
        env=running.environ,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(
            lambda: running.record(SLOWER).get("state") == "ready", 300, "the other settings"
        )
        time.sleep(2)  # requests are under way
    finally:
        measuring.kill()
        measuring.wait(10)
    assert settings_in_use(running, SLOWER) == "1", "it outlives whoever was killed"
    done = running.twinrig("up", "--profile", PROFILE, "--seconds", "0", timeout_s=600)
    assert done.returncode == 0, done.stdout + done.stderr
    told = " ".join(done.stdout.split())
    assert "A measurement was cut off. The server of measured, which ran before it" in told
    wait_until(lambda: running.record(PROFILE).get("state") == "ready", 300, "ready again")
    assert running.record(SLOWER)["state"] == "stopped"
    assert settings_in_use(running, PROFILE) == "8"
    again = running.twinrig("up", "--seconds", "0")
    assert "cut off" not in again.stdout


@pytest.fixture
def running(serving: Rig) -> Rig:
    if serving.record(PROFILE).get("state") != "ready":
        assert serving.twinrig("start", PROFILE, timeout_s=600).returncode == 0
    return serving


@asynccontextmanager
async def rounds_of(rig: Rig) -> AsyncIterator[tuple[Workbench, RoundRunner]]:
    workbench = open_workbench("local", find_paths(rig.environ))
    serving = await find_serving(workbench)
    server = BenchServer(workbench)
    runner = RoundRunner(
        workbench.http,
        workbench.clock,
        serving.endpoint,
        PromptMaker(str(time.time())),
        lambda: server.counters(serving.record),
        {},
    )
    try:
        yield workbench, runner
    finally:
        await workbench.http.close()


async def counted_by_others(port: int, streams: int, tokens: int) -> list[tuple[float, float]]:
    """The server's counter as somebody else reads it, from the first token to the last."""
    before = counter(port, GENERATED)
    rows = [(time.monotonic(), before)]
    deadline = time.monotonic() + 120
    while rows[-1][1] < before + streams * tokens and time.monotonic() < deadline:
        asked = time.monotonic()
        value = await asyncio.to_thread(counter, port, GENERATED)
        rows.append(((asked + time.monotonic()) / 2, value))
        await asyncio.sleep(0.1)
    return [row for row in rows if row[1] > before]


def test_several_at_once_agree_with_the_counter_over_the_same_time(running: Rig) -> None:
    port = int(running.record(PROFILE)["base_url"].rpartition(":")[2])
    streams, tokens = 4, 512

    async def measure(sampling: Sampling) -> tuple[Round, list[tuple[float, float]]]:
        async with rounds_of(running) as (_workbench, runner):
            await runner.warm_up(32)
            watching = asyncio.create_task(counted_by_others(port, streams, tokens))
            load = Load(streams, Prompt.SHORT, sampling)
            outcome = await runner.run(load, tokens)
            return outcome.round, await watching

    for sampling in Sampling:
        ours, rows = asyncio.run(measure(sampling))
        (began_s, first), (ended_s, last) = rows[0], rows[-2]
        server = (last - first) / (ended_s - began_s)
        assert ours.generation_tps is not None
        off = ours.generation_tps / server - 1
        print(f"\n{sampling}: {ours.generation_tps:.1f} T/s here, {server:.1f} by it: {off:+.1%}")
        assert ours.generation_tokens == ours.server_generation_tokens == streams * tokens
        assert abs(off) < 0.05  # what others read is a tenth of a second old at both ends


def test_a_chat_with_the_real_server(running: Rig) -> None:
    done = running.twinrig("chat", "こんにちは", "--max-tokens", "24", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    data = json.loads(done.stdout)
    figures = data["figures"]
    assert figures["counted"] and figures["generation_tokens"] <= 24
    assert figures["first_token_s"] > 0 and figures["prompt_tokens"] > 0
    too_long = running.twinrig("chat", "word " * 6000, "--json")
    assert too_long.returncode == 1
    assert "does not fit" in json.loads(too_long.stdout)["error"]["text"]
    assert running.twinrig("stop", PROFILE).returncode == 0

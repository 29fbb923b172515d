"""Whole benchmarks against a server on a real socket whose speed each profile decides."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from fixtures.bench_rig import BenchRig
from fixtures.reply_server import fault, reply_server
from twinrig.domain.benchmark import Load, Prompt, Sampling
from twinrig.domain.errors import ConflictError, UsageError
from twinrig.services.bench_rounds import after_first
from twinrig.services.benchmark import Benchmark, BenchmarkPlan, Progress, plan_for, reply_length
from twinrig.services.completions import ReplyError
from twinrig.services.recommendation import Use, recommend

ONE, FOUR = Load(1), Load(4)
QUICK = BenchmarkPlan((ONE, FOUR), rounds=2, visits=1, reply_tokens=40)
PAIR = replace(QUICK, visits=2)


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[BenchRig]:
    with reply_server() as server:
        made = BenchRig(server, tmp_path)
        yield made
        await made.http.close()


async def test_speed_and_counts_of_one_profile(rig: BenchRig) -> None:
    rig.make_virtual()
    profile = rig.add("one", 200.0)
    (result,) = await Benchmark(rig.bench).run((profile,), QUICK)
    alone, four = result.at(ONE), result.at(FOUR)
    assert alone is not None and four is not None
    speed, server = alone.figures["generation_tps"], alone.figures["server_generation_tps"]
    assert speed.median == pytest.approx(200.0, rel=0.03)
    assert server.median == pytest.approx(speed.median, rel=0.001)
    assert alone.figures["first_token_s"].median == pytest.approx(0.2)
    assert (speed.count, alone.requests, alone.failures, alone.loops) == (2, 2, 0, 0)
    assert four.figures["stream_tps"].median == pytest.approx(200.0, rel=0.03)
    assert four.figures["generation_tps"].median == pytest.approx(800.0, rel=0.05)
    assert 0 < four.figures["stagger"].median < 0.06
    assert four.requests == 8
    assert result.settings == {"settings.context_length": 4096}
    assert (result.profile_id, result.engine_id, result.visits) == ("one", "fake", 1)


async def test_the_first_two_requests_after_a_start_count_for_nothing(rig: BenchRig) -> None:
    profile = rig.add("one", 400.0)
    (result,) = await Benchmark(rig.bench).run((profile,), QUICK)
    assert rig.counted["requests"] == 2 + 2 * (1 + 4)
    assert sum(found.requests for found in result.loads) == 10


async def test_every_prompt_is_new_and_of_the_wanted_length(rig: BenchRig) -> None:
    profile = rig.add("one", 2000.0)
    loads = (Load(2, Prompt.SHORT, Sampling.GREEDY), Load(2, Prompt.LONG))
    plan = BenchmarkPlan(loads, rounds=2, reply_tokens=8)
    (result,) = await Benchmark(rig.bench).run((profile,), plan)
    prompts = [body["messages"][0]["content"] for body in rig.server.asked]
    assert len({prompt[:12] for prompt in prompts}) == len(prompts) == 10
    greedy, sampled = rig.server.asked[2:6], rig.server.asked[6:]
    assert {body["temperature"] for body in greedy} == {0.0}
    assert {(b["temperature"], b["top_k"], b["ignore_eos"]) for b in sampled} == {(1.0, 20, True)}
    short, long = result.loads
    assert 50 < short.prompt_tokens < 75
    assert 1800 < long.prompt_tokens < 2200
    assert "prompt_tps" in long.figures and "prompt_tps" not in short.figures


async def test_a_planted_slower_profile_is_found_slower(rig: BenchRig) -> None:
    rig.make_virtual()
    quick, slow = rig.add("quick", 60.0), rig.add("slow", 52.0, share=0.5)
    results = await Benchmark(rig.bench).run((quick, slow), PAIR)
    for use in Use:
        advice = recommend(results, use)
        assert advice is not None and advice.best is not None
        assert advice.best.profile_id == "quick"
    assert rig.controller.calls == [
        *("start quick", "stop quick", "start slow", "stop slow"),
        *("start quick", "stop quick", "start slow", "stop slow"),
    ]


async def test_the_same_profile_twice_is_not_told_apart(rig: BenchRig) -> None:
    rig.make_virtual()
    one, same = rig.add("one", 400.0), rig.add("same", 400.0, share=0.5)
    results = await Benchmark(rig.bench).run((one, same), replace(PAIR, rounds=3))
    speeds = [result.figure_at(1) for result in results]
    assert speeds[0] is not None and speeds[1] is not None
    assert not speeds[0].differs_from(speeds[1])


async def test_what_ran_before_runs_again(rig: BenchRig) -> None:
    one, other = rig.add("one", 900.0), rig.add("other", 900.0)
    rig.controller.running = "other"
    rig.started_s += 60
    with pytest.raises(ConflictError, match="is stopped for it"):
        await Benchmark(rig.bench).run((one,), QUICK)
    assert rig.controller.calls == []
    await Benchmark(rig.bench).run((one,), QUICK, agreed=True)
    assert rig.controller.calls == ["stop other", "start one", "stop one", "start other"]
    assert other.id == rig.controller.running


async def test_a_running_idle_server_is_used_as_it_is(rig: BenchRig) -> None:
    profile = rig.add("one", 900.0)
    rig.controller.running = "one"
    rig.started_s += 60
    touch = await Benchmark(rig.bench).touch((profile,), QUICK)
    assert not touch.asks and touch.texts == ()
    await Benchmark(rig.bench).run((profile,), QUICK)
    assert rig.controller.calls == []


async def test_a_server_in_use_is_not_touched_without_asking(rig: BenchRig) -> None:
    profile = rig.add("one", 900.0)
    rig.controller.running = "one"
    rig.started_s += 60
    rig.running_requests = 2
    with pytest.raises(ConflictError, match="answering 2 requests"):
        await Benchmark(rig.bench).run((profile,), QUICK)
    assert rig.server.asked == []


async def test_a_profile_edited_since_its_start_needs_a_restart(rig: BenchRig) -> None:
    profile = rig.add("one", 900.0)
    rig.controller.running = "one"
    rig.started_s -= 60
    assert (await Benchmark(rig.bench).touch((profile,), QUICK)).asks
    await Benchmark(rig.bench).run((profile,), QUICK, agreed=True)
    assert rig.controller.calls == ["stop one", "start one"]


async def test_cancelling_puts_the_server_back(rig: BenchRig) -> None:
    one = rig.add("one", 50.0)
    rig.add("other", 50.0)
    rig.controller.running = "other"
    seen = asyncio.Event()

    def watch(progress: Progress) -> None:
        if progress.load is not None:
            seen.set()

    task = asyncio.create_task(
        Benchmark(rig.bench).run((one,), QUICK, agreed=True, on_progress=watch)
    )
    await asyncio.wait_for(seen.wait(), 20)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert rig.controller.running == "other"


async def test_a_server_that_does_not_start_tells_why_and_is_put_back(rig: BenchRig) -> None:
    one = rig.add("one", 900.0)
    rig.add("other", 900.0)
    rig.controller.running = "other"
    rig.controller.broken.add("one")
    with pytest.raises(ConflictError, match="Out of memory"):
        await Benchmark(rig.bench).run((one,), QUICK, agreed=True)
    assert rig.controller.running == "other"


async def test_requests_of_others_make_a_round_count_for_nothing(rig: BenchRig) -> None:
    profile = rig.add("one", 900.0)
    rig.foreign_tokens = 500
    (result,) = await Benchmark(rig.bench).run((profile,), QUICK)
    assert [found.disturbed for found in result.loads] == [2, 2]
    assert all(not found.figures for found in result.loads)
    assert recommend((result,), Use.ALONE) is not None


async def test_loops_are_counted(rig: BenchRig) -> None:
    profile = rig.add("one", 2000.0)
    rig.loops.add("one")
    (result,) = await Benchmark(rig.bench).run((profile,), QUICK)
    assert [found.loops for found in result.loads] == [2, 8]


async def test_a_refused_key_ends_it_at_once(rig: BenchRig) -> None:
    profile = rig.add("one", 900.0)
    rig.server.script = fault(401, b"{}")
    with pytest.raises(ReplyError, match="refuses the key"):
        await Benchmark(rig.bench).run((profile,), QUICK)
    assert len(rig.server.asked) == 1
    assert rig.controller.running == ""


async def test_faults_under_load_are_counted_and_told(rig: BenchRig) -> None:
    profile = rig.add("one", 900.0)
    good, count = rig.script, 0

    def sometimes(handler, body) -> None:
        nonlocal count
        count += 1
        if count > 4 and count % 3 == 0:
            fault(500, b'{"error":"KV cache is full"}')(handler, body)
        else:
            good(handler, body)

    rig.server.script = sometimes
    (result,) = await Benchmark(rig.bench).run((profile,), QUICK)
    four = result.at(FOUR)
    assert four is not None and four.failures > 0
    assert "KV cache is full" in str(four.fault)


async def test_progress_only_grows_and_ends_at_one(rig: BenchRig) -> None:
    profile = rig.add("one", 2000.0)
    shares: list[float] = []
    await Benchmark(rig.bench).run(
        (profile,), QUICK, on_progress=lambda progress: shares.append(progress.share)
    )
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("tps", "context", "tokens"),
    [
        (25.0, 32768, 128),
        (60.0, 32768, 180),
        (900.0, None, 512),
        (900.0, 1024, 256),
        (None, 64, 16),
    ],
)
def test_replies_are_long_enough_to_measure_a_speed(tps, context, tokens: int) -> None:
    assert reply_length(tps, context) == tokens


def test_tokens_of_a_first_piece_do_not_count_for_the_speed() -> None:
    assert after_first([0] * 51, 102) == pytest.approx(100)
    assert after_first([4, 5, 6, 7, 8, 9, 10], 10) == 6
    assert after_first([], 0) == after_first([1], 1) == 0


@pytest.mark.parametrize(
    ("users", "counts"), [(1, {1}), (2, {1, 2}), (3, {1, 2, 3}), (8, {1, 2, 4, 8})]
)
def test_plans(users: int, counts: set[int]) -> None:
    plan = plan_for(users)
    assert {load.streams for load in plan.loads} == counts
    assert {load.prompt for load in plan.loads} == set(Prompt)
    assert {load.sampling for load in plan.loads} == set(Sampling)
    assert len(set(plan.loads)) == len(plan.loads)
    assert len(plan_for(users, thorough=True).loads) == 4 * len(counts)
    assert plan_for(users, profiles=2).visits == 2


@pytest.mark.parametrize("users", [0, -1, 65])
def test_impossible_numbers_of_users(users: int) -> None:
    with pytest.raises(UsageError):
        plan_for(users)

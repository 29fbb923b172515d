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
from twinrig.services.bench_stream import StreamTally
from twinrig.services.benchmark import Benchmark, BenchmarkPlan, Progress, plan_for, reply_length
from twinrig.services.completions import Piece, ReplyError, Usage
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
        (900.0, None, 2048),
        (300.0, 32768, 900),
        (900.0, 1024, 256),
        (None, 64, 16),
    ],
)
def test_replies_are_long_enough_to_measure_a_speed(tps, context, tokens: int) -> None:
    assert reply_length(tps, context) == tokens


def tally_of(pieces: list[tuple[float, str, int | None]]) -> StreamTally:
    """``pieces``: when it came, its text, what the server has counted up to it."""
    tally = StreamTally(0.0)
    for at_s, text, count in pieces:
        tally.note(Piece(text, usage=None if count is None else Usage(60, count)), at_s)
    return tally


def test_a_token_counts_when_it_is_counted_and_not_when_its_text_comes() -> None:
    """Text of half a character is held back; the last piece only tells the sum."""
    counted = [(0.1, "", 0), (0.5, "", 1), (1.0, "", 2), (1.5, "é", 3), (2.5, "", 5), (9.0, "", 5)]
    stream = tally_of(counted).stream()
    assert (stream.first_s, stream.last_s, stream.tokens) == (0.5, 2.5, 5)
    assert stream.after_first(0.0) == 4
    assert stream.tps(0.0) == pytest.approx(2.0)
    assert stream.text == "é"


def test_without_counts_in_between_pieces_hold_equally_many() -> None:
    pieces = [(0.0, "", None), *((1.0 + n, "two", None) for n in range(5)), (9.0, "", 10)]
    stream = tally_of(pieces).stream()
    assert (stream.first_s, stream.last_s, stream.tokens) == (1.0, 5.0, 10)
    assert stream.after_first(0.0) == 8
    assert stream.tps(0.0) == pytest.approx(2.0)


def test_a_first_piece_that_came_late_holds_what_was_made_meanwhile() -> None:
    """The first token was made at 1 s, and came with 29 others at 2 s."""
    stream = tally_of([(0.0, "", 0), (2.0, "much", 30), (3.0, "more", 61)]).stream()
    assert stream.tps(0.0) == pytest.approx(31.0)
    assert stream.tps(1.0) == pytest.approx(30.0)
    assert tally_of([]).stream().tps(0.0) is None
    assert tally_of([(0.0, "all", 5)]).stream().tps(0.0) is None


@pytest.mark.parametrize("text_every", [1, 7])
async def test_replies_that_come_in_a_burst_are_as_fast_as_they_were_made(
    rig: BenchRig, text_every: int
) -> None:
    rig.make_virtual()
    rig.bursts, rig.text_every = True, text_every
    profile = rig.add("one", 200.0)
    (result,) = await Benchmark(rig.bench).run((profile,), QUICK)
    alone, four = result.at(ONE), result.at(FOUR)
    assert alone is not None and four is not None
    server = alone.figures["server_generation_tps"].median
    assert alone.figures["generation_tps"].median == pytest.approx(server, rel=0.001)
    assert four.figures["generation_tps"].median == pytest.approx(800.0, rel=0.05)
    assert alone.figures["first_token_s"].median > 0.38, "so long the user waits"


async def test_text_that_is_held_back_changes_no_speed(rig: BenchRig) -> None:
    rig.make_virtual()
    rig.text_every = 13
    profile = rig.add("one", 200.0)
    (result,) = await Benchmark(rig.bench).run((profile,), QUICK)
    (alone, _four) = result.loads
    server = alone.figures["server_generation_tps"].median
    assert alone.figures["generation_tps"].median == pytest.approx(server, rel=0.001)
    assert alone.figures["first_token_s"].median == pytest.approx(0.2)


async def test_tokens_are_those_that_the_server_counted(rig: BenchRig) -> None:
    """Also when it counts a moment late, and while the supervisor asks its own question."""
    rig.make_virtual()
    profile = rig.add("one", 200.0)
    rig.late_counts = 2

    def probe(progress: Progress) -> None:
        rig.probe_tokens += 3

    (result,) = await Benchmark(rig.bench).run((profile,), QUICK, on_progress=probe)
    written = [(f.generation_tokens, f.server_generation_tokens) for f in result.loads]
    assert written == [(80, 80), (320, 320)]


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

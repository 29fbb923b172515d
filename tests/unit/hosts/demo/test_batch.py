"""Continuous batching: order, limits, aborts and counters."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

import pytest

from twinrig.hosts.demo.batch import PREFILL_CHUNK, Batch, Sequence
from twinrig.hosts.demo.physics import Split, step_s

FAST = 500.0


@contextlib.asynccontextmanager
async def running(batch: Batch) -> AsyncIterator[Batch]:
    task = asyncio.create_task(batch.run())
    try:
        yield batch
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def sequence(count: int = 5, prompt_tokens: int = 3) -> Sequence:
    return Sequence(prompt_tokens, [f"t{n} " for n in range(count)])


async def collect(batch: Batch, one: Sequence) -> list[str]:
    async with contextlib.aclosing(batch.tokens(one)) as tokens:
        return [token async for token in tokens]


async def test_a_reply_comes_whole_and_is_counted() -> None:
    async with running(Batch(Split.TENSOR, 8, 10_000, FAST)) as batch:
        one = sequence(20, 700)
        assert await collect(batch, one) == one.tokens
        assert batch.counters.generation_tokens == 20
        assert batch.counters.prompt_tokens == 700
        assert (batch.counters.finished, batch.counters.aborted) == (1, 0)
        assert (batch.running, batch.waiting) == (0, 0)
        assert batch.kv_usage == 0


async def test_replies_run_together() -> None:
    async with running(Batch(Split.TENSOR, 8, 10_000, FAST)) as batch:
        many = [sequence(30) for _ in range(8)]
        replies = await asyncio.gather(*(collect(batch, one) for one in many))
        assert [len(reply) for reply in replies] == [30] * 8
        assert batch.counters.generation_tokens == 240


async def test_more_than_max_num_seqs_wait_in_order() -> None:
    async with running(Batch(Split.TENSOR, 2, 10_000, FAST / 20)) as batch:
        ended: list[int] = []

        async def ask(number: int) -> None:
            await collect(batch, sequence(10))
            ended.append(number)

        tasks = [asyncio.create_task(ask(number)) for number in range(4)]
        seen = set()
        while not all(task.done() for task in tasks):
            seen.add((batch.running, batch.waiting))
            await asyncio.sleep(0.001)
        assert (2, 2) in seen
        assert max(running for running, _ in seen) == 2
        assert set(ended[:2]) == {0, 1}


async def test_the_kv_cache_limits_admission_but_never_blocks_a_lone_reply() -> None:
    async with running(Batch(Split.TENSOR, 8, 40, FAST / 20)) as batch:
        first, second = sequence(25, 5), sequence(25, 5)
        tasks = [asyncio.create_task(collect(batch, one)) for one in (first, second)]
        while not first.produced:
            await asyncio.sleep(0.001)
        assert (batch.running, batch.waiting) == (1, 1)
        assert 0 < batch.kv_usage <= 1
        assert [len(reply) for reply in await asyncio.gather(*tasks)] == [25, 25]
        assert len(await collect(batch, sequence(90, 90))) == 90


async def test_long_prompts_are_read_in_chunks_before_the_reply_begins() -> None:
    async with running(Batch(Split.TENSOR, 8, 100_000, FAST)) as batch:
        one = sequence(3, 3 * PREFILL_CHUNK + 1)
        task = asyncio.create_task(collect(batch, one))
        reads = set()
        while not task.done():
            reads.add(one.read)
            assert not (one.reading and one.produced)
            await asyncio.sleep(0)
        assert {PREFILL_CHUNK, 2 * PREFILL_CHUNK, 3 * PREFILL_CHUNK} <= reads


async def test_closing_a_stream_early_aborts_the_reply() -> None:
    async with running(Batch(Split.TENSOR, 1, 10_000, FAST / 20)) as batch:
        one = sequence(10_000, 1)
        tokens = batch.tokens(one)
        await anext(tokens)
        await tokens.aclose()
        assert one.aborted
        assert batch.running == 0
        assert batch.counters.aborted == 1
        assert len(await collect(batch, sequence(3))) == 3


async def test_a_waiting_reply_can_be_aborted() -> None:
    async with running(Batch(Split.TENSOR, 1, 10_000, FAST / 20)) as batch:
        busy = asyncio.create_task(collect(batch, sequence(100)))
        waiting = sequence(5)
        task = asyncio.create_task(collect(batch, waiting))
        while not batch.waiting:
            await asyncio.sleep(0.001)
        batch.abort(waiting)
        assert await task == []
        assert batch.waiting == 0
        assert len(await busy) == 100


async def test_abort_all_ends_every_reply_and_can_mark_them_failed() -> None:
    async with running(Batch(Split.TENSOR, 1, 10_000, FAST / 20)) as batch:
        many = [sequence(1000) for _ in range(3)]
        tasks = [asyncio.create_task(collect(batch, one)) for one in many]
        while not many[0].produced:
            await asyncio.sleep(0.001)
        batch.abort_all(failed=True)
        await asyncio.wait_for(asyncio.gather(*tasks), 5)
        assert all(one.failed and one.aborted for one in many)
        assert batch.counters.aborted == 3
        batch.abort(many[0])  # again: no second count
        assert batch.counters.aborted == 3


async def test_a_stalled_batch_makes_no_token_and_no_error() -> None:
    async with running(Batch(Split.TENSOR, 8, 10_000, FAST / 20)) as batch:
        one = sequence(10_000)
        task = asyncio.create_task(collect(batch, one))
        while not one.produced:
            await asyncio.sleep(0.001)
        batch.stalled = True
        await asyncio.sleep(0.02)  # a step that was under way may not finish either
        before = batch.counters.generation_tokens
        await asyncio.sleep(0.1)
        assert batch.counters.generation_tokens == before
        assert not task.done()
        assert batch.running == 1
        batch.abort_all()
        await asyncio.wait_for(task, 5)


async def test_the_speed_is_never_above_the_physics() -> None:
    scale = 5.0
    async with running(Batch(Split.TENSOR, 8, 10_000, scale)) as batch:
        started = time.monotonic()
        await collect(batch, sequence(40, 1))
        elapsed = time.monotonic() - started
    assert elapsed >= 0.98 * 40 * step_s(Split.TENSOR, 1, 0) / scale


async def test_work_is_booked_to_the_cards_and_taken_once() -> None:
    async with running(Batch(Split.TENSOR, 8, 10_000, FAST)) as batch:
        await collect(batch, sequence(50, 1))
        first, second = batch.take_busy()
        expected = 50 * step_s(Split.TENSOR, 1, 0) / FAST
        assert first == pytest.approx(67 * expected, rel=0.1)
        assert second == pytest.approx(70 * expected, rel=0.1)
        assert batch.take_busy() == (0.0, 0.0)


async def test_an_idle_batch_costs_nothing() -> None:
    batch = Batch(Split.TENSOR, 8, 10_000, FAST)
    async with running(batch):
        await asyncio.sleep(0.02)
        before = time.process_time()
        await asyncio.sleep(0.1)
        assert time.process_time() - before < 0.05

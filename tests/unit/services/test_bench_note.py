"""A benchmark that was cut off: what it leaves behind, and how the next start puts it back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from fixtures.bench_rig import BenchRig
from fixtures.reply_server import reply_server
from twinrig.domain.benchmark import Load
from twinrig.domain.errors import ConflictError
from twinrig.hosts.locks import FileLock
from twinrig.services.bench_note import LOCK_NAME, BenchNote, put_back_after_cut
from twinrig.services.benchmark import Benchmark, BenchmarkPlan

PAIR = BenchmarkPlan((Load(1),), rounds=1, visits=2, reply_tokens=8)


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[BenchRig]:
    with reply_server() as server:
        made = BenchRig(server, tmp_path)
        made.make_virtual()
        yield made
        await made.http.close()


class Killed(BaseException):
    """Nothing runs after it, as after a kill: what puts back is taken away first."""


def kill_when_it_starts(rig: BenchRig, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    start = rig.controller.start

    async def dies(profile_id: str, requested_by: str) -> None:
        await start(profile_id, requested_by)
        if profile_id == name:
            monkeypatch.setattr(
                "twinrig.services.bench_server.BenchServer.put_back", lambda _self: asyncio.sleep(0)
            )
            raise Killed

    monkeypatch.setattr(rig.controller, "start", dies)


async def cut_off(rig: BenchRig, monkeypatch: pytest.MonkeyPatch, *, before: str) -> None:
    """Profiles "one" and "other" are compared, and it is killed when "other" has been started."""
    profiles = tuple(rig.add(name, 400.0) for name in ("one", "other"))
    if before:
        await rig.controller.start(before, "panel")
    with monkeypatch.context() as patch:
        kill_when_it_starts(rig, "other", patch)
        with pytest.raises(Killed):
            await Benchmark(rig.bench).run(profiles, PAIR, agreed=True)
    assert rig.controller.running == "other"
    rig.controller.calls.clear()


async def test_what_ran_before_is_started_again_at_the_next_start(
    rig: BenchRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await cut_off(rig, monkeypatch, before="one")
    told = await put_back_after_cut(rig.bench)
    assert "The server of one, which ran before it, is started again" in str(told)
    assert rig.controller.calls == ["stop other", "start one"]
    assert await put_back_after_cut(rig.bench) is None, "once is enough"
    assert rig.controller.calls == ["stop other", "start one"]


async def test_where_nothing_ran_before_nothing_runs_after(
    rig: BenchRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await cut_off(rig, monkeypatch, before="")
    assert "The server of other, which it had started, is stopped" in str(
        await put_back_after_cut(rig.bench)
    )
    assert rig.controller.running == ""


async def test_whoever_has_taken_over_since_is_left_alone(
    rig: BenchRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await cut_off(rig, monkeypatch, before="one")
    rig.controller.running = ""
    await rig.controller.start("other", "panel")
    rig.controller.calls.clear()
    assert await put_back_after_cut(rig.bench) is None
    assert rig.controller.calls == []
    assert BenchNote.of(rig.bench).before() is None


async def test_a_server_that_cannot_be_put_back_is_told_once(
    rig: BenchRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await cut_off(rig, monkeypatch, before="one")

    async def refuses(profile_id: str, requested_by: str) -> None:
        raise ConflictError(rig_message(), None)

    monkeypatch.setattr(rig.controller, "start", refuses)
    assert "could not be put back: No." in str(await put_back_after_cut(rig.bench))
    assert await put_back_after_cut(rig.bench) is None


def rig_message() -> Any:
    from twinrig.messages import Message

    return Message("No.")


async def test_a_benchmark_at_work_is_not_disturbed_and_not_joined(
    rig: BenchRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await cut_off(rig, monkeypatch, before="one")
    at_work = FileLock(rig.layout.root)
    assert at_work.acquire(LOCK_NAME)
    assert await put_back_after_cut(rig.bench) is None
    with pytest.raises(ConflictError, match="Another measurement is at work"):
        await Benchmark(rig.bench).run((rig.profiles.load("one"),), PAIR, agreed=True)
    assert rig.controller.calls == []
    at_work.release()
    assert await put_back_after_cut(rig.bench) is not None


async def test_the_next_measurement_puts_back_first(
    rig: BenchRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await cut_off(rig, monkeypatch, before="one")
    await Benchmark(rig.bench).run((rig.profiles.load("other"),), PAIR, agreed=True)
    assert rig.controller.calls[:2] == ["stop other", "start one"]
    assert rig.controller.running == "one"


async def test_a_run_that_ends_leaves_no_note_and_a_free_lock(rig: BenchRig) -> None:
    profile = rig.add("one", 400.0)
    await Benchmark(rig.bench).run((profile,), PAIR)
    assert BenchNote.of(rig.bench).before() is None
    assert FileLock(rig.layout.root).acquire(LOCK_NAME)
    assert rig.controller.running == ""


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema_version": 2, "before": "x"}'])
async def test_a_note_that_nobody_can_read_changes_nothing(rig: BenchRig, text: str) -> None:
    note = BenchNote.of(rig.bench)
    note.write("one")
    note.path.write_text(text)
    assert await put_back_after_cut(rig.bench) is None
    assert rig.controller.calls == []

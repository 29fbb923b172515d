"""Back-off, phases, lines, previous run, environment comparison, port."""

from __future__ import annotations

import asyncio
import math
import os
import random
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.supervision import make_spec
from twinrig.domain.launch import Endpoint
from twinrig.domain.server import Phase, ServerState
from twinrig.domain.supervision import ServerRecord
from twinrig.supervisor.backoff import Backoff
from twinrig.supervisor.lines import MAX_LINE_BYTES, LineMemory, LineSplitter
from twinrig.supervisor.phases import PhaseTracker, load_timings, save_timings
from twinrig.supervisor.port import _is_bound, is_refused, port_in_use
from twinrig.supervisor.previous_run import PreviousRun, load_previous
from twinrig.supervisor.record_store import RecordStore
from twinrig.supervisor.run import mismatch
from twinrig.supervisor.timing import Timing


def test_backoff_waits_and_limit():
    state = Backoff(Timing())
    waits = []
    for _ in range(4):
        state = state.after(None)
        assert not state.exhausted
        waits.append(state.delay_s)
    assert waits == [5.0, 15.0, 60.0, 300.0]
    assert state.after(59.9).exhausted
    assert state.after(60.0).quick_failures == 0
    assert state.after(60.0).delay_s == 5.0


def test_phases_only_go_forward():
    tracker = PhaseTracker({Phase.WEIGHTS: 12.0})
    assert tracker.begin(Phase.LAUNCH, 0.0)
    assert tracker.begin(Phase.WEIGHTS, 3.0, 0.1)
    assert not tracker.begin(Phase.CONFIG, 4.0)
    assert not tracker.begin(Phase.WEIGHTS, 5.0, 0.1)
    assert tracker.begin(Phase.WEIGHTS, 5.0, 0.5)
    assert not tracker.begin(Phase.WEIGHTS, 5.5)
    assert tracker.begin(Phase.SERVE, 15.0)
    weights = tracker.phases[1]
    assert (weights.started_at_s, weights.expected_s, weights.progress) == (3.0, 12.0, 0.5)
    assert tracker.durations_s() == {Phase.LAUNCH: 3.0, Phase.WEIGHTS: 12.0}


@pytest.mark.parametrize(("given_", "kept"), [(7.0, 1.0), (-1.0, 0.0), (math.nan, None)])
def test_progress_stays_between_0_and_1(given_, kept):
    tracker = PhaseTracker({})
    tracker.begin(Phase.WEIGHTS, 0.0, given_)
    assert tracker.phases[0].progress == kept


def test_a_clock_that_was_set_back_gives_no_negative_durations():
    tracker = PhaseTracker({})
    tracker.begin(Phase.LAUNCH, 100.0)
    tracker.begin(Phase.SERVE, 40.0)
    assert tracker.durations_s() == {Phase.LAUNCH: 0.0}


def test_timings_survive(tmp_path):
    path = tmp_path / "x" / "timings.json"
    save_timings(path, {Phase.WEIGHTS: 12.345, Phase.COMPILE: 0.0})
    assert load_timings(path) == {Phase.WEIGHTS: 12.35, Phase.COMPILE: 0.0}


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\xff\x00",
        b"[]",
        b'{"phases": 3}',
        b'{"phases": {"nonsense": 1}}',
        b'{"phases": {"weights": "x"}}',
        b'{"phases": {"weights": -4}}',
        b'{"phases": {"weights": Infinity}}',
        b"x" * 100_000,
    ],
)
def test_damaged_timings_are_no_timings(tmp_path, text):
    path = tmp_path / "timings.json"
    path.write_bytes(text)
    assert load_timings(path) == {}


def test_lines_end_at_newline_or_carriage_return():
    splitter = LineSplitter()
    assert splitter.feed(b"one\ntw") == ["one"]
    assert splitter.feed(b"o\r10%\r20%") == ["two", "10%"]
    assert splitter.finish() == ["20%"]
    assert splitter.finish() == []


def test_a_character_cut_by_a_chunk_is_whole():
    splitter = LineSplitter()
    data = "日本語\n".encode()
    assert splitter.feed(data[:4]) == []
    assert splitter.feed(data[4:]) == ["日本語"]


@given(st.binary(max_size=400), st.integers(0, 400))
def test_any_bytes_cut_anywhere_give_the_same_lines(data, cut):
    whole, parts = LineSplitter(), LineSplitter()
    expected = [*whole.feed(data), *whole.finish()]
    assert [*parts.feed(data[:cut]), *parts.feed(data[cut:]), *parts.finish()] == expected


def test_an_endless_line_is_cut_once_and_memory_stays_flat():
    splitter = LineSplitter()
    lines = []
    for _ in range(100):
        lines += splitter.feed(b"x" * 10_000)
        assert len(splitter._rest) <= MAX_LINE_BYTES
    lines += splitter.feed(b"tail\nnext\n")
    assert [len(line) for line in lines] == [MAX_LINE_BYTES, 4]
    assert lines[1] == "next"


def test_memory_keeps_both_ends_and_knows_line_numbers():
    memory = LineMemory(head=3, tail=2)
    for number in range(1, 11):
        memory.add(f"line {number}")
    lines = memory.lines()
    assert lines == ["line 1", "line 2", "line 3", "line 9", "line 10"]
    assert [memory.line_no(i + 1) for i in range(len(lines))] == [1, 2, 3, 9, 10]


def test_no_record_yet(tmp_path):
    assert load_previous(tmp_path / "state.json", 5.0) == PreviousRun()


def test_a_good_record_stays_where_it_is(tmp_path):
    path = tmp_path / "state.json"
    record = ServerRecord(
        "p", "local", "vllm", "abc", ServerState.READY, 1.0, 2, shared_memory=("/dev/shm/x",)
    )
    path.write_text(record.to_json())
    assert load_previous(path, 5.0) == PreviousRun("abc", ("/dev/shm/x",))
    assert path.exists()


def test_a_huge_record_is_moved_aside_whole(tmp_path):
    path = tmp_path / "state.json"
    path.write_bytes(b'{"run_id": "big", "x": "' + b"y" * 5_000_000 + b'"}')
    previous = load_previous(path, 7.9)
    assert previous.run_id == "big"
    assert previous.moved_to == tmp_path / "state.json.damaged-7"
    assert previous.moved_to.stat().st_size > 5_000_000
    assert not path.exists()


def test_nothing_kept_aside_earlier_is_overwritten(tmp_path):
    path = tmp_path / "state.json"
    for text in ("first", "second", "third"):
        path.write_text(text)
        load_previous(path, 7.0)
    kept = sorted(p.read_text() for p in tmp_path.glob("state.json.damaged-7*"))
    assert kept == ["first", "second", "third"]


def test_a_folder_in_place_of_the_record(tmp_path):
    path = tmp_path / "state.json"
    path.mkdir()
    assert load_previous(path, 7.0).moved_to is not None
    assert not path.exists()


@given(st.binary(max_size=300))
def test_no_bytes_break_the_reading(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("s") / "state.json"
    path.write_bytes(data)
    assert load_previous(path, random.random() * 1e9).moved_to is not None


def test_environment_comparison():
    spec = make_spec(env={"A": "1", "B": "2"}, unset=("C", "A"))
    environ = {"TWINRIG_RUN_ID": "r", "A": "1", "B": "3", "C": "x"}
    assert mismatch(spec, environ) == ("B", "C")
    assert mismatch(spec, {"TWINRIG_RUN_ID": "r"}) == ("A", "B")
    assert mismatch(spec, {"A": "0"}) == (), "overwritten by retitling: nothing is known"


def test_an_illegal_transition_is_a_bug(tmp_path):
    class Clock:
        def now(self):
            return 1.0

        def monotonic(self):
            return 1.0

    class Log:
        def say(self, _text):
            return None

    store = RecordStore(tmp_path / "state.json", "p", Clock(), Log(), 5.0)
    with pytest.raises(AssertionError, match="stopped -> ready"):
        store.enter(ServerState.READY)
    assert store.record.state is ServerState.STOPPED


async def test_a_refusal_that_takes_two_seconds_is_one(monkeypatch):
    """As on Windows; taken for silence, a dead server would never be restarted there."""

    async def refused(*_address):
        await asyncio.sleep(2.2)
        raise ConnectionRefusedError

    monkeypatch.setattr(asyncio, "open_connection", refused)
    assert await is_refused(Endpoint("127.0.0.1", 1))


async def test_a_free_port_is_free_a_listening_or_bound_one_is_not():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        endpoint = Endpoint("127.0.0.1", server.getsockname()[1])
        assert await port_in_use(endpoint), "bound early, as vLLM does, but not listening"
        assert await is_refused(endpoint)
        server.listen()
        assert await port_in_use(endpoint)
        assert await port_in_use(Endpoint("0.0.0.0", endpoint.port))
        assert not await is_refused(endpoint)
    assert not await port_in_use(endpoint)


def test_an_address_that_is_not_ours_is_not_a_bound_port():
    assert not _is_bound(Endpoint("203.0.113.1", 18998))


def test_a_pipe_in_place_of_the_record_is_put_aside_and_never_waited_for(tmp_path):
    path = tmp_path / "state.json"
    os.mkfifo(path)
    previous = load_previous(path, 1.0)
    assert previous.run_id == ""
    assert previous.moved_to is not None and not path.exists()

"""The history file: bounded, merged, whole after a kill, and never lost when it is damaged."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from fixtures.modes import modes_bind
from twinrig.domain.errors import DamagedFileError, HostError, NewerSchemaError
from twinrig.services.history import CardPoint, Event, Minute
from twinrig.services.history_store import DAY_S, KEPT_DAYS, HistoryStore

START_S = 1_800_000_000.0


def minute(n: int, tokens: float = 600.0) -> Minute:
    cards = (CardPoint("a", 60.0, 9e9, 150.0, 61.0), CardPoint("b", None))
    return Minute(START_S + 60 * n, 60.0, cards, tokens, 20.0, 0.25)


@pytest.fixture
def store(tmp_path: Path) -> HistoryStore:
    return HistoryStore(tmp_path / "state" / "history.sqlite3")


def test_what_is_written_is_read_back(store: HistoryStore) -> None:
    event = Event(START_S + 5, "crash", "qwen")
    store.write([minute(0), minute(1)], [event])
    assert store.minutes(START_S) == (minute(0), minute(1))
    assert store.minutes(START_S + 60) == (minute(1),)
    assert store.minutes(START_S, START_S) == (minute(0),)
    assert store.events(START_S) == (event,)


def test_nothing_there_is_no_error_and_makes_no_file(store: HistoryStore) -> None:
    assert store.minutes(0) == () and store.events(0) == ()
    store.write([], [])
    assert not store.path.exists()


def test_parts_of_a_minute_are_merged_and_events_are_once(store: HistoryStore) -> None:
    event = Event(START_S, "start", "qwen")
    store.write([Minute(START_S, 20.0, (CardPoint("a", 90.0),), 200.0)], [event])
    store.write([Minute(START_S, 10.0, (CardPoint("a", 60.0),), 100.0)], [event])
    (whole,) = store.minutes(0)
    assert (whole.seconds, whole.generation_tokens) == (30.0, 300.0)
    assert whole.cards[0].load == pytest.approx(80.0)
    assert store.events(0) == (event,)


def test_old_minutes_and_events_leave(tmp_path: Path) -> None:
    store = HistoryStore(tmp_path / "h.sqlite3", kept_days=1)
    store.write([minute(0)], [Event(START_S, "start", "")])
    later = int(2 * DAY_S / 60)
    store.write([minute(later)], [])
    assert [m.start_s for m in store.minutes(0)] == [START_S + 60 * later]
    assert store.events(0) == ()
    with sqlite3.connect(store.path) as base:
        assert base.execute("SELECT count(*) FROM cards").fetchone() == (2,)


@pytest.mark.slow
def test_a_full_file_stays_small(tmp_path: Path) -> None:
    store = HistoryStore(tmp_path / "h.sqlite3")
    store.write([minute(n) for n in range(KEPT_DAYS * 1440)], [])
    assert store.path.stat().st_size < 16 * 1024 * 1024


@pytest.mark.parametrize("content", [b"", b"no database at all, and long enough" * 50])
def test_a_damaged_file_is_kept_aside_and_a_new_one_begun(
    store: HistoryStore, content: bytes
) -> None:
    store.path.parent.mkdir(parents=True)
    store.path.write_bytes(content)
    if not content:  # an empty file is an empty history
        store.write([minute(0)], [])
        assert store.minutes(0) == (minute(0),)
        return
    with pytest.raises(DamagedFileError):
        store.minutes(0)
    assert store.path.read_bytes() == content, "reading moves nothing"
    with pytest.raises(DamagedFileError, match="new one was begun"):
        store.write([minute(0)], [])
    aside = store.path.with_name("history.sqlite3.damaged-1")
    assert aside.read_bytes() == content
    assert store.minutes(0) == (minute(0),)


def test_damage_in_the_middle_is_found(store: HistoryStore) -> None:
    store.write([minute(n) for n in range(2000)], [])
    data = bytearray(store.path.read_bytes())
    for page in range(2, len(data) // 4096):
        data[page * 4096 : page * 4096 + 64] = b"\xff" * 64
    store.path.write_bytes(bytes(data))
    with pytest.raises(DamagedFileError):
        store.minutes(0)
    with pytest.raises(DamagedFileError):
        store.write([minute(0)], [])
    assert store.minutes(0) == (minute(0),)


def test_another_programs_database_is_damage_not_ours(store: HistoryStore) -> None:
    store.path.parent.mkdir(parents=True)
    with sqlite3.connect(store.path) as base:
        base.execute("PRAGMA user_version = 1")
    base.close()
    with pytest.raises(DamagedFileError):
        store.minutes(0)


def test_a_newer_file_is_left_alone(store: HistoryStore) -> None:
    store.write([minute(0)], [])
    with sqlite3.connect(store.path) as base:
        base.execute("PRAGMA user_version = 2")
    base.close()
    before = store.path.read_bytes()
    for use in (lambda: store.minutes(0), lambda: store.write([minute(1)], [])):
        with pytest.raises(NewerSchemaError):
            use()
    assert store.path.read_bytes() == before


def test_a_read_only_folder_is_told(store: HistoryStore) -> None:
    store.path.parent.mkdir(parents=True)
    store.path.parent.chmod(0o500)
    with modes_bind(), pytest.raises(HostError):
        store.write([minute(0)], [])


def test_a_folder_that_cannot_be_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(HostError, match="cannot be used"):
        HistoryStore(tmp_path / "file" / "h.sqlite3").write([minute(0)], [])
    (tmp_path / "h.sqlite3").mkdir()
    with pytest.raises(HostError):
        HistoryStore(tmp_path / "h.sqlite3").write([minute(0)], [])


def test_somebody_elses_lock_is_told_and_harms_nothing(store: HistoryStore, monkeypatch) -> None:
    monkeypatch.setattr("twinrig.services.history_store.BUSY_TIMEOUT_S", 0.05)
    store.write([minute(0)], [])
    holder = sqlite3.connect(store.path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    with pytest.raises(HostError):
        store.write([minute(1)], [])
    holder.execute("ROLLBACK")
    holder.close()
    store.write([minute(1)], [])
    assert len(store.minutes(0)) == 2


def test_a_kill_in_the_middle_of_a_write_leaves_whole_minutes(store: HistoryStore) -> None:
    code = """
import os, sys
from pathlib import Path
from twinrig.services import history_store
from twinrig.services.history import CardPoint, Minute
kept = history_store._store
def store(base, minute):
    kept(base, minute)
    if minute.seconds == 13.0:
        os.kill(os.getpid(), 9)
history_store._store = store
store = history_store.HistoryStore(Path(sys.argv[1]))
card = (CardPoint("a", 1.0),)
store.write([Minute(0.0, 60.0, card)], [])
store.write([Minute(60.0, 60.0, card), Minute(120.0, 13.0, card)], [])
"""
    done = subprocess.run([sys.executable, "-c", code, str(store.path)], timeout=30)
    assert done.returncode == -9
    assert [m.start_s for m in store.minutes(0)] == [0.0], "the second write is gone as a whole"
    store.write([Minute(60.0, 60.0, ())], [])
    assert len(store.minutes(0)) == 2

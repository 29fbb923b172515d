"""The tail of a growing log: chunks that end anywhere, rotation, numbering, odd bytes."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinrig.qt.viewmodels.log import (
    MAX_LINE_CHARS,
    MAX_LINES,
    LogTail,
    LogUpdate,
    clean_line,
    read_around,
)
from twinrig.services.log_reader import LogChunk, LogReader


class Screen:
    """What a view does with updates: the last line is open and replaced by the next update."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.last_no = 0

    def apply(self, update: LogUpdate | None) -> None:
        if update is None:
            return
        if update.fresh:
            self.lines = []
        elif self.lines:
            self.lines.pop()
        self.lines = (self.lines + list(update.lines))[-MAX_LINES:]
        self.last_no = update.last_no

    def number(self, line_no: int) -> str:
        return self.lines[len(self.lines) - 1 - (self.last_no - line_no)]


def chunk(text: str, offset: int, file_id: str = "f", first: int = 1) -> LogChunk:
    return LogChunk(text, file_id, offset, first)


def test_lines_cut_anywhere_are_put_together_again():
    tail, screen = LogTail(), Screen()
    screen.apply(tail.feed(chunk("on", 2)))
    screen.apply(tail.feed(chunk("e\ntw", 6)))
    screen.apply(tail.feed(chunk("o\n", 8, first=2)))
    assert screen.lines == ["one", "two", ""]
    assert screen.last_no == 3


@given(st.text("ab\n", max_size=60), st.randoms(use_true_random=False))
def test_any_cutting_gives_the_same_screen(text, rng: random.Random):
    tail, screen = LogTail(), Screen()
    position = 0
    while position < len(text):
        step = rng.randint(1, 7)
        piece = text[position : position + step]
        first = text[:position].count("\n") + 1
        position += len(piece)
        screen.apply(tail.feed(chunk(piece, position, first=first)))
    assert screen.lines == (text.split("\n") if text else [])
    assert screen.last_no == (text.count("\n") + 1 if text else 0)


def test_nothing_new_is_no_update():
    tail = LogTail()
    tail.feed(chunk("a\n", 2))
    assert tail.feed(chunk("", 2, first=2)) is None


def test_numbers_follow_the_file_when_only_its_end_is_read():
    tail, screen = LogTail(), Screen()
    screen.apply(tail.feed(chunk("x\ny\n", 5000, first=900)))
    assert screen.number(901) == "y"
    assert screen.last_no == 902


def test_after_a_rotation_the_lines_go_on_and_numbers_start_anew():
    tail, screen = LogTail(), Screen()
    screen.apply(tail.feed(chunk("old 1\nold 2 cut", 15)))
    screen.apply(tail.feed(chunk("new 1\nnew 2\n", 12, "g", 1)))
    assert screen.lines == ["old 1", "old 2 cut", "new 1", "new 2", ""]
    assert screen.number(2) == "new 2"


def test_an_emptied_file_starts_afresh():
    tail, screen = LogTail(), Screen()
    screen.apply(tail.feed(chunk("a\nb\n", 4)))
    screen.apply(tail.feed(chunk("", 0)))
    assert screen.lines == [""]
    screen.apply(tail.feed(chunk("c\n", 2)))
    assert screen.lines == ["c", ""]


def test_lines_that_were_passed_over_are_not_glued_together():
    tail, screen = LogTail(), Screen()
    screen.apply(tail.feed(chunk("a\n", 2)))
    screen.apply(tail.feed(chunk("z\n", 90_000, first=1000)))
    assert screen.lines == ["z", ""]
    assert screen.number(1000) == "z"


def test_a_flood_keeps_the_newest_lines_with_right_numbers():
    tail, screen = LogTail(), Screen()
    screen.apply(tail.feed(chunk("".join(f"{i}\n" for i in range(1, 7001)), 1)))
    assert len(screen.lines) == MAX_LINES
    assert screen.number(7000) == "7000"
    assert screen.number(2002) == "2002"


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("\x1b[1;32mINFO\x1b[0m ok", "INFO ok"),
        ("load: 10%\rload: 50%\rload: 100%", "load: 100%"),
        ("text\r", "text"),
        ("a\x00b\x07c", "a\ufffdb\ufffdc"),
        ("tab\tstays", "tab\tstays"),
        ("line\u2028separator", "line\ufffdseparator"),
        ("\x1b]0;title\x07shown", "shown"),
        ("日本語", "日本語"),
        ("", ""),
    ],
)
def test_a_line_reads_as_a_terminal_would_leave_it(raw, shown):
    assert clean_line(raw) == shown


def test_a_very_long_line_is_cut_visibly():
    assert clean_line("x" * 10_000) == "x" * MAX_LINE_CHARS + "…"


def test_a_line_that_never_ends_does_not_grow_for_ever():
    tail = LogTail()
    for i in range(400):
        update = tail.feed(chunk(f"\r{i:06} " + "#" * 1000, i + 1))
    assert len(tail._open) < 10_000
    assert update.lines[-1].startswith("000399")


def test_a_real_file_that_grows_and_rotates(tmp_path: Path):
    path, reader = tmp_path / "server.log", LogReader()
    tail, screen = LogTail(), Screen()

    def poll() -> None:
        screen.apply(tail.feed(reader.read(path, tail.file_id, tail.offset)))

    poll()
    assert screen.lines == []
    path.write_text("one\ntw")
    poll()
    with path.open("a") as handle:
        handle.write("o\nthree\n")
    poll()
    path.rename(tmp_path / "server.log.1")
    path.write_text("fresh\n")
    poll()
    poll()
    assert screen.lines == ["one", "two", "three", "fresh", ""]
    assert screen.number(1) == "fresh"


@pytest.mark.parametrize("limit_bytes", [5_000, 50_000, 10_000_000])
@pytest.mark.parametrize("wanted", [1, 77, 12_345, 29_999, 30_000])
def test_reading_around_a_line_far_back(tmp_path: Path, limit_bytes, wanted):
    path, reader = tmp_path / "server.log", LogReader()
    path.write_text("".join(f"line {i}\n" for i in range(1, 30_001)))
    identity = reader.read(path).file_id

    def read(file_id: str, offset: int) -> LogChunk:
        return reader.read(path, file_id, offset, limit_bytes)

    update = read_around(read, identity, wanted)
    screen = Screen()
    screen.apply(update)
    assert screen.number(wanted) == f"line {wanted}"
    assert screen.number(min(30_000, wanted + 1999)) == f"line {min(30_000, wanted + 1999)}"
    assert screen.number(max(1, wanted - 1999)) == f"line {max(1, wanted - 1999)}"
    assert len(screen.lines) <= 4002
    assert read_around(read, identity, 40_000) is None
    assert read_around(read, "gone", 5) is None


def test_reading_around_a_last_line_without_an_end(tmp_path: Path):
    path, reader = tmp_path / "server.log", LogReader()
    path.write_text("one\ntwo")
    update = read_around(lambda f, o: reader.read(path, f, o), reader.read(path).file_id, 2)
    screen = Screen()
    screen.apply(update)
    assert screen.number(2) == "two"

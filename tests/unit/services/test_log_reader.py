from __future__ import annotations

import random
from pathlib import Path

import pytest

from twinrig.domain.errors import DamagedFileError
from twinrig.services.log_reader import LogChunk, LogReader


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "server.log"


def rotate(log: Path) -> None:
    log.rename(log.with_name("server.log.1"))


def test_absent(log: Path) -> None:
    assert LogReader().read(log) == LogChunk("", "", 0, 1)
    assert LogReader().read(log, "1:2", 77) == LogChunk("", "", 0, 1)


def test_empty_then_growing(log: Path) -> None:
    log.write_text("")
    reader = LogReader()
    chunk = reader.read(log)
    assert (chunk.text, chunk.offset, chunk.first_line_no) == ("", 0, 1)
    with log.open("a") as handle:
        handle.write("one\ntw")
        handle.flush()
        chunk = reader.read(log, chunk.file_id, chunk.offset)
        assert (chunk.text, chunk.first_line_no) == ("one\ntw", 1)
        handle.write("o\nthree\n")
        handle.flush()
        chunk = reader.read(log, chunk.file_id, chunk.offset)
        assert (chunk.text, chunk.first_line_no) == ("o\nthree\n", 2)
    assert reader.read(log, chunk.file_id, chunk.offset).text == ""


def test_tail_begins_at_a_line(log: Path) -> None:
    log.write_text("".join(f"line {n:04}\n" for n in range(1, 1001)))
    chunk = LogReader().read(log, limit_bytes=105)
    assert chunk.text.splitlines() == [f"line {n:04}" for n in range(991, 1001)]
    assert chunk.first_line_no == 991
    exact = LogReader().read(log, limit_bytes=20)
    assert (exact.text, exact.first_line_no) == ("line 0999\nline 1000\n", 999)


def test_one_line_longer_than_the_limit(log: Path) -> None:
    log.write_text("x" * 1000 + "\n")
    chunk = LogReader().read(log, limit_bytes=100)
    assert chunk.text == "x" * 99 + "\n"
    assert chunk.offset == 1001


def test_rotation_loses_no_line(log: Path) -> None:
    log.write_text("a\n")
    reader = LogReader()
    first = reader.read(log)
    with log.open("a") as handle:
        handle.write("b\n")
    rotate(log)
    log.write_text("c\n")
    rest = reader.read(log, first.file_id, first.offset)
    assert (rest.text, rest.file_id) == ("b\n", first.file_id)
    new = reader.read(log, rest.file_id, rest.offset)
    assert (new.text, new.first_line_no) == ("c\n", 1)
    assert new.file_id != first.file_id


def test_rotated_away_entirely(log: Path) -> None:
    log.write_text("old\n")
    first = LogReader().read(log)
    rotate(log)
    log.write_text("new\n")
    log.with_name("server.log.1").unlink()
    assert LogReader().read(log, first.file_id, 2).text == "new\n"


def test_truncated_in_place_starts_over(log: Path) -> None:
    log.write_text("long old text\n")
    first = LogReader().read(log)
    log.write_text("new\n")
    assert LogReader().read(log, first.file_id, first.offset).text == "new\n"


def test_characters_are_never_cut(log: Path) -> None:
    text = "日本語のログ🙂\n" * 50
    log.write_bytes(text.encode())
    reader = LogReader()
    got, file_id, offset = "", "", 0
    for _ in range(10_000):
        chunk = reader.read(log, file_id, offset, limit_bytes=random.Random(offset).randint(4, 9))
        if not chunk.text:
            break
        got, file_id, offset = got + chunk.text, chunk.file_id, chunk.offset
    assert got == text


def test_binary_is_shown_not_fatal(log: Path) -> None:
    log.write_bytes(bytes(range(256)) * 10)
    chunk = LogReader().read(log)
    assert "\ufffd" in chunk.text
    assert "\0" not in chunk.text
    assert chunk.offset == 2560


def test_an_unfinished_character_at_the_end_waits(log: Path) -> None:
    log.write_bytes(b"ab" + "語".encode()[:2])
    reader = LogReader()
    chunk = reader.read(log)
    assert (chunk.text, chunk.offset) == ("ab", 2)
    with log.open("ab") as handle:
        handle.write("語".encode()[2:])
    assert reader.read(log, chunk.file_id, chunk.offset).text == "語"


def test_huge_sparse_log_is_read_at_its_end_only(log: Path) -> None:
    with log.open("wb") as handle:
        handle.truncate(3 * 1024**3)
        handle.seek(0, 2)
        handle.write(b"\nlast line\n")
    chunk = LogReader().read(log, limit_bytes=10)
    assert (chunk.text, chunk.first_line_no) == ("last line\n", 0)


def test_line_numbers_without_memory_are_counted(log: Path) -> None:
    log.write_text("a\nb\nc\n")
    first = LogReader().read(log, limit_bytes=2)
    assert first.text == "c\n"
    assert LogReader().read(log, first.file_id, 2).first_line_no == 2


def test_not_a_file(log: Path) -> None:
    log.mkdir()
    with pytest.raises(DamagedFileError):
        LogReader().read(log)


def test_link_loop(log: Path) -> None:
    log.symlink_to(log)
    with pytest.raises(DamagedFileError):
        LogReader().read(log)

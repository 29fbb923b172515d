"""The log file: any bytes, rotation, full disk, and never a server that waits."""

from __future__ import annotations

import errno
import os
import time
from io import FileIO

import pytest

from twinrig.supervisor.log_writer import LogWriter


@pytest.fixture
def make(tmp_path):
    writers = []

    def build(**changes):
        writer = LogWriter(tmp_path / "logs" / "server.log", **changes)
        writers.append(writer)
        return writer

    yield build
    for writer in writers:
        writer.close()


def text_of(tmp_path, name="server.log") -> bytes:
    return (tmp_path / "logs" / name).read_bytes()


def test_bytes_arrive_as_they_are(make, tmp_path):
    writer = make()
    data = bytes(range(256)) * 50
    writer.write(data)
    writer.write(b"\xff\xfe no newline")
    assert writer.flush()
    assert text_of(tmp_path) == data + b"\xff\xfe no newline"
    assert writer.dropped_lines == 0


def test_rotation_keeps_three_files_and_cuts_between_lines(make, tmp_path):
    writer = make(max_bytes=1000, kept=3)
    for number in range(100):
        writer.write(f"{number:03d} {'x' * 95}\n".encode())
    assert writer.flush()
    names = sorted(p.name for p in (tmp_path / "logs").iterdir())
    assert names == ["server.log", "server.log.1", "server.log.2"]
    lines = [text_of(tmp_path, n).splitlines() for n in reversed(names)]
    numbers = [int(line[:3]) for part in lines for line in part]
    assert numbers == list(range(numbers[0], 100)), "in order, whole, nothing lost between files"
    assert all(len(text_of(tmp_path, name)) <= 1000 for name in names)
    assert writer.lines_before_file + len(lines[-1]) == 100 == writer.lines_written


def test_a_line_that_never_ends_does_not_stop_rotation(make, tmp_path):
    writer = make(max_bytes=1000)
    for _ in range(200):
        writer.write(b"x" * 1000)
    assert writer.flush()
    assert len(text_of(tmp_path)) < 70_000


def test_a_new_run_starts_a_new_file(make, tmp_path):
    writer = make()
    writer.write(b"old\n")
    writer.begin_run()
    writer.write(b"new\n")
    assert writer.flush()
    assert text_of(tmp_path) == b"new\n"
    assert text_of(tmp_path, "server.log.1") == b"old\n"
    assert (writer.lines_written, writer.lines_before_file) == (1, 0)


def test_a_run_without_output_rotates_nothing(make, tmp_path):
    writer = make()
    writer.write(b"old\n")
    for _ in range(5):
        writer.begin_run()
    assert writer.flush()
    assert text_of(tmp_path, "server.log.1") == b"old\n"
    assert not (tmp_path / "logs" / "server.log.2").exists()


def test_a_full_disk_drops_counts_and_tells_once_it_works_again(make, tmp_path, monkeypatch):
    writer = make()
    writer.write(b"before\n")
    assert writer.flush()

    def full(_self, _data):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("twinrig.supervisor.log_writer.FileIO", type("F", (FileIO,), {"write": full}))
        writer._shut()
        writer.write(b"lost 1\nlost 2\n")
        writer.write(b"lost 3\n")
        assert writer.flush()
    assert writer.dropped_lines == 3
    writer.write(b"after\n")
    assert writer.flush()
    expected = b"before\n[twinrig] 3 lines of output are missing here.\nafter\n"
    assert text_of(tmp_path) == expected


def test_a_folder_that_cannot_be_made_only_counts(tmp_path):
    (tmp_path / "file").write_text("")
    writer = LogWriter(tmp_path / "file" / "server.log")
    writer.begin_run()
    writer.write(b"a\nb\n")
    assert writer.flush()
    assert writer.dropped_lines == 2
    writer.close()


def test_a_disk_that_hangs_never_makes_the_writer_wait(tmp_path):
    path = tmp_path / "server.log"
    os.mkfifo(path)  # opening it for writing waits for a reader, as a dead network disk would
    writer = LogWriter(path, queue_bytes=10_000)
    began_s = time.perf_counter()
    for _ in range(10_000):
        writer.write(b"0123456789\n" * 10)
    assert time.perf_counter() - began_s < 1.0
    assert writer.dropped_lines > 90_000
    assert writer.flush(0.01) is False
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    writer.close()
    os.close(reader)

"""A file is old or new, never half; the previous version is kept; huge files are not read."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from twinrig import files
from twinrig.files import FileTooLargeError, NotAFileError, previous_path, read_small, write_atomic


def test_it_writes_and_replaces(tmp_path: Path) -> None:
    path = tmp_path / "new folder" / "a.yaml"
    write_atomic(path, b"one")
    write_atomic(path, b"two")
    assert path.read_bytes() == b"two"
    assert [p.name for p in path.parent.iterdir()] == ["a.yaml"]


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o400])
def test_the_mode_is_as_asked_whatever_the_umask(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "a"
    old = os.umask(0o077)
    try:
        write_atomic(path, b"x", mode=mode)
    finally:
        os.umask(old)
    assert path.stat().st_mode & 0o777 == mode


def test_the_replaced_version_is_kept_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    write_atomic(path, b"one", keep_previous=True)
    assert not previous_path(path).exists()
    write_atomic(path, b"two", keep_previous=True)
    write_atomic(path, b"three", keep_previous=True)
    assert path.read_bytes() == b"three"
    assert previous_path(path).read_bytes() == b"two"
    assert sorted(p.name for p in tmp_path.iterdir() if p.is_file()) == [
        "a.yaml",
        "a.yaml.previous",
    ]


def test_the_kept_version_is_no_more_readable_than_it_was(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write_atomic(path, b"one", mode=0o600)
    write_atomic(path, b"two", mode=0o644, keep_previous=True)
    assert previous_path(path).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("step", ["fsync", "chmod", "replace"])
def test_a_failure_at_any_step_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    path = tmp_path / "a"
    write_atomic(path, b"old")

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os if step == "fsync" else Path, step, fail)
    with pytest.raises(OSError, match="No space left"):
        write_atomic(path, b"new", keep_previous=True)
    assert path.read_bytes() == b"old"
    monkeypatch.undo()
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".a.")] == []


def test_an_interruption_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a"
    write_atomic(path, b"old")

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(files.os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_atomic(path, b"new")
    assert path.read_bytes() == b"old"
    assert len(list(tmp_path.glob(".a.*"))) == 0


WRITER = """
import sys
from pathlib import Path
from twinrig.files import write_atomic
path = Path(sys.argv[1])
while True:
    for letter in (b"a", b"b"):
        write_atomic(path, letter * 300_000, keep_previous=True)
"""


def test_a_kill_at_any_moment_leaves_a_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    whole = (b"a" * 300_000, b"b" * 300_000)
    for delay_ms in (3, 11, 17):
        child = subprocess.Popen([sys.executable, "-c", WRITER, str(path)])
        deadline = time.monotonic() + 20
        path.unlink(missing_ok=True)
        while not path.exists():
            assert time.monotonic() < deadline and child.poll() is None
        end = time.monotonic() + delay_ms / 1000
        while time.monotonic() < end:
            assert path.read_bytes() in whole, "a reader saw a part"
        child.send_signal(signal.SIGKILL)
        child.wait()
        assert path.read_bytes() in whole
        if previous_path(path).exists():
            assert previous_path(path).read_bytes() in whole


def test_a_folder_in_the_way_is_an_error_and_stays(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    with pytest.raises(OSError):
        write_atomic(tmp_path / "a", b"x")
    assert (tmp_path / "a").is_dir()


@pytest.mark.parametrize("size", [0, 99, 100])
def test_small_files_are_read_whole(tmp_path: Path, size: int) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"x" * size)
    assert read_small(path, 100) == b"x" * size


def test_one_byte_too_many_is_refused_with_the_name(tmp_path: Path) -> None:
    path = tmp_path / "profile.yaml"
    path.write_bytes(b"x" * 101)
    with pytest.raises(FileTooLargeError, match=r"profile\.yaml is larger than 100"):
        read_small(path, 100)


def test_a_huge_file_is_refused_without_reading_it(tmp_path: Path) -> None:
    path = tmp_path / "huge"
    with path.open("wb") as handle:
        handle.truncate(1 << 40)  # a sparse terabyte
    with pytest.raises(FileTooLargeError):
        read_small(path)


def test_a_device_or_a_pipe_is_refused_at_once_and_never_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (Path("/dev/zero"), tmp_path / "pipe"):
        with pytest.raises(NotAFileError, match="not a file"):
            read_small(path, 1000)


def test_a_sparse_giant_is_refused_without_reading_it(tmp_path: Path) -> None:
    giant = tmp_path / "giant"
    with giant.open("wb") as handle:
        handle.truncate(1 << 30)
    with pytest.raises(FileTooLargeError):
        read_small(giant)


def test_a_missing_file_is_the_usual_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_small(tmp_path / "none")

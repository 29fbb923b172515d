"""The lock between processes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from twinrig.domain.errors import HostError
from twinrig.hosts.locks import FileLock

HOLD = """
import sys
from pathlib import Path
from twinrig.hosts.locks import FileLock
lock = FileLock(Path(sys.argv[1]), "theirs")
print(lock.acquire("supervisor"), flush=True)
sys.stdin.read()
"""


def test_one_holder_known_by_pid_and_note(tmp_path):
    lock, other = FileLock(tmp_path, "main"), FileLock(tmp_path, "second")
    assert other.holder("supervisor") is None
    assert lock.acquire("supervisor")
    assert not other.acquire("supervisor")
    assert not lock.acquire("supervisor"), "not twice by the same object"
    for asking in (lock, other):
        assert asking.holder("supervisor") == os.getpid()
        assert asking.holder_note("supervisor") == "main"
    lock.release()
    lock.release()
    assert other.holder("supervisor") is None
    assert other.holder_note("supervisor") == ""
    assert other.acquire("supervisor")
    other.release()


def test_it_vanishes_with_its_holder_and_asking_takes_nothing(tmp_path):
    argv = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == b"True\n"
        mine = FileLock(tmp_path, "mine")
        for _ in range(50):
            assert mine.holder("supervisor") == holder.pid
        assert mine.holder_note("supervisor") == "theirs"
        assert not mine.acquire("supervisor")
        holder.kill()
        holder.wait()
    assert mine.holder("supervisor") is None, "the text is still there, the lock is not"
    assert mine.acquire("supervisor")
    mine.release()


@pytest.mark.parametrize("text", [b"", b"\xff\x00", b"not a number\n", b"9" * 4000])
def test_a_damaged_text_is_an_unknown_holder(tmp_path, text):
    lock = FileLock(tmp_path, "main")
    assert lock.acquire("x")
    lock.path("x").write_bytes(text)
    assert FileLock(tmp_path).holder("x") in (None, int("9" * 512) if text[:1] == b"9" else None)
    lock.release()


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(HostError) as caught:
        FileLock(tmp_path / "file").acquire("x")
    assert caught.value.next_step is not None

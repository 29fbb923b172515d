"""The first Ctrl+C ends what waits for a person or a file."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from twinrig.cli.interrupts import interruptible

TAKES_S = 120


def test_a_call_that_blocks_is_left_at_once() -> None:
    reached = []

    async def verb() -> None:
        with interruptible():
            signal.raise_signal(signal.SIGINT)
            reached.append("went on as if nothing had happened")

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(verb())
    assert reached == []
    assert signal.getsignal(signal.SIGINT) is before


def test_what_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with interruptible():
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_another_thread_has_no_signals() -> None:
    async def aside() -> None:
        def work() -> None:
            with interruptible():
                pass

        await asyncio.to_thread(work)

    asyncio.run(aside())


@pytest.mark.parametrize("words", [("diagnose", "{pipe}"), ("diagnose", "-"), ("chat", "-")])
def test_one_press_ends_a_verb_that_reads(tmp_path: Path, words: tuple[str, ...]) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    keep = os.open(pipe, os.O_RDWR)  # so that nobody waits for the other end
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "twinrig",
            "--target",
            "demo",
            *(w.format(pipe=pipe) for w in words),
        ],
        stdin=keep,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TWINRIG_HOME": str(tmp_path)},
    )
    try:
        _until_it_reads(keep)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=TAKES_S)
    finally:
        process.kill()
        os.close(keep)
    assert process.returncode == 130, out + err
    assert "Traceback" not in err


def _until_it_reads(pipe: int) -> None:
    """What was written is gone."""
    os.write(pipe, b"x")
    deadline = time.monotonic() + TAKES_S
    while struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, b"\0" * 4))[0]:
        assert time.monotonic() < deadline
        time.sleep(0.05)

"""The frame around one call, tried with a real bash as Linux would read it."""

from __future__ import annotations

import os
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twinrig.domain.ports import Script
from twinrig.hosts.wsl.framing import (
    CALL_VARIABLE,
    LINUX_PATH,
    WORD_LIMIT_BYTES,
    Frame,
    Framed,
    FrameReader,
    call_mark,
    read_frame,
)

NONCE = "0123456789abcdef"
END = b"\x1eEND 0123456789abcdef "


def answer(frame: Frame, request: bytes | None = None) -> Framed:
    """What a bash answers that is started as ``WslCall`` starts it."""
    done = subprocess.run(
        ["/bin/bash", "--noprofile", "--norc", "-s"],
        input=frame.request() if request is None else request,
        capture_output=True,
        env={"PATH": "/mnt/c/Windows", "HOME": "/", "LANG": "ja_JP.UTF-8", "BASH_ENV": "/nope"},
        timeout=20,
        check=False,
    )
    return read_frame(frame.nonce, done.stdout, done.stderr)


def test_words_arrive_as_they_are() -> None:
    words = (
        "printf",
        "%s\\n",
        "",
        "$HOME",
        'a"b',
        "c\\",
        "\\\\",
        "日本語",
        "x\ny\r",
        "-n",
        "'",
        "`id`",
    )
    got = answer(Frame(NONCE, words))
    assert got == Framed(True, 0, False, "".join(f"{w}\n" for w in words[2:]).encode(), b"", b"")


def test_bytes_that_are_no_utf8_survive() -> None:
    assert answer(Frame(NONCE, ("printf", "%s", "\udcff\udc80"))).stdout == b"\xff\x80"


def test_data_goes_to_the_command_and_only_there() -> None:
    data = bytes(range(256)) * 100 + b"\nexit 3\n"
    assert answer(Frame(NONCE, ("cat",), data)).stdout == data
    assert answer(Frame(NONCE, ("head", "-c", "3"), data)).stdout == data[:3]
    assert answer(Frame(NONCE, ("cat",))).stdout == b""
    assert answer(Frame(NONCE, ("cat",), b"")).status == 0


def test_codes_streams_and_missing_programs() -> None:
    for code in (0, 1, 67, 87, 126, 255):
        assert answer(Frame(NONCE, ("sh", "-c", f"exit {code}"))).status == code
    split = answer(Frame(NONCE, ("sh", "-c", "echo out; echo err >&2")))
    assert (split.stdout, split.stderr) == (b"out\n", b"err\n")
    merged = answer(Frame(NONCE, ("sh", "-c", "echo out; echo err >&2"), merged=True))
    assert (merged.stdout, merged.stderr) == (b"out\nerr\n", b"")
    missing = answer(Frame(NONCE, ("/no/such",)))
    assert (missing.status, missing.absent) == (127, True)
    assert not answer(Frame(NONCE, ("sh", "-c", "exit 127"))).absent
    assert answer(Frame(NONCE, ("sh", "-c", "kill -9 $$"))).status == 137


def test_scripts_get_their_arguments_and_are_read_whole() -> None:
    got = answer(Frame(NONCE, Script("name", 'echo "$0|$1|$2"; cat; exit 9', ("a b", "$HOME"))))
    assert (got.status, got.stdout) == (9, b"name|a b|$HOME\n")
    assert answer(Frame(NONCE, Script("s", "# nothing"))).status == 0
    assert answer(Frame(NONCE, Script("s", "echo ran\nif"))).stdout == b""
    assert answer(Frame(NONCE, Script("s", "echo one\r\necho two\r\n"))).stdout == b"one\ntwo\n"
    assert answer(Frame(NONCE, Script("s", "cat", ()), b"data")).stdout == b"data"


def test_the_environment_of_a_command() -> None:
    names = dict(
        line.split("=", 1) for line in answer(Frame(NONCE, ("env",))).stdout.decode().splitlines()
    )
    assert names["PATH"] == LINUX_PATH
    assert names["LC_ALL"] == "C.UTF-8"
    assert names[CALL_VARIABLE] == call_mark(NONCE)
    assert NONCE not in "".join(names.values())
    assert "BASH_ENV" not in names


def test_a_request_that_was_cut_off_runs_nothing() -> None:
    frame = Frame(NONCE, ("touch", "/dev/null/never"), b"data")
    whole = frame.request()
    head = whole.index(b"touch")
    for size in (0, 10, head, head + 3, len(whole) - len(b"data") - 1):
        got = answer(frame, whole[:size])
        assert not got.began, size
        assert got.status is None


@pytest.mark.parametrize(
    ("nonce", "command"),
    [
        ("", ("true",)),
        ("0123456789ABCDEF", ("true",)),
        ("0123456789abcde", ("true",)),
        (f"{NONCE};id", ("true",)),
        (NONCE, ()),
        (NONCE, ("",)),
        (NONCE, ("a\0b",)),
        (NONCE, ("x" * (WORD_LIMIT_BYTES + 1),)),
    ],
)
def test_what_cannot_be_sent_is_refused(nonce: str, command: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=r"nonce|program|bytes"):
        Frame(nonce, command).request()


def test_the_longest_word_is_carried() -> None:
    assert answer(Frame(NONCE, ("printf", "%s", "x" * WORD_LIMIT_BYTES))).stdout == (
        b"x" * WORD_LIMIT_BYTES
    )


def test_noise_around_an_answer_is_no_answer() -> None:
    out = b"Welcome!\nEND 0\nBEGIN 0123456789abcdef\nhi" + END + b"5\nw\0s\0l\0"
    assert read_frame(
        NONCE, out, b"wsl: x\nBEGIN 0123456789abcdef\ne" + END + b"5\nlate"
    ) == Framed(True, 5, False, b"hi", b"e", b"Welcome!\nEND 0\nw\0s\0l\0wsl: x\nlate")


def test_without_an_end_nothing_is_known() -> None:
    cut = read_frame(NONCE, b"BEGIN 0123456789abcdef\npart", b"")
    assert cut == Framed(True, None, False, b"part", b"", b"")
    assert read_frame(NONCE, b"There is no", b"e") == Framed(
        False, None, False, b"", b"", b"There is noe"
    )
    other = read_frame(NONCE, b"BEGIN fedcba9876543210\nx\x1eEND fedcba9876543210 0\n", b"")
    assert (other.began, other.status) == (False, None)
    assert read_frame(NONCE, b"BEGIN 0123456789abcdef\n" + END + b"5", b"").status is None


def test_the_last_end_counts() -> None:
    inner = END + b"0\n"
    got = read_frame(NONCE, b"BEGIN 0123456789abcdef\n" + inner + b"x" + END + b"7 absent\n", b"")
    assert (got.status, got.absent, got.stdout) == (7, True, inner + b"x")


@settings(max_examples=300, deadline=None)
@given(
    payload=st.binary(max_size=60)
    | st.lists(st.sampled_from([b"\x1e", b"END", b" ", END])).map(b"".join),
    noise=st.binary(max_size=20).filter(lambda b: b"BEGIN" not in b),
    cuts=st.lists(st.integers(1, 7), min_size=1, max_size=10),
)
def test_reading_bit_by_bit_gives_the_same(payload: bytes, noise: bytes, cuts: list[int]) -> None:
    data = noise + b"BEGIN 0123456789abcdef\n" + payload + END + b"12\ntail"
    reader, got, at, turn = FrameReader(NONCE), b"", 0, 0
    while at < len(data):
        size = cuts[turn % len(cuts)]
        got += reader.feed(data[at : at + size])
        at, turn = at + size, turn + 1
    assert (got, reader.status, reader.began, reader.absent) == (payload, 12, True, False)
    assert (reader.noise, reader.rest()) == (noise, b"")


def test_a_whole_line_is_passed_on_at_once_and_the_rest_at_the_end() -> None:
    reader = FrameReader(NONCE)
    assert reader.feed(b"junk") == b""
    assert not reader.began
    assert reader.noise == b"junk"
    assert reader.feed(b"BEGIN 0123456789abcdef\n") == b""
    assert reader.began
    assert reader.feed(b"line\n") == b"line\n"
    assert reader.feed(b"x\x1eEND") == b"x"
    assert reader.feed(b" no") == b"\x1eEND no"
    assert reader.feed(END) == b""
    assert reader.feed(b"1") == b""
    assert reader.status is None
    assert reader.rest() == END + b"1"
    assert reader.rest() == b""


def test_after_the_end_nothing_counts() -> None:
    reader = FrameReader(NONCE)
    assert reader.feed(b"BEGIN 0123456789abcdef\nx" + END + b"127 absent\nlate") == b"x"
    assert reader.feed(b"later") == b""
    assert (reader.status, reader.absent, reader.rest()) == (127, True, b"")


def test_noise_without_a_begin_is_no_rest() -> None:
    reader = FrameReader(NONCE)
    reader.feed(b"There is no distribution")
    assert reader.rest() == b""


def test_marks_differ() -> None:
    assert call_mark(NONCE) != call_mark("f" * 16)
    assert len(call_mark(NONCE)) == 32
    assert os.environ.get(CALL_VARIABLE) is None

"""Secrets never get through, wherever the chunks of a stream end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinrig.supervisor.masking import MASK, SecretMask

KEYS = ("abcabcabd-key", "abcabc-longer-key")
TEXT = f"key: {KEYS[0]}\nadmin: {KEYS[1]}{KEYS[0]} abcabc\n".encode()


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 1000])
def test_every_way_to_cut_the_stream(size: int) -> None:
    mask = SecretMask(KEYS)
    parts = [mask.feed(TEXT[i : i + size]) for i in range(0, len(TEXT), size)]
    result = b"".join((*parts, mask.finish()))
    assert result == b"key: " + MASK + b"\nadmin: " + MASK + MASK + b" abcabc\n"


def test_nothing_is_held_back_without_need() -> None:
    mask = SecretMask(KEYS)
    assert mask.feed(b"ready\n") == b"ready\n"
    assert mask.feed(b"ab") == b"" and mask.feed(b"out\n") == b"about\n"
    assert mask.feed(b"abc") == b"" and mask.finish() == b"abc" and mask.finish() == b""


def test_no_secret_means_no_work() -> None:
    chunk = b"x" * 10
    assert SecretMask(("", "short")).feed(chunk) is chunk


@given(st.lists(st.sampled_from([b"abc", b"abcabcabd", b"-key", b"x", KEYS[0].encode()])))
def test_random_streams(parts: list[bytes]) -> None:
    mask = SecretMask(KEYS[:1])
    result = b"".join([mask.feed(part) for part in parts]) + mask.finish()
    assert result == b"".join(parts).replace(KEYS[0].encode(), MASK)

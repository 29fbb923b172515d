"""What the demo engine says: honest, repeatable, of the asked length."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinrig.hosts.demo.words import NATURAL_TOKENS, count_tokens, reply_tokens
from twinrig.services.repetition import find_loop


@given(st.text(max_size=200), st.integers(0, 100), st.integers(1, 400), st.booleans())
def test_never_more_than_the_limit_and_always_the_same(prompt, seed, limit, ignore_end) -> None:
    tokens, ended = reply_tokens(prompt, seed, limit, ignore_end=ignore_end)
    assert 1 <= len(tokens) <= limit
    assert all(tokens)
    assert (tokens, ended) == reply_tokens(prompt, seed, limit, ignore_end=ignore_end)
    if ignore_end:
        assert len(tokens) == limit
        assert not ended


@pytest.mark.parametrize(
    ("prompt", "opening"),
    [
        ("Hello", "This is the demo engine of Twinrig"),
        ("", "This is the demo engine of Twinrig"),
        ("東京の天気は?", "これは Twinrig のデモエンジンです。"),
        ("カタカナ", "これは Twinrig のデモエンジンです。"),
    ],
)
def test_it_says_what_it_is(prompt: str, opening: str) -> None:
    tokens, ended = reply_tokens(prompt, 1, 10_000, ignore_end=False)
    assert "".join(tokens).startswith(opening)
    assert ended
    assert NATURAL_TOKENS[0] <= len(tokens) <= NATURAL_TOKENS[1] + 30


def test_a_limit_below_the_natural_length_cuts() -> None:
    tokens, ended = reply_tokens("Hello", 1, 5, ignore_end=False)
    assert "".join(tokens) == "This is the demo engine"
    assert not ended


@pytest.mark.parametrize(
    ("text", "count"),
    [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("日本語", 3), ("日本語abcd", 4)],
)
def test_count_tokens(text: str, count: int) -> None:
    assert count_tokens(text) == count


@pytest.mark.parametrize("question", ["Hello", "こんにちは"])
def test_a_reply_is_never_a_loop(question: str) -> None:
    """By chance the same sentence four times would be one; a benchmark would tell it as a fault."""
    for number in (*range(100), 487, 770, 900, 1288):  # the last ones were loops once
        tokens, _ended = reply_tokens(f"{question} {number}", 1, 160, ignore_end=True)
        assert find_loop("".join(tokens)) is None, number

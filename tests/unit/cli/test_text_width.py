from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinrig.cli.text_width import clip, pad, table, width, wrap


@pytest.mark.parametrize(
    ("text", "cells"),
    [
        ("", 0),
        ("abc", 3),
        ("日本", 4),
        ("ｱ", 1),
        ("Ａ", 2),
        ("e\u0301", 1),
        ("\x1b[31mred\x1b[0m", 3),
        ("a\u200bb", 2),
        ("🙂", 2),
    ],
)
def test_width(text: str, cells: int) -> None:
    assert width(text) == cells


def test_pad_and_clip_count_cells() -> None:
    assert pad("日本", 6) == "日本  "
    assert pad("abc", 2) == "abc"
    assert clip("日本語", 5) == "日本…"
    assert clip("日本語", 6) == "日本語"
    assert clip("日本語", 4) == "日…"
    assert clip("abc", 0) == ""
    assert clip("\x1b[31mabcdef\x1b[0m", 4) == "\x1b[31mabc\x1b[0m…"


@given(st.text(max_size=40), st.integers(1, 30))
def test_clip_never_exceeds(text: str, cells: int) -> None:
    assert width(clip(text, cells)) <= cells


def test_table_lines_up_in_both_languages() -> None:
    assert table([("名前", "x", "1"), ("a", "yy", "22")]) == ["名前  x   1", "a     yy  22"]
    assert table([]) == []
    assert table([("a",), ("b", "c")]) == ["a", "b  c"]


def test_wrap() -> None:
    assert wrap("one two three four", 9) == ["one two", "three", "four"]
    assert wrap("one two", 20, "  ") == ["  one two"]
    assert wrap("日本語の長い文章です", 10) == ["日本語の長", "い文章です"]
    assert wrap("averyveryverylongword x", 8) == ["averyveryverylongword", "x"]
    assert wrap("", 8) == [""]


def test_wrap_keeps_punctuation_with_its_word() -> None:
    assert wrap("日本語です。次", 10) == ["日本語で", "す。次"]
    assert wrap("あいう「えお」", 8) == ["あいう", "「えお」"]
    assert wrap("サーバーー", 8) == ["サー", "バーー"]
    assert wrap("か\u3099か\u3099か\u3099", 4) == ["か\u3099か\u3099", "か\u3099"]


@given(st.text(alphabet="日本ー。、「」aあッ", max_size=60), st.integers(6, 30))
def test_no_line_begins_or_ends_with_what_may_not(text: str, cells: int) -> None:
    lines = wrap(text, cells)
    assert "".join(lines) == text
    for line, following in pairwise(lines):
        assert following[0] not in "ー。、」ッ"
        assert line[-1] != "「"

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinrig.services.thinking import Part, ThoughtSplitter


def split(chunks: list[str]) -> tuple[str, str]:
    splitter, reply, thoughts = ThoughtSplitter(), "", ""
    parts: list[Part] = [part for chunk in chunks for part in splitter.feed(chunk)]
    for part in [*parts, *splitter.end()]:
        if part.recast:
            reply, thoughts = "", thoughts + reply
        if part.thought:
            thoughts += part.text
        else:
            reply += part.text
    return reply, thoughts


@pytest.mark.parametrize(
    ("text", "reply", "thoughts"),
    [
        ("Just a reply.", "Just a reply.", ""),
        ("<think>Hm.</think>\n\nYes.", "Yes.", "Hm."),
        ("\n<think>\nHm.\n</think>Yes.", "Yes.", "\nHm.\n"),
        ("opened by the template</think>\n\nYes.", "Yes.", "opened by the template"),
        ("<think>never closed", "", "never closed"),
        ("<think></think>", "", ""),
        ("a < b and <thin air", "a < b and <thin air", ""),
        ("", "", ""),
        ("   ", "   ", ""),
        ("<think>a</think>b</think>c", "b</think>c", "a"),
        ("See <think> in the middle", "See <think> in the middle", ""),
    ],
)
def test_marks(text: str, reply: str, thoughts: str) -> None:
    assert split([text]) == (reply, thoughts)
    assert split(list(text)) == (reply, thoughts)


@given(st.lists(st.sampled_from(["<think>", "</think>", "<", "thi", "nk>", "/", "word ", "\n"])))
def test_where_the_text_is_cut_does_not_matter(chunks: list[str]) -> None:
    assert split(chunks) == split(["".join(chunks)])


@given(st.text())
def test_text_without_marks_comes_through_whole(text: str) -> None:
    if "think>" not in text:
        assert split(list(text)) == (text, "")


def test_ordinary_text_is_not_held_back() -> None:
    assert list(ThoughtSplitter().feed("Hello")) == [Part("Hello")]

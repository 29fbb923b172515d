"""SseParser: chunks may be cut anywhere and the events stay the same."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinrig.domain.errors import HostError
from twinrig.hosts.http import SseParser


def parse(*chunks: bytes) -> list[str]:
    parser = SseParser()
    found = [event for chunk in chunks for event in parser.feed(chunk)]
    return found + list(parser.end())


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (b"data: a\n\n", ["a"]),
        (b"data:a\n\n", ["a"]),
        (b"data:  a \n\n", [" a "]),
        (b"data: a\r\n\r\n", ["a"]),
        (b"data: a\r\rdata: b\r\r", ["a", "b"]),
        (b"data: a\ndata: b\n\n", ["a\nb"]),
        (b"data\n\n", [""]),
        (b"data:\n\n", [""]),
        (b": ping\n\n: ping\n\n", []),
        (b"event: e\nid: 1\nretry: 5\n\n", []),
        (b"\n\n\ndata: a\n\n\n\n", ["a"]),
        (b"\xef\xbb\xbfdata: a\n\n", ["a"]),
        (b"data: [DONE]\n\n", ["[DONE]"]),
        (b"data: \xff\n\n", ["\N{REPLACEMENT CHARACTER}"]),
        (b"data: a", ["a"]),
        (b"data: a\r", ["a"]),
        (b"datax: a\n\n", []),
        (b"", []),
    ],
)
def test_forms(stream: bytes, expected: list[str]) -> None:
    assert parse(stream) == expected


LINE = st.text(st.characters(exclude_characters="\r\n", exclude_categories=("Cs",)), max_size=12)


@given(
    st.lists(st.lists(LINE, min_size=1, max_size=3), max_size=6),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.data(),
)
def test_cuts_do_not_matter(events: list[list[str]], newline: str, data: st.DataObject) -> None:
    text = "".join(
        "".join(f"data: {line}{newline}" for line in lines) + newline for lines in events
    )
    stream = text.encode()
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=8).map(sorted))
    edges = [0, *cuts, len(stream)]
    chunks = [stream[a:b] for a, b in itertools.pairwise(edges)]
    assert parse(*chunks) == ["\n".join(lines) for lines in events]


def test_an_endless_event_is_refused_instead_of_filling_the_memory() -> None:
    parser = SseParser(limit_bytes=100)
    with pytest.raises(HostError, match="more than 100 bytes"):
        for _ in range(50):
            list(parser.feed(b"data: xxxxxxxxxx\n"))
    parser = SseParser(limit_bytes=100)
    with pytest.raises(HostError):
        list(parser.feed(b"x" * 101))

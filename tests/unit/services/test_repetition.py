from __future__ import annotations

import random
import time

import pytest

from twinrig.services.repetition import find_loop

STORY = (
    "The two cards hummed. One of them had a fan that clicked, and the other one did not. "
    "Nobody in the house knew which of them did more of the work, and nobody asked. "
    "In the morning there was a message on the screen, and it was not an error. "
)


@pytest.mark.parametrize(
    ("text", "unit", "repeats"),
    [
        ("Fine. " + "I am sorry. " * 30, "I am sorry.", 29),
        ("a" * 200, "a", 200),
        ("始まり。" + "もう一度言います。" * 20, "もう一度言います。", 20),
        (STORY + "def f(x):\n    return f(x)\n" * 8, "return f(x)", 7),
        ("word " * 5000, "word", 700),
        ("-" * 700, "-", 700),
        (STORY * 5, "it was not an error.", 4),
    ],
)
def test_loops(text: str, unit: str, repeats: int) -> None:
    found = find_loop(text)
    assert found is not None
    assert unit in found.unit or unit.split()[-1] in found.unit
    assert found.repeats >= repeats


@pytest.mark.parametrize(
    "text",
    [
        "",
        "short",
        STORY,
        STORY * 3,
        "ha " * 20,
        "| a | b |\n|" + "-" * 300 + "|",
        "\n".join(f"{number}. Step number {number}: press the button." for number in range(200)),
        "I am sorry. " * 30 + "But now for something else entirely, which ends well.",
        " ".join(random.Random(5).choices(STORY.split(), k=600)),
        "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, " * 3,
    ],
)
def test_no_loops(text: str) -> None:
    assert find_loop(text) is None


def test_a_cut_in_the_middle_of_a_unit_does_not_hide_the_loop() -> None:
    text = ("Once more, with feeling, and all together now! " * 12)[:-17]
    found = find_loop(text)
    assert found is not None and found.repeats >= 11


def test_a_long_text_costs_little() -> None:
    text = STORY * 3 + "x y z " * 100_000
    best = min(_timed(text) for _ in range(3))
    assert best < 0.2, f"{best * 1000:.0f} ms"


def _timed(text: str) -> float:
    start = time.perf_counter()
    assert find_loop(text) is not None
    return time.perf_counter() - start

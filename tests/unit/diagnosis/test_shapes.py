"""Looking for phrases by shapes and words finds exactly the lines that hold them."""

from __future__ import annotations

import tracemalloc

from hypothesis import example, given
from hypothesis import strategies as st

from fixtures.rule_samples import SAMPLES, SHIPPED
from twinrig.diagnosis.index import index_of
from twinrig.diagnosis.scan import LogScan
from twinrig.diagnosis.shapes import MAX_HITS_A_BLOCK, MAX_SHAPES, Shapes
from twinrig.diagnosis.vocabulary import MAX_NEW_WORDS, MAX_WORDS, Vocabulary

PIECES = st.text("ab1: \u2588", min_size=1, max_size=8)
PHRASES = st.lists(
    PIECES.filter(lambda p: bool(p.strip("\u2588 "))), min_size=1, max_size=5, unique=True
)


def holding(phrases: list[str], lines: list[str]) -> dict[int, list[str]]:
    found = {i: sorted({p for p in phrases if p in line}) for i, line in enumerate(lines)}
    return {i: held for i, held in found.items() if held}


@given(PHRASES, st.lists(st.text("ab12: \u2588", max_size=30), max_size=8))
@example([" a1 "], ["a1", "b a2 a1 b", "x a1 "])
@example(["a\u2588b"], ["a\u2588b", "ab", "a b"])
@example(["11"], ["12 11", "22"])
def test_nothing_is_lost_and_nothing_invented(phrases: list[str], lines: list[str]) -> None:
    shapes = Shapes(phrases)
    for _ in range(2):  # the second time all shapes are known
        assert shapes.find(lines) == holding(phrases, lines)
    around = [f"{line}{phrase}{line}" for line in lines for phrase in phrases]
    assert shapes.find(around) == holding(phrases, around)


def test_every_phrase_of_the_rules_is_found_in_every_sample() -> None:
    phrases = list(index_of(SHIPPED).needles)
    lines = [line for sample in SAMPLES for line in sample.lines]
    assert len(lines) > 900
    for start in range(0, len(lines), 50):
        some = lines[start : start + 50]
        assert Shapes(phrases).find(some) == holding(phrases, some)


def test_what_is_not_wanted_is_not_told() -> None:
    shapes = Shapes(["no kernel image", "boom"])
    assert shapes.find(["boom: no kernel image"], {"boom"}) == {0: ["no kernel image"]}
    assert shapes.find(["boom"], {"boom"}) == {}


def test_one_phrase_is_told_of_so_many_lines() -> None:
    found = Shapes(["a", "b"]).find(["a"] * MAX_HITS_A_BLOCK + ["a b", "a"])
    assert found == {**{i: ["a"] for i in range(MAX_HITS_A_BLOCK)}, MAX_HITS_A_BLOCK: ["b"]}


def test_words_are_forgotten_and_still_found() -> None:
    words = Vocabulary(["no kernel image", "boom"])
    assert words.find(["a no kernel image b"]) == {0: {"no kernel image"}}
    assert words.find(["kernel image"]) == {}
    for start in range(0, MAX_WORDS * 2, 5000):
        assert words.find([" ".join(f"w{n}" for n in range(start, start + 5000))]) == {}
    assert words.find(["x", "boom a no kernel image"]) == {1: {"boom", "no kernel image"}}


def test_a_word_that_is_part_of_ever_new_words() -> None:
    vocabulary = Vocabulary(["boom"])
    new = [f"x{n}boom{n}" for n in range(MAX_NEW_WORDS + 10)]
    assert set(vocabulary.find(new)) == set(range(len(new)))
    assert vocabulary.find(["a", "y-boom-y"]) == {1: {"boom"}}


def test_memory_is_bounded_for_ever_new_lines_of_any_length() -> None:
    shapes = Shapes(["boom"])
    letters = str.maketrans("0123456789", "abcdefghij")
    tracemalloc.start()
    for start in range(0, MAX_SHAPES * 3, 2000):
        names = [str(n).translate(letters) for n in range(start, start + 2000)]
        assert len(shapes.find([f"{name} boom" for name in names])) == MAX_HITS_A_BLOCK
        assert shapes.find([f"{name}{'x' * 2000}" for name in names[:100]]) == {}
        shapes.find([f"{name}{'x' * 20_000}boom" for name in names[:5]])
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert held < 12_000_000


def test_of_many_runs_only_what_may_count_is_kept() -> None:
    run = [
        "(APIServer pid=1) INFO 09-12 21:04:10 [a.py:1] vLLM API server version 0.28.0",
        "(Worker_TP0 pid=7) ERROR 09-12 21:05:20 [m.py:868] torch.OutOfMemoryError: CUDA out of"
        " memory. Tried to allocate 1.25 GiB.",
        "(APIServer pid=1) RuntimeError: Engine core initialization failed.",
        "[Sat Sep 12 21:04:50 2026] EXT4-fs error (device sdc): ext4_lookup",
        *["(APIServer pid=1) INFO 09-12 21:04:10 [a.py:1] Waiting."] * 16,
    ]
    scan = LogScan(SHIPPED)
    scan.feed(run)
    once = len(scan.finish().hits)
    for _ in range(500):
        scan.feed(run)
    scanned = scan.finish()
    assert scanned.epoch == 500
    assert once >= 2
    assert len(scanned.hits) < 2 * once
    assert min(hit.line_no or 0 for _, hit in scanned.hits) == 4

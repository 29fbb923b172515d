"""Lines that a console folded are put together again, and others are left alone."""

from __future__ import annotations

import textwrap

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fixtures.rule_samples import SAMPLES, SHIPPED
from twinrig.diagnosis.explain import diagnose
from twinrig.diagnosis.unfold import folds, logical_lines, unfold

RICH = [
    '2026-09-09 20:15:24.055 ERROR:      File "/home/user/tabbyAPI/main.py", line',
    "432, in entrypoint_async",
    '2026-09-09 20:15:24.103 ERROR:      File "/home/user/tabbyAPI/venv/lib/python3.1',
    '2/site-packages/exllamav3/model/model_ls.py", line 1104, in _load_autosplit',
    "2026-09-09 20:15:24.116 ERROR:    RuntimeError: Insufficient VRAM in split for",
    "model and cache",
]


def test_rich_folds_at_words_and_cuts_long_ones() -> None:
    assert len(RICH[2]) == 80
    found = unfold(RICH, 19)
    assert found.texts[0].endswith('main.py", line 432, in entrypoint_async')
    assert "/python3.12/site-packages/" in found.texts[1]
    assert found.texts[2].endswith("in split for model and cache")
    assert list(found.numbers) == [19, 21, 23]


def test_what_was_cut_at_the_margin_is_read_both_ways() -> None:
    head = "x" * 74 + " for a"
    found = unfold(["2026-09-09 20:15:24.055 ERROR:    y" + "z" * 45, head, "model", "short"], 1)
    assert found.texts[-1] == "short"
    assert any("for amodel" in text for text in found.texts)
    assert any("for a model" in text for text in found.alternatives.values())


@pytest.mark.parametrize(
    "lines",
    [
        [],
        ["one"],
        ["x" * 200, "y" * 200, "z"],
        ["a line of nearly eighty columns that ends here by itself, as some lines do ......", "b"],
        ["RuntimeError: " + "x" * 66, "KeyError: 'later'"],
    ],
)
def test_other_logs_stay(lines: list[str]) -> None:
    found = unfold(lines, 5)
    assert found.texts == lines and list(found.numbers) == list(range(5, 5 + len(lines)))
    assert not folds(lines)


def test_prefixes_before_and_after_folding() -> None:
    prefix = "server-1  | "
    inside = logical_lines([prefix + line for line in RICH], 1)
    assert inside.texts[2].endswith("model and cache") and list(inside.numbers) == [1, 3, 5]
    long = f"{prefix}(Worker_TP0 pid=7) ERROR 1 RuntimeError: UVA is not available" + " x" * 60
    cut = [long[at : at + 80] for at in range(0, len(long), 80)]
    outside = logical_lines([*cut, prefix + "end", *cut], 1)
    assert outside.texts[0] == long.removeprefix(prefix)
    assert list(outside.numbers) == [1, len(cut) + 1, len(cut) + 2]


@settings(deadline=None)
@given(st.lists(st.text(alphabet="ab \x1b\r\0|:1", max_size=100), max_size=30))
def test_numbers_never_leave_the_block(lines: list[str]) -> None:
    found = logical_lines(lines, 7)
    assert len(found.texts) == len(found.numbers)
    assert list(found.numbers) == sorted(set(found.numbers))
    assert all(7 <= number < 7 + max(1, len(lines)) for number in found.numbers)
    assert all(0 <= index < len(found.texts) for index in found.alternatives)


def cut(line: str) -> list[str]:
    return [line[at : at + 80] for at in range(0, max(1, len(line)), 80)]


def wrapped(line: str) -> list[str]:
    return textwrap.wrap(line, 80, replace_whitespace=False, break_on_hyphens=False) or [""]


@pytest.mark.parametrize("fold", [cut, wrapped])
def test_folded_samples_are_told_or_not_known_but_never_wrong(fold: object) -> None:
    told = wrong = 0
    for sample in SAMPLES:
        if not sample.wanted:
            continue
        lines = [part for line in sample.lines for part in fold(line)]
        found = diagnose(lines, sample.exit, SHIPPED, sample.context).findings
        told += bool(found) and found[0].kind.id == sample.kind
        wrong += bool(found) and found[0].kind.id != sample.kind and found[0].confidence != "low"
    assert wrong <= 0.02 * len(SAMPLES)
    assert told >= 0.9 * sum(s.wanted for s in SAMPLES)

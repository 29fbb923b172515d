"""Edits of other people's ``config.yml``: only the asked keys change, or nothing does."""

from __future__ import annotations

import itertools
import re

import pytest
from ruamel.yaml import YAML

from twinrig.engines.tabbyapi_edit import (
    ConfigRefusedError,
    edit_sections,
    read_sections,
    yaml_value,
)

WANTED = {
    "network": {"port": 5001},
    "model": {
        "max_seq_len": 80000,
        "cache_mode": "2,2",
        "tensor_parallel": True,
        "gpu_split": (10.5, 11.0),
        "model_name": "日本 model #1",
    },
    "memory": {"cuda_malloc_async": False},
}
HEADS = ("", "# my file\n\n", "---\n", "%YAML 1.2\n---\n# c\n", "\ufeff# bom\n")
NETWORKS = (
    "network:\n  host: 127.0.0.1 # here\n  port: 5000\n",
    "network: {host: 127.0.0.1, port: 5000} # one line\n",
    "network:\n    host:   127.0.0.1\n    # four\n    port:     5000   # wide\n",
    'network:\n  port: "5000"\n  host: "127.0.0.1"\n\n\n',
)
MODELS = (
    "model:\n  # K and V\n  cache_mode: Q4 # bits\n  max_seq_len:\n  tensor_parallel: no\n",
    "model: # all\n  gpu_split:\n  - 10 # first\n  # between\n  - 11\n  vision: false\n  # last\n",
    "model:\n  max_seq_len: &ctx 4096\n  cache_mode: 'Q8'\n  gpu_split: [1,\n    2]\n# out\n",
    "model:\n",
    "# no model here\n",
)
TAILS = (
    "",
    "strange:\n  deep: [{a: 1}, 'b: c'] # kept\n",
    "memory: # m\n  cuda_malloc_async: True\n",
)
VARIANTS = ["".join(parts) for parts in itertools.product(HEADS, NETWORKS, MODELS, TAILS)]


def comments(text: str) -> list[str]:
    return [c.strip() for c in re.findall(r"(?:^|\s)(#.*)$", text.replace("\r", ""), re.MULTILINE)]


def plain(text: str) -> dict:
    return YAML(typ="safe", pure=True).load(text.removeprefix("\ufeff")) or {}


def test_there_are_enough_variants() -> None:
    assert len(VARIANTS) == len(set(VARIANTS)) >= 200


@pytest.mark.parametrize(("newline", "each"), [("\n", 1), ("\r\n", 7)])
def test_only_the_asked_keys_change(newline: str, each: int) -> None:
    edited_at_all = 0
    for number, variant in enumerate(VARIANTS[::each]):
        text = variant.replace("\n", newline)
        edited = edit_sections(text, WANTED, "config.yml")
        expected = plain(text)
        for section, values in WANTED.items():
            target = expected[section] = expected.get(section) or {}
            for key, value in values.items():
                target[key] = list(value) if isinstance(value, tuple) else value
        assert plain(edited) == expected, text
        kept = comments(edited)
        for comment in comments(text):
            assert comment in kept, (text, edited)
        assert edited.startswith("\ufeff") == text.startswith("\ufeff")
        if newline == "\r\n":
            assert "\n" not in edited.replace("\r\n", "")
        if number % 10 == 0:
            assert edit_sections(edited, WANTED, "config.yml") == edited
        edited_at_all += edited != text
    assert edited_at_all == len(VARIANTS[::each])


_OURS = re.compile(r"port|max_seq_len|cache_mode|tensor_parallel|gpu_split|cuda_malloc_async")
_OLD_SPLIT = {"- 10 # first", "- 11", "2]"}


def test_no_other_line_loses_a_byte() -> None:
    for variant in VARIANTS:
        for text in (variant, variant.replace("\n", "\r\n")):
            kept = set(edit_sections(text, WANTED, "c").splitlines(keepends=True))
            lost = [line for line in text.splitlines(keepends=True) if line not in kept]
            lost = [line for line in lost if not _OURS.search(line)]
            assert {line.strip() for line in lost} <= _OLD_SPLIT, (text, lost)


def test_what_is_so_already_leaves_every_byte() -> None:
    text = "model:   {max_seq_len:   80000}   # odd\r\n\r\n\r\n"
    assert edit_sections(text, {"model": {"max_seq_len": 80000}}, "c") == text


def test_untouched_lines_keep_their_bytes() -> None:
    text = "a:   1\nmodel:\n    x:    'y'   # odd\n    max_seq_len: 1 # n\n\n\nz: [ 1,2 ]\n"
    edited = edit_sections(text, {"model": {"max_seq_len": 2}}, "c")
    assert edited == text.replace("max_seq_len: 1 # n", "max_seq_len: 2 # n")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("model:\n\tmax_seq_len: 1\n", 2),
        ("model:\n  max_seq_len: 1\n  max_seq_len: 2\n", 3),
        ("model: &m\n  max_seq_len: 1\nother: *m\n", 1),
        ("model:\n  max_seq_len: &n 1\nother: *n\n", 2),
        ("model:\n  max_seq_len: 1\n vision: true\n", 3),
        ("model: [1\n", 2),
        ("- model\n", 1),
        ("model: text\n", 1),
        ("a: 1\n---\nmodel:\n", 2),
        ("model:\n  ? max_seq_len\n  : 1\n", 2),
        ("# none\n~\n", 2),
        ("x: 1\nmodel: !!map {}\n", 2),
        ("  x: |\n    Q8", 2),
        ("model:\n  vision: true\n...\n", 3),
        ("? [a, b]\n: 1\n", 2),
        ("model:\n  ? [a]\n  : 1\n", 2),
    ],
)
def test_what_cannot_be_edited_safely_is_refused(text: str, line: int) -> None:
    with pytest.raises(ConfigRefusedError) as caught:
        edit_sections(text, WANTED, "/x/config.yml")
    assert caught.value.line_no == line
    assert "/x/config.yml" in str(caught.value) and f"line {line}" in str(caught.value)
    assert caught.value.next_step is not None


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a: &x 5\nmodel:\n  max_seq_len: *x\n", "a: &x 5\nmodel:\n  max_seq_len: 9\n"),
        ("b: &b {q: 1}\nmodel:\n  <<: *b\n", "b: &b {q: 1}\nmodel:\n  <<: *b\n  max_seq_len: 9\n"),
        ("model: {}\n", "model: {max_seq_len: 9}\n"),
        ("---", "---\nmodel:\n  max_seq_len: 9\n"),
        ("--- # c\n", "--- # c\nmodel:\n  max_seq_len: 9\n"),
        ("model: {a: 1,}\n", "model: {a: 1,max_seq_len: 9}\n"),
        ("  model:\n    a: 1", "  model:\n    a: 1\n    max_seq_len: 9"),
        (
            "model:\n  a: |\n    x\n    y\n\nb: 1\n",
            "model:\n  a: |\n    x\n    y\n  max_seq_len: 9\n\nb: 1\n",
        ),
    ],
)
def test_unusual_but_safe_forms(before: str, after: str) -> None:
    assert edit_sections(before, {"model": {"max_seq_len": 9}}, "c") == after


def test_a_value_can_be_blanked() -> None:
    assert (
        edit_sections("model:\n  a: 1 # c\n", {"model": {"a": None}}, "c") == "model:\n  a:  # c\n"
    )
    assert read_sections("model:\n  a:  # c\n", "c") == {"model": {"a": None}}


@pytest.mark.parametrize(
    "value",
    [
        *[
            "no",
            "on",
            "1e5",
            "2,2",
            "null",
            "a: b",
            "#x",
            "",
            " x",
            "日本",
            "5000",
            "0x1",
            "~",
            "*a",
        ],
        *["1.0", "2026-08-13", True, False, 0, 1.0, 1e-9, [], ["no", "1"], [1.5, 2.0], {"a": [1]}],
        *["a\nb", "'", '"'],
    ],
)
def test_every_value_reads_back_as_it_was(value: object) -> None:
    edited = edit_sections("", {"model": {"x": value}}, "c")
    assert read_sections(edited, "c") == {"model": {"x": value}}
    assert yaml_value(value) in edited

"""Only the asked lines change: comments, order, line ends and everything else stay."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinrig.domain.ini_text import edit_ini, read_ini

FILE = (
    "# my settings\r\n"
    "[wsl2]\r\n"
    "Memory = 24GB   # half of it\r\n"
    "processors=8\r\n"
    "\r\n"
    "# last things\r\n"
    "[experimental]\r\n"
    "sparseVhd=true\r\n"
)


def test_a_value_is_replaced_in_place_with_its_spacing_and_comment() -> None:
    changed = edit_ini(FILE, {("wsl2", "memory"): "48GB"})

    assert changed == FILE.replace("24GB", "48GB")


def test_a_new_key_goes_to_the_end_of_its_section() -> None:
    changed = edit_ini(FILE, {("WSL2", "swap"): "32GB"})

    assert changed == FILE.replace("processors=8\r\n", "processors=8\r\nswap=32GB\r\n")


def test_a_new_section_goes_to_the_end_of_the_file() -> None:
    changed = edit_ini(FILE, {("general", "instanceIdleTimeout"): "-1"})

    assert changed == FILE + "\r\n[general]\r\ninstanceIdleTimeout=-1\r\n"


def test_a_file_without_a_last_line_end_gets_one_of_its_own_kind() -> None:
    assert edit_ini("[a]\r\nx=1", {("a", "y"): "2"}) == "[a]\r\nx=1\r\ny=2\r\n"
    assert edit_ini("[a]", {("b", "y"): "2"}) == "[a]\n\n[b]\ny=2\n"


def test_a_new_file_has_the_line_ends_that_are_asked_for() -> None:
    assert edit_ini("", {("wsl2", "memory"): "8GB"}, newline="\r\n") == "[wsl2]\r\nmemory=8GB\r\n"


def test_the_first_of_equal_keys_counts_and_is_the_one_that_changes() -> None:
    text = "[wsl2]\nmemory=8GB\n[experimental]\n[WSL2]\nMEMORY=9GB\n"

    assert read_ini(text).value("wsl2", "memory") == "8GB"
    assert edit_ini(text, {("wsl2", "memory"): "1GB"}) == text.replace("8GB", "1GB")
    assert [entry.line_no for entry in read_ini(text).duplicates()] == [5]


def test_removing_takes_all_of_equal_keys() -> None:
    text = "[wsl2]\nmemory=8GB\n# stays\nmemory=9GB\n"

    assert edit_ini(text, {("wsl2", "memory"): None}) == "[wsl2]\n# stays\n"
    assert edit_ini(text, {("wsl2", "swap"): None}) == text


def test_a_key_in_another_section_or_in_a_comment_is_another_key() -> None:
    text = "memory=1\n[other]\nmemory=2\n#memory=3\n#[wsl2]\n"

    assert edit_ini(text, {("wsl2", "memory"): "4"}) == text + "\n[wsl2]\nmemory=4\n"


def test_lines_of_no_known_kind_are_named_by_number() -> None:
    found = read_ini("\ufeff[wsl2]\nmemory 8GB\n; not a comment here\nx=1\n[open\n")

    assert found.broken == (2, 3, 5)
    assert [(e.section, e.key, e.value, e.line_no) for e in found.entries] == [
        ("wsl2", "x", "1", 4)
    ]


def test_the_byte_order_mark_stays_in_front() -> None:
    assert edit_ini("\ufeff[a]\nx=1\n", {("a", "x"): "2"}) == "\ufeff[a]\nx=2\n"


LINES = st.sampled_from(
    [
        "[wsl2]",
        "[general]",
        " [ WSL2 ] # c",
        "memory=8GB",
        "  Memory = 9GB # why",
        "swap=0",
        "# 設定 [wsl2]",
        "",
        "nonsense",
        "x = # only a comment",
        "kernelCommandLine = a=b c#d",
    ]
)


@given(
    st.lists(st.tuples(LINES, st.sampled_from(["\n", "\r\n"])), max_size=12),
    st.sampled_from([("wsl2", "memory"), ("general", "instanceIdleTimeout")]),
    st.sampled_from(["48GB", "-1"]),
    st.booleans(),
)
def test_only_the_asked_key_changes_and_editing_twice_is_editing_once(
    parts: list[tuple[str, str]], name: tuple[str, str], value: str, cut: bool
) -> None:
    text = "".join(line + end for line, end in parts)
    text = text.rstrip("\r\n") if cut else text
    before = read_ini(text)
    changed = edit_ini(text, {name: value})
    after = read_ini(changed)

    assert after.value(*name) == value
    assert edit_ini(changed, {name: value}) == changed

    def others(entries: object) -> list[tuple[str, str, str]]:
        own = (name[0].lower(), name[1].lower())
        found = [(e.section, e.key, e.value) for e in entries]  # type: ignore[attr-defined]
        return [e for e in found if (e[0].lower(), e[1].lower()) != own]

    assert others(after.entries) == others(before.entries)
    kept = [line for line in text.splitlines() if line.lstrip().startswith("#")]
    assert [line for line in changed.splitlines() if line.lstrip().startswith("#")] == kept
    assert len(after.broken) == len(before.broken)
    removed = read_ini(edit_ini(text, {name: None}))
    assert removed.value(*name) is None


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_what_is_added_and_removed_again_leaves_the_bytes(end: str) -> None:
    text = f"[wsl2]{end}memory=8GB{end}{end}# end{end}"
    added = edit_ini(text, {("wsl2", "swap"): "1GB"})

    assert edit_ini(added, {("wsl2", "swap"): None}) == text

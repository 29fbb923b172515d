"""What the command line says of itself."""

from __future__ import annotations

import re

import pytest

from twinrig.cli.command_parser import fault_of
from twinrig.cli.main import main
from twinrig.cli.text_width import width


@pytest.mark.parametrize(
    "words", [("start", "--timeout", "soon"), ("bench", "--users", "many"), ("start", "--prove=x")]
)
def test_no_name_of_the_program_inside_is_told(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words, lambda _: pytest.fail("opened")) == 2
    told = capsys.readouterr().err
    assert words[1].partition("=")[0] in told
    assert "invalid" not in told and "_seconds" not in told and "int " not in told


@pytest.mark.parametrize("words", [(), ("start",), ("profiles",), ("profiles", "edit")])
def test_a_help_is_in_one_language(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, "--help", "--language", "ja"], lambda _: pytest.fail("opened")) == 0
    told = capsys.readouterr().out
    assert not re.search("show this|options:|arguments:|usage:", told)
    assert told.startswith("使い方: twinrig")


WRONG = (
    ("fooo",),
    ("switch",),
    ("start", "--timeout", "soon"),
    ("bench", "--users", "many"),
    ("bench", "--rounds", "0"),
    ("bench", "--compare"),
    ("bench", "--l"),
    ("doctor", "--check"),
    ("start", "--no-wait=3"),
    ("watch", "--record", "a", "--replay", "b"),
    ("status", "--unknown"),
    ("--target", "moon", "status"),
)


ENGLISH = re.compile(
    r"\b(argument|arguments|required|unrecognized|ambiguous|could|match|invalid|choice|choose|from"
    r"|cannot|use|expected|one|least|most|ignored|explicit|allowed|with|error)\b"
)


@pytest.mark.parametrize("words", WRONG)
def test_what_is_wrong_is_said_in_one_language(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--language", "ja", *words], lambda _: pytest.fail("opened")) == 2
    usage, _, told = capsys.readouterr().err.partition("エラー: ")
    assert usage.startswith("使い方: ")
    assert not ENGLISH.search(told.partition("\n")[0]), told
    assert main([*words, "--language", "ja", "--json"], lambda _: pytest.fail("opened")) == 2
    assert "コマンド" in capsys.readouterr().out


def test_a_fault_that_argparse_may_learn_later_stays_as_it_is() -> None:
    assert str(fault_of("argument X: something new")) == "argument X: something new"
    assert str(fault_of("argument N: invalid int value: 'a: b'")) == "argument N: cannot use 'a: b'"


def test_lines_of_a_help_count_cells(capsys: pytest.CaptureFixture[str], monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["bench", "--help", "--language", "ja"], lambda _: pytest.fail("opened")) == 0
    assert max(width(line) for line in capsys.readouterr().out.splitlines()) <= 80

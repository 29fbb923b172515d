"""What the command line says of itself."""

from __future__ import annotations

import re

import pytest

from twinrig.cli.main import main


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
    assert not re.search("show this|options:|arguments:", told)

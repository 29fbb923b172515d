from __future__ import annotations

import io
import json

import pytest

from twinrig.cli.terminal import Terminal
from twinrig.domain.errors import FieldError, HostError, ProfileError
from twinrig.messages import Translator, message


class Tty(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def terminal(answers: str | None = None, environ: dict | None = None, **rest) -> Terminal:
    source = Tty(answers) if answers is not None else io.StringIO("")
    out = rest.pop("out", None) or Tty()
    return Terminal(Translator("en"), environ or {"TERM": "xterm"}, out=out, source=source, **rest)


def written(term: Terminal) -> str:
    return term._out.getvalue()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("environ", "colour"),
    [
        ({"TERM": "xterm"}, True),
        ({"TERM": "dumb"}, False),
        ({"TERM": "xterm", "NO_COLOR": "1"}, False),
        ({"TERM": "xterm", "NO_COLOR": ""}, True),
    ],
)
def test_colour_rules(environ: dict, colour: bool) -> None:
    term = terminal(environ=environ)
    term.say(message("Fine"), "good")
    assert ("\x1b[" in written(term)) is colour


def test_no_colour_and_no_questions_without_a_terminal() -> None:
    term = terminal(out=io.StringIO())
    assert (term.colour, term.moves_cursor, term.can_ask) == (False, False, False)
    assert term.ask(message("Really?"), default=True) is False
    assert term.choose(message("Which?"), ["a", "b"]) is None
    assert written(term) == ""


@pytest.mark.parametrize(
    ("typed", "default", "answer"),
    [
        ("y\n", False, True),
        ("YES\n", False, True),
        ("はい\n", False, True),
        ("n\n", True, False),
        ("いいえ\n", True, False),
        ("\n", True, True),
        ("\n", False, False),
        ("what\ny\n", False, True),
        ("", True, False),
    ],
)
def test_ask(typed: str, default: bool, answer: bool) -> None:
    assert terminal(typed).ask(message("Really?"), default) is answer


@pytest.mark.parametrize(
    ("typed", "index"), [("2\n", 1), ("9\nx\n1\n", 0), ("\n", None), ("", None)]
)
def test_choose(typed: str, index: int | None) -> None:
    assert terminal(typed).choose(message("Which?"), ["a", "b"]) == index


def test_errors_name_the_next_step_and_every_field() -> None:
    term = terminal(out=io.StringIO())
    term.error(HostError(message("No answer."), message("Try again.")))
    term.error(ProfileError("p", [FieldError("network.port", message("is bad"))]))
    assert written(term).splitlines() == [
        "No answer.",
        "Next: Try again.",
        "Faulty fields of the profile p: 1.",
        "  network.port: is bad",
        "Next: Correct the listed fields and save again.",
    ]


def test_json_mode_prints_one_document_only() -> None:
    term = terminal("y\n", json_mode=True)
    term.say(message("Hello"))
    term.line("text")
    term.table([("a", "b")])
    term.next_step(message("x"))
    assert term.ask(message("Really?")) is False
    term.data({"text": message("日本 {n}", n=1)})
    assert json.loads(written(term)) == {"text": "日本 1"}
    broken = terminal(json_mode=True)
    broken.error(ProfileError("p", [FieldError("a.b", message("is bad"))]))
    assert json.loads(written(broken))["error"]["fields"] == [{"path": "a.b", "text": "is bad"}]


def test_plain_blocks_for_narrow_encodings() -> None:
    class Narrow(Tty):
        encoding = "cp932"

    assert not terminal(out=Narrow()).unicode
    assert terminal().unicode


def test_a_piped_key_is_its_first_line() -> None:
    term = Terminal(Translator("en"), {}, out=io.StringIO(), source=io.StringIO("secret\nrest\n"))
    assert term.read_secret(message("Key")) == "secret"


def test_hints_name_the_command_as_the_user_types_it() -> None:
    term = terminal(environ={"TWINRIG_COMMAND": "python3 installer/start.py"}, out=io.StringIO())
    term.next_step(message('See "twinrig status".'))
    assert written(term) == 'Next: See "python3 installer/start.py status".\n'

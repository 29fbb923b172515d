"""Words and scripts through what takes command lines apart: as Windows, and as Linux.

The first half is the rule by which Twinrig may call ``wsl.exe --exec`` with a list at all; the
second reads a frame by the rules of its format, without the shell that does it in earnest.
"""

from __future__ import annotations

import random
import re
import subprocess
from collections.abc import Iterator

import pytest

from doubles.windows import cmdline
from twinrig.domain.ports import Script
from twinrig.hosts.wsl.call import SHELL, WslCall
from twinrig.hosts.wsl.framing import Frame

PIECES = (
    *('"', '""', "\\", "\\\\", "$HOME", "$(id)", "'", "`", ";", "&&", "|", ">", "%PATH%", "^", "!"),
    *(
        "\n",
        "\r\n",
        "\t",
        " ",
        "  ",
        "a",
        "-e",
        "--exec",
        "--",
        "~",
        "*",
        "日本語",
        "ｶﾅ",
        "é",
        "🙂",
    ),
)
LONGEST = 30_000
FEW, MANY = 4_000, 200_000
CALL = WslCall(r"C:\Program Files\WSL\wsl.exe", "Ubuntu-24.04")


def vectors(count: int, seed: int) -> Iterator[list[str]]:
    """Short ones, and every two hundredth up to 30 kB."""
    chance = random.Random(seed)
    for turn in range(count):
        long = turn % 200 == 0
        words = []
        for _ in range(chance.randrange(5)):
            word = "".join(chance.choices(PIECES, k=chance.randrange(8)))
            if long and word:
                word *= 1 + chance.randrange(LONGEST // 4) // len(word)
            words.append(word)
        yield words


def check_command_lines(count: int, seed: int) -> None:
    for words in vectors(count, seed):
        line = subprocess.list2cmdline([*CALL.argv(), *words])
        found = cmdline.parse(line)
        assert (found.mode, found.distro, found.folder) == ("exec", "Ubuntu-24.04", "/")
        assert found.words == [*SHELL, *words], words


def unframed(request: bytes) -> tuple[list[str], bytes]:
    """Words and data of a frame, as its own head counts them."""
    head, _, body = request.partition(b"exit 0; }\n")
    sizes = re.search(rb"for size in ([0-9 ]*); do", head)
    assert sizes is not None
    words = []
    for size in map(int, sizes[1].split()):
        words.append(body[:size].decode())
        body = body[size:]
    return words, body


def check_frames(count: int, seed: int) -> None:
    chance = random.Random(seed)
    for words in vectors(count, seed):
        nonce = f"{chance.getrandbits(128):032x}"
        data = chance.randbytes(chance.randrange(40))
        argv = ["/bin/true", *words]
        assert unframed(Frame(nonce, argv, data).request()) == (argv, data)
        text = "\n".join(words)
        got, rest = unframed(Frame(nonce, Script("name", text, tuple(words)), data).request())
        assert got[3] == "-c"
        assert got[4] == f"{{ :; {text}\n}}".replace("\r\n", "\n")
        assert (got[5:], rest) == (["name", *words], data)


def test_command_lines_come_back_unchanged() -> None:
    check_command_lines(FEW, 1)


def test_frames_come_back_unchanged() -> None:
    check_frames(FEW, 2)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_two_hundred_thousand_come_back_unchanged() -> None:
    check_command_lines(MANY, 3)
    check_frames(MANY, 4)


def test_nothing_of_a_command_is_on_the_command_line() -> None:
    line = subprocess.list2cmdline(CALL.argv(root=True))
    assert line == (
        '"C:\\Program Files\\WSL\\wsl.exe" -d Ubuntu-24.04 -u root --cd / '
        "--exec /bin/bash --noprofile --norc -s"
    )
    found = cmdline.parse(line)
    assert (found.user, found.words) == ("root", list(SHELL))


@pytest.mark.parametrize(
    ("line", "mode", "rest"),
    [
        ('wsl.exe echo "$A"', "raw", 'echo "$A"'),
        ('"C:\\a b\\wsl.exe"  -d U -- a  "b" ', "raw", 'a  "b" '),
        ("wsl.exe --cd / true -d X", "raw", "true -d X"),
        ("wsl.exe", "shell", ""),
    ],
)
def test_the_raw_form_would_be_taken_apart_again(line: str, mode: str, rest: str) -> None:
    """Why ``--exec`` is used: without it quotes and ``$`` belong to the user's shell."""
    found = cmdline.parse(line)
    assert (found.mode, found.raw) == (mode, rest)


def test_names_end_at_the_first_blank_and_keep_their_quotes() -> None:
    assert cmdline.parse('wsl.exe -d "My Distro" x').distro == '"My'
    assert cmdline.parse('wsl.exe -d "U" x').distro == '"U"'
    assert cmdline.parse('wsl.exe --cd "C:\\a b" -e x').folder == "C:\\a b"
    assert cmdline.parse("wsl.exe -d A -d B").error
    assert cmdline.parse("wsl.exe -e").error
    assert cmdline.parse("wsl.exe --nonsense").error
    assert cmdline.parse("wsl.exe -l -v").verb == "list"
    guid = "{00000000-0000-4000-8000-000000000000}"
    assert cmdline.parse(f"wsl.exe {guid} ~ -e x").folder == "~"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('a "b c" d', ["a", "b c", "d"]),
        ('"a b"c', ["a b", "c"]),
        ('x a\\\\b \\\\"c d" \\\\\\"e', ["x", "a\\\\b", "\\c d", '\\"e']),
        ('x "" ""', ["x", "", ""]),
        ('x "a""b"', ["x", 'a"b']),
        ("x 'a b'", ["x", "'a", "b'"]),
        ("", []),
    ],
)
def test_command_line_to_argv(line: str, words: list[str]) -> None:
    assert cmdline.command_line_to_argv(line) == words

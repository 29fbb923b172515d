"""How the real ``wsl.exe`` takes its command line apart: one string, left to right. Pure.

``-d``, ``-u`` and ``-t`` end at the first blank and keep quotes; ``--cd`` honours one pair of them;
``--exec`` splits the rest by the rules of CommandLineToArgvW; anything else is handed, raw, to the
user's shell.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

BLANKS = " \t"
VERBS = {
    "-l": "list",
    "--list": "list",
    "-t": "terminate",
    "--terminate": "terminate",
    "-v": "version",
    "--version": "version",
    **{f"--{word}": word for word in ("status", "shutdown", "update", "help", "install", "manage")},
    **{f"--{word}": word for word in ("export", "import", "unregister", "set-default")},
}


@dataclass
class Parsed:
    """A launch (``mode`` raw, exec or shell), a management ``verb``, or an ``error``."""

    mode: str = "shell"
    verb: str = ""
    words: list[str] = field(default_factory=list)
    raw: str = ""
    distro: str = ""
    user: str = ""
    folder: str | None = None
    shell_type: str = "standard"
    error: str = ""


def parse(line: str) -> Parsed:
    """``line`` is the whole command line, the program's name included."""
    rest = skip_program(line).lstrip(BLANKS)
    found = Parsed()
    if re.match(r"\{[0-9a-fA-F-]{36}\}(?=[ \t]|$)", rest):
        found.distro, rest = _word(rest)
    if _word(rest)[0] == "~":
        found.folder, rest = _word(rest)
    while rest:
        word, after = _word(rest)
        if not word.startswith("-"):
            return _raw(found, rest)
        if word in VERBS:
            found.verb, found.words = VERBS[word], after.split()
            return found
        if word == "--":
            return _raw(found, after)
        if word in ("-e", "--exec"):
            return _exec(found, after)
        rest = _option(found, word, after)
        if found.error:
            return found
    return found


def _option(found: Parsed, word: str, after: str) -> str:
    if word in ("-d", "--distribution", "--distribution-id", "-u", "--user", "--shell-type"):
        value, rest = _word(after)
        name = {"-u": "user", "--user": "user", "--shell-type": "shell_type"}.get(word, "distro")
        if not value or (name != "shell_type" and getattr(found, name)):
            found.error = "E_INVALIDARG"
        setattr(found, name, value)
        return rest
    if word == "--cd":
        found.folder, rest = _quoted(after)
        return rest
    if word == "--system":
        return after
    found.error = "E_INVALIDARG"
    return ""


def _raw(found: Parsed, rest: str) -> Parsed:
    if found.shell_type == "none":
        return _exec(found, rest)
    found.mode, found.raw = ("raw" if rest.strip(BLANKS) else "shell"), rest
    return found


def _exec(found: Parsed, rest: str) -> Parsed:
    found.mode, found.words = "exec", command_line_to_argv(rest)
    if not found.words:
        found.error = "E_INVALIDARG"
    return found


def _word(text: str) -> tuple[str, str]:
    """Up to the first blank, quotes kept."""
    end = next((at for at, char in enumerate(text) if char in BLANKS), len(text))
    return text[:end], text[end:].lstrip(BLANKS)


def _quoted(text: str) -> tuple[str, str]:
    if not text.startswith('"'):
        return _word(text)
    value, _, rest = text[1:].partition('"')
    return value, rest.lstrip(BLANKS)


def skip_program(line: str) -> str:
    """What follows the program's name: quotes count in it, backslashes do not."""
    quoted = False
    for at, char in enumerate(line):
        if char == '"':
            quoted = not quoted
        elif char in BLANKS and not quoted:
            return line[at:]
    return ""


def command_line_to_argv(line: str) -> list[str]:
    """As CommandLineToArgvW does: the first word by the rule of a program's name."""
    line = line.lstrip(BLANKS)
    if not line:
        return []
    if line.startswith('"'):
        first, _, rest = line[1:].partition('"')
    else:
        first, rest = _word(line)
    words = [first]
    rest = rest.lstrip(BLANKS)
    while rest:
        word, rest = _argument(rest)
        words.append(word)
        rest = rest.lstrip(BLANKS)
    return words


def _argument(text: str) -> tuple[str, str]:
    """One word: 2n backslashes and a quote are n and a quote that counts; 2n+1, a plain quote."""
    out: list[str] = []
    quoted, at = False, 0
    while at < len(text):
        char = text[at]
        if char == "\\":
            end = at
            while text[end : end + 1] == "\\":
                end += 1
            count, at = end - at, end
            if text[at : at + 1] != '"':
                out.append("\\" * count)
                continue
            out.append("\\" * (count // 2))
            if count % 2:
                out.append('"')
                at += 1
        elif char == '"':
            if quoted and text[at + 1 : at + 2] == '"':
                out.append('"')
                at += 2
            else:
                quoted = not quoted
                at += 1
        elif char in BLANKS and not quoted:
            break
        else:
            out.append(char)
            at += 1
    return "".join(out), text[at:]

"""Reads systemd units as text: what a service with its drop-ins would start. Nothing is changed.

Rules of systemd.syntax and systemd.exec as far as services of this kind use them.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence

from twinrig.engines.adopting import ForeignCommand

_PREFIXES = "@-:+!"


def command_of(texts: Sequence[str], home: str) -> ForeignCommand | None:
    """The command of a unit; ``texts`` are the unit file and its drop-ins in their order.

    None when there is no ``ExecStart`` or its quoting is damaged.
    """
    start, cwd = "", home
    env: dict[str, str] = {}
    try:
        for key, value in _assignments(texts):
            value = value.replace("%h", home).replace("%%", "%")
            if key == "ExecStart":
                start = value
            elif key == "WorkingDirectory" and value:
                cwd = value.lstrip("-").replace("~", home, 1)
            elif key == "Environment":
                if not value:
                    env.clear()
                env.update(w.partition("=")[::2] for w in shlex.split(value) if "=" in w)
        words = shlex.split(start.lstrip(_PREFIXES))
    except ValueError:
        return None
    return foreign(words, cwd, env) if words else None


def environment_files(texts: Sequence[str], home: str) -> tuple[str, ...]:
    """Paths of a unit's ``EnvironmentFile=`` lines, whose variables win over ``Environment=``."""
    found: list[str] = []
    for key, value in _assignments(texts):
        if key == "EnvironmentFile":
            path = value.lstrip("-").replace("%h", home).replace("%%", "%")
            found = [*found, path] if value else []
    return tuple(found)


def environment_of(text: str) -> dict[str, str]:
    """Variables of such a file; a line with damaged quoting is left out, as systemd does."""
    env: dict[str, str] = {}
    for line in re.sub(r"\\\r?\n", "", text).splitlines():
        name, equals, value = line.strip().partition("=")
        if not equals or not re.fullmatch(r"[A-Za-z_]\w*", name):
            continue
        value = value.strip()
        quoted = re.fullmatch(r"(['\"])(.*)\1", value)
        env[name] = quoted[2] if quoted else value
    return env


def foreign(words: Sequence[str], cwd: str, env: dict[str, str]) -> ForeignCommand:
    """A command without the shell or the ``env`` in front of it; a leading ``cd`` counts.

    Raises ValueError for a shell script with damaged quoting.
    """
    words = list(words)
    if len(words) >= 3 and re.fullmatch(r"(.*/)?(ba|z|da)?sh", words[0]) and "c" in words[1]:
        inner = shlex.split(words[2])
        if inner[:1] == ["cd"] and len(inner) > 3 and inner[2] in ("&&", ";"):
            cwd, inner = f"{cwd}/{inner[1]}" if inner[1][:1] != "/" else inner[1], inner[3:]
        words = inner[1:] if inner[:1] == ["exec"] else inner
    if words and re.fullmatch(r"(.*/)?env", words[0]):
        words = words[1:]
    while words and re.fullmatch(r"[A-Za-z_]\w*=.*", words[0]):
        name, _, value = words[0].partition("=")
        env[name] = value
        words = words[1:]
    return ForeignCommand(tuple(words), cwd, dict(env))


def _assignments(texts: Sequence[str]) -> Iterator[tuple[str, str]]:
    for text in texts:
        section = ""
        for line in re.sub(r"\\\r?\n", " ", text).splitlines():
            line = line.strip()
            if line.startswith(("#", ";")) or not line:
                continue
            if line.startswith("["):
                section = line
            elif section == "[Service]" and "=" in line:
                key, _, value = line.partition("=")
                yield key.strip(), value.strip()

"""Frame format of the probe script: how one call carries the answers of many probes.

Every line of an answer starts with the nonce and the probe's name, so that shell greetings,
warnings of ``wsl.exe`` or an answer that quotes the format itself cannot be confused with it::

    NONCE gpu o 0, GPU-1a2b, NVIDIA GeForce RTX 3090
    NONCE gpu e some words on standard error
    NONCE gpu end 0
    NONCE . done 1

``o`` and ``e`` are lines of standard output and standard error; ``end`` carries the return code
(124 and 137: stopped by its time-out). An answer without ``end`` was cut off.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from twinrig.domain.checks import ProbeOutput

PROBE_SCRIPT = "preflight-probes"
"""Name of the Script that carries the probes; a simulated host answers this one."""

TIMEOUT_CODES = frozenset({124, 137})
"""Return codes of coreutils ``timeout`` when it ended the command (TERM, then KILL)."""

_NONCE = re.compile(r"[0-9a-f]{16,64}")
_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")


@dataclass(frozen=True)
class ProbeRequest:
    """Arguments of the probe script, in this order: ``$1`` to ``$6``.

    ``endpoint`` is ``HOST:PORT``; an empty value means that nothing was given and the probes
    that need it answer with nothing. ``sysroot`` is put before /proc, /etc, /dev/shm (tests).
    """

    nonce: str
    names: tuple[str, ...]
    model_path: str = ""
    environment: str = ""
    endpoint: str = ""
    sysroot: str = ""

    def __post_init__(self) -> None:
        """Raises ValueError for a nonce or name that cannot be framed."""
        if not _NONCE.fullmatch(self.nonce):
            raise ValueError(f"not a nonce: {self.nonce!r}")
        for name in self.names:
            if not _NAME.fullmatch(name):
                raise ValueError(f"not a probe name: {name!r}")

    def to_args(self) -> tuple[str, ...]:
        """Positional arguments for the script."""
        return (
            self.nonce,
            " ".join(self.names),
            self.model_path,
            self.environment,
            self.endpoint,
            self.sysroot,
        )

    @classmethod
    def from_args(cls, args: Sequence[str]) -> ProbeRequest:
        """Inverse of ``to_args``; missing trailing arguments read as empty."""
        padded = (*args, *[""] * 6)[:6]
        return cls(padded[0], tuple(padded[1].split()), *padded[2:])


def format_frames(nonce: str, outputs: Iterable[ProbeOutput]) -> str:
    """What the script prints for these answers; a time-out is written as return code 124.

    An answer that never ran (``returncode`` None, not timed out) gets no ``end`` line.
    """
    lines: list[str] = []
    count = 0
    for output in outputs:
        count += 1
        for mark, text in (("o", output.stdout), ("e", output.stderr)):
            lines += [f"{nonce} {output.name} {mark} {line}" for line in _lines(text)]
        code = 124 if output.timed_out else output.returncode
        if code is not None:
            lines.append(f"{nonce} {output.name} end {code}")
    lines.append(f"{nonce} . done {count}")
    return "\n".join(lines) + "\n"


def parse_frames(nonce: str, text: str) -> Mapping[str, ProbeOutput]:
    """Answers by name. Foreign lines are skipped; a cut answer reads as "did not end".

    The first ``end`` of a probe closes it: later lines with its name are not believed.
    """
    streams: dict[str, tuple[list[str], list[str]]] = {}
    codes: dict[str, int] = {}
    for line in text.split("\n"):
        parts = line.rstrip("\r").split(" ", 3)
        if len(parts) < 3 or parts[0] != nonce or not _NAME.fullmatch(parts[1]):
            continue
        name, mark, rest = parts[1], parts[2], parts[3] if len(parts) > 3 else ""
        if name in codes:
            continue
        out, err = streams.setdefault(name, ([], []))
        if mark == "o":
            out.append(rest)
        elif mark == "e":
            err.append(rest)
        elif mark == "end" and rest.strip().isdecimal():
            codes[name] = int(rest)
    return {name: _output(name, *lines, codes.get(name)) for name, lines in streams.items()}


def is_complete(nonce: str, text: str) -> bool:
    """Whether the script came to its end; False after a time-out of the whole call."""
    return any(line.startswith(f"{nonce} . done ") for line in text.split("\n"))


def _lines(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n") if text else []


def _output(name: str, out: list[str], err: list[str], code: int | None) -> ProbeOutput:
    timed_out = code in TIMEOUT_CODES
    return ProbeOutput(
        name=name,
        returncode=None if timed_out else code,
        stdout="".join(f"{line}\n" for line in out),
        stderr="".join(f"{line}\n" for line in err),
        timed_out=timed_out,
    )

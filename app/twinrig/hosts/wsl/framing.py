"""How one call of ``wsl.exe`` carries a command, its data and its result.

Standard input of the Linux shell is a program of a few lines, then the words of the command byte
by byte counted, then the data for its standard input. The answer stands between two lines with a
nonce, on both streams::

    BEGIN NONCE
    ...output, bytes as they are...␞END NONCE 0

Whatever stands outside was written by ``wsl.exe`` or a start script. Without an END line the
command did not come to its end, whatever the exit code says: 1 may as well mean that the
distribution was stopped meanwhile. END is introduced by the separator byte 1E, not by a line end:
output need not end in one, and a line that is complete is passed on at once.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from twinrig.domain.ports import Script

CALL_VARIABLE = "TWINRIG_CALL"
"""Marks every process of a call (``call_mark``), so that none outlives a time-out."""

LINUX_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/lib/wsl/lib"
"""Windows' own folders are left out: ``python`` and ``git`` would be programs of Windows."""

WORD_LIMIT_BYTES = 120_000
"""Linux takes no single word of 128 KiB or more."""

_NONCE = re.compile(r"[0-9a-f]{16,64}")
_BASH = ("/bin/bash", "--noprofile", "--norc", "-c")

# The shell reads a group whole before it runs it, and not a byte further. LC_ALL=C: sizes are
# bytes. A word that came short means that the input was cut: then nothing is run.
_LAUNCHER = """{{ export LC_ALL=C; words=(); whole=yes
for size in {sizes}; do word=
[ "$size" = 0 ] || IFS= read -r -N "$size" word; [ "${{#word}}" = "$size" ] || whole=no
words+=("$word"); done; [ "$whole" = yes ] || exit 1
unset BASH_ENV ENV CDPATH WSLENV word whole size; export LC_ALL=C.UTF-8 {variable}={mark}
export PATH={path}
printf 'BEGIN %s\\n' {nonce}; printf 'BEGIN %s\\n' {nonce} >&2; absent=
type -P -- "${{words[0]}}" >/dev/null || absent=' absent'
( exec -- "${{words[@]}}" ){redirection}; status=$?
printf '\\036END %s %s%s\\n' {nonce} "$status" "$absent"
printf '\\036END %s %s%s\\n' {nonce} "$status" "$absent" >&2
exit 0; }}
"""


def call_mark(nonce: str) -> str:
    """Value of ``CALL_VARIABLE``: not the nonce, which the command itself must not learn."""
    return hashlib.sha256(nonce.encode("ascii")).hexdigest()[:32]


@dataclass(frozen=True)
class Frame:
    """One command with its data. ``merged``: both streams go to standard output, as they come."""

    nonce: str
    command: Sequence[str] | Script
    stdin: bytes | None = None
    merged: bool = False

    def request(self) -> bytes:
        """Standard input of the call. Raises ValueError for words that Linux cannot take."""
        if not _NONCE.fullmatch(self.nonce):
            raise ValueError(f"not a nonce: {self.nonce!r}")
        words = [word.encode("utf-8", "surrogateescape") for word in self.words()]
        for word in words:
            if b"\0" in word or len(word) > WORD_LIMIT_BYTES:
                raise ValueError(f"a word of {len(word)} bytes cannot be passed to Linux")
        redirection = " </dev/null" if self.stdin is None else ""
        launcher = _LAUNCHER.format(
            sizes=" ".join(str(len(word)) for word in words),
            nonce=self.nonce,
            variable=CALL_VARIABLE,
            mark=call_mark(self.nonce),
            path=LINUX_PATH,
            redirection=redirection + (" 2>&1" if self.merged else ""),
        )
        return b"".join((launcher.encode("ascii"), *words, self.stdin or b""))

    def words(self) -> tuple[str, ...]:
        """Exact argv. A script is one word, in braces so that it is read whole before it runs."""
        if not isinstance(self.command, Script):
            words = tuple(self.command)
            if not words or not words[0]:
                raise ValueError("a command without a program")
            return words
        text = self.command.text.replace("\r\n", "\n")
        return (*_BASH, f"{{ :; {text}\n}}", self.command.name, *self.command.args)


@dataclass(frozen=True)
class Framed:
    """What came back. ``status`` None: no END line. ``absent``: there is no such program."""

    began: bool
    status: int | None
    absent: bool
    stdout: bytes
    stderr: bytes
    noise: bytes


def read_frame(nonce: str, stdout: bytes, stderr: bytes) -> Framed:
    """Result of a call from its two streams; a stream without END keeps what came until then."""
    began, out, status, absent, noise = _unwrap(nonce, stdout)
    _, err, _, _, more = _unwrap(nonce, stderr)
    return Framed(began, status, absent, out, err, noise + more)


def _unwrap(nonce: str, data: bytes) -> tuple[bool, bytes, int | None, bool, bytes]:
    before, begin, rest = data.partition(f"BEGIN {nonce}\n".encode())
    if not begin:
        return False, b"", None, False, data
    ends = list(re.finditer(_end_pattern(nonce), rest))
    if not ends:
        return True, rest, None, False, before
    end = ends[-1]
    payload, after = rest[: end.start()], rest[end.end() :]
    return True, payload, int(end[1]), bool(end[2]), before + after


def _end_pattern(nonce: str) -> bytes:
    return rf"\x1eEND {nonce} (\d{{1,3}})( absent)?\n".encode()


class FrameReader:
    """Reads the standard output of one call as it comes."""

    def __init__(self, nonce: str) -> None:
        self._begin = f"BEGIN {nonce}\n".encode()
        self._marker = f"\x1eEND {nonce} ".encode()
        self._end = re.compile(_end_pattern(nonce))
        self._held = b""
        self.began = False
        self.status: int | None = None
        self.absent = False
        self.noise = b""

    def feed(self, chunk: bytes) -> bytes:
        """What of the payload is certain now; a possible END line is held back."""
        self._held += chunk
        if self.status is not None:
            return b""
        if not self.began and not self._start():
            return b""
        end = self._end.search(self._held)
        if end is not None:
            payload, self._held = self._held[: end.start()], b""
            self.status, self.absent = int(end[1]), bool(end[2])
            return payload
        keep = self._possible_end()
        payload, self._held = self._held[:keep], self._held[keep:]
        return payload

    def rest(self) -> bytes:
        """What was held back, once the stream is over without an END line."""
        held, self._held = self._held, b""
        return held if self.began and self.status is None else b""

    def _start(self) -> bool:
        before, begin, rest = self._held.partition(self._begin)
        if not begin:
            self.noise = self._held
            return False
        self.began, self.noise, self._held = True, before, rest
        return True

    def _possible_end(self) -> int:
        """Index from which the held bytes may still become an END line."""
        at = self._held.rfind(self._marker)
        if at >= 0 and b"\n" not in self._held[at + len(self._marker) :]:
            return at
        for size in range(min(len(self._marker), len(self._held)), 0, -1):
            if self._marker.startswith(self._held[-size:]):
                return len(self._held) - size
        return len(self._held)

"""Everything the command line prints and asks: text or JSON, colour or none, one place.

Errors go to stderr, so that a pipe gets data only.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from twinrig.cli.interrupts import interruptible
from twinrig.cli.plain import plain
from twinrig.cli.text_width import table, wrap
from twinrig.domain.errors import ProfileError, TwinrigError
from twinrig.messages import Message, Translator, message

_STYLES = {"good": "32", "warn": "33", "bad": "31", "dim": "2", "bold": "1", "accent": "36"}
_YES = re.compile(r"\s*(y|yes|j|はい|h)\s*", re.IGNORECASE)
_NO = re.compile(r"\s*(n|no|いいえ|i)\s*", re.IGNORECASE)
MIN_WIDTH = 40


class OutputLostError(Exception):
    """What should be printed cannot be: a full disk, say; ``str`` of this is the reason."""


class Terminal:
    """Output of one command. With ``json_mode`` only one JSON document goes to ``out``."""

    def __init__(
        self,
        translator: Translator,
        environ: Mapping[str, str],
        *,
        json_mode: bool = False,
        out: TextIO | None = None,
        source: TextIO | None = None,
    ) -> None:
        self.translator = translator
        self.json_mode = json_mode
        self._faults = out if out is not None else sys.stderr
        self._out = out if out is not None else sys.stdout
        self._source = source if source is not None else sys.stdin
        self.is_tty = bool(self._out and self._out.isatty()) and not json_mode
        self._command = environ.get("TWINRIG_COMMAND", "") or "twinrig"
        dumb = environ.get("TERM", "") == "dumb"
        self.colour = self.is_tty and not environ.get("NO_COLOR") and not dumb
        self.moves_cursor = self.is_tty and not dumb
        encoding = (getattr(self._out, "encoding", None) or "utf-8").lower().replace("-", "")
        self.unicode = encoding in ("utf8", "utf16", "utf32", "utf8sig", "cp65001")

    @property
    def width(self) -> int:
        """Cells of a line."""
        return max(MIN_WIDTH, shutil.get_terminal_size((100, 24)).columns)

    @property
    def can_ask(self) -> bool:
        """Whether somebody sits there to answer."""
        return self.is_tty and bool(self._source and self._source.isatty())

    def text(self, msg: Message | str, **params: Any) -> str:
        """Translated text; commands in it begin as the user has to type them."""
        text = self.translator.text(msg, **params)
        return text.replace('"twinrig ', f'"{self._command} ')

    def style(self, text: str, name: str) -> str:
        """``text`` in a style, where colours are wanted."""
        code = _STYLES.get(name)
        return f"\x1b[{code}m{text}\x1b[0m" if self.colour and code and text else text

    def say(self, msg: Message | str, style: str = "", **params: Any) -> None:
        """One translated sentence; silent in JSON mode."""
        self.line(self.style(self.text(msg, **params), style))

    def line(self, text: str = "") -> None:
        """One line as it is; silent in JSON mode."""
        if not self.json_mode:
            self.write(text + "\n")

    def paragraph(self, msg: Message | str, indent: str = "", style: str = "") -> None:
        """A sentence wrapped to the width."""
        for part in wrap(self.text(msg), self.width, indent):
            self.line(self.style(part, style))

    def table(self, rows: Sequence[Sequence[str]], indent: str = "") -> None:
        """Rows with aligned columns."""
        for text in table(rows):
            self.line(indent + text)

    def data(self, value: Any) -> None:
        """The one JSON document of a command; does nothing in text mode."""
        if self.json_mode:
            document = plain(value, self.translator)
            self.write(json.dumps(document, ensure_ascii=False, indent=1) + "\n")

    def error(self, error: TwinrigError) -> None:
        """What happened and what to do next: on stderr, or as the JSON document."""
        if self.json_mode:
            faults = error.errors if isinstance(error, ProfileError) else ()
            self.data(
                {"error": {"text": error.text, "next_step": error.next_step, "fields": faults}}
            )
            return
        lines = [self.style(part, "bad") for part in wrap(self.text(error.text), self.width)]
        if isinstance(error, ProfileError):
            lines += [f"  {fault.path}: {self.text(fault.text)}" for fault in error.errors]
        if error.next_step is not None:
            step = message("Next: {step}", step=error.next_step)
            lines += wrap(self.text(step), self.width)
        self._put("".join(f"{line}\n" for line in lines), self._faults)

    def next_step(self, step: Message | None, indent: str = "") -> None:
        """The next step, marked as such; nothing when there is none."""
        if step is not None:
            self.paragraph(message("Next: {step}", step=step), indent)

    def ask(self, question: Message, default: bool = False) -> bool:
        """Yes or no. ``default`` counts for an empty answer; False when nobody can answer."""
        if not self.can_ask:
            return False
        hint = "[Y/n]" if default else "[y/N]"
        while True:
            self.write(f"{self.text(question)} {hint} ")
            answer = self._read_line()
            if not answer:
                self.line()
                return False
            if not answer.strip():
                return default
            if _YES.fullmatch(answer):
                return True
            if _NO.fullmatch(answer):
                return False

    def choose(self, question: Message, options: Sequence[str]) -> int | None:
        """Index of the chosen line; None when nobody can answer or the answer is empty."""
        if not self.can_ask:
            return None
        for number, option in enumerate(options, 1):
            self.line(f"  {number}) {option}")
        while True:
            self.write(f"{self.text(question)} [1-{len(options)}] ")
            answer = self._read_line()
            if not answer.strip():
                return None
            if answer.strip().isdecimal() and 1 <= int(answer) <= len(options):
                return int(answer) - 1

    def read_secret(self, question: Message) -> str:
        """A key: typed without echo, or the first line of what is piped in."""
        if self.can_ask:
            import getpass

            with interruptible():
                return getpass.getpass(self.text(question) + " ").strip()
        return self._read_line().strip()

    def _read_line(self) -> str:
        with interruptible():
            return self._source.readline()

    def write(self, text: str) -> None:
        """Characters as they are, at once. Raises OutputLostError, BrokenPipeError."""
        self._put(text, self._out)

    def _put(self, text: str, stream: TextIO) -> None:
        try:
            stream.write(text)
            stream.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OutputLostError(error.strerror or str(error)) from error

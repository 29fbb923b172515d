"""argparse as the command line needs it: faults as exceptions, and every word translatable.

argparse writes English and offers no way to be told other words. What it can say is known; a
sentence that is not stays English.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable
from functools import partial
from typing import NoReturn

from twinrig.cli.text_width import wrap
from twinrig.messages import N_, Message

Text = Callable[[str], str]

_ARGUMENT = N_("argument {name}: {fault}")
_FAULTS = (
    N_("the following arguments are required: {names}"),
    N_("unrecognized arguments: {words}"),
    N_("ambiguous option: {word} could match {options}"),
    N_("invalid choice: {word} (choose from {choices})"),
    N_("cannot use {word}"),
    N_("expected one argument"),
    N_("expected at least one argument"),
    N_("expected at most one argument"),
    N_("expected {count} arguments"),
    N_("ignored explicit argument {word}"),
    N_("not allowed with argument {name}"),
    N_("one of the arguments {names} is required"),
)


class CommandLineError(Exception):
    """``parser`` could not use the words it was given; ``reason`` says why."""

    def __init__(self, parser: argparse.ArgumentParser, reason: Message) -> None:
        super().__init__(str(reason))
        self.parser = parser
        self.reason = reason


class CommandParser(argparse.ArgumentParser):
    """Raises CommandLineError instead of ending the program, so that JSON can be told too."""

    def error(self, message: str) -> NoReturn:
        """As argparse calls it."""
        raise CommandLineError(self, fault_of(message))


def fault_of(text: str) -> Message:
    """A fault in argparse's English as a sentence that can be translated."""
    # argparse names the function that read the word, which means nothing to people.
    text = re.sub(r"invalid \w+ value: ", "cannot use ", text)
    found = _pattern(_ARGUMENT).fullmatch(text)
    if found is not None:
        return Message(_ARGUMENT, {"name": found["name"], "fault": fault_of(found["fault"])})
    for known in _FAULTS:
        found = _pattern(known).fullmatch(text)
        if found is not None:
            return Message(known, found.groupdict())
    return Message("{fault}", {"fault": text})


def _pattern(sentence: str) -> re.Pattern[str]:
    parts = re.split(r"\{(\w+)\}", sentence)
    words = (f"(?P<{p}>.+?)" if index % 2 else re.escape(p) for index, p in enumerate(parts))
    return re.compile("".join(words), re.DOTALL)


class _Formatter(argparse.HelpFormatter):
    """Help whose first word is translated, with lines that count cells: a kanji takes two."""

    def __init__(self, prog: str, usage_word: str) -> None:
        super().__init__(prog)
        self._usage_word = usage_word

    def add_usage(
        self,
        usage: str | None,
        actions: Iterable[argparse.Action],
        groups: Iterable[argparse._MutuallyExclusiveGroup],
        prefix: str | None = None,
    ) -> None:
        super().add_usage(usage, actions, groups, self._usage_word if prefix is None else prefix)

    def _split_lines(self, text: str, width: int) -> list[str]:
        return wrap(" ".join(text.split()), width)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n".join(wrap(" ".join(text.split()), width, indent))


def own_words(parser: argparse.ArgumentParser, text: Text) -> None:
    """Translate what argparse itself says in a help, for a parser and all below it."""
    usage_word = text(N_("usage:")) + " "
    parser.formatter_class = partial(_Formatter, usage_word=usage_word)
    parser._positionals.title = text(N_("arguments"))
    parser._optionals.title = text(N_("options"))
    for action in parser._actions:
        if isinstance(action, argparse._HelpAction):
            action.help = text(N_("show this help, then end"))
        elif isinstance(action, argparse._VersionAction):
            action.help = text(N_("show the version, then end"))
        elif isinstance(action, argparse._SubParsersAction):
            for child in action.choices.values():
                own_words(child, text)

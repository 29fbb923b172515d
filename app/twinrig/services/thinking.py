"""Tells a model's thoughts from its reply where the server has not done so.

Models mark thoughts with ``<think>`` and ``</think>``. Some templates open the mark themselves:
then the reply begins in the middle of a thought and only its end is marked.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

OPENING = "<think>"
CLOSING = "</think>"


@dataclass(frozen=True)
class Part:
    """A piece of text. ``recast``: everything that came before was thought, too."""

    text: str
    thought: bool = False
    recast: bool = False


class _State(Enum):
    """START: an opening mark may come. EARLY: none came; a closing one may still come."""

    START = "start"
    EARLY = "early"
    THOUGHT = "thought"
    REPLY = "reply"


class ThoughtSplitter:
    """Feed it text as it comes; a mark may be cut anywhere. A closing mark counts once."""

    def __init__(self) -> None:
        self._held = ""
        self._state = _State.START
        self._trim = False

    def feed(self, text: str) -> Iterator[Part]:
        """Parts that are certain by now."""
        self._held += text
        if self._state is _State.START:
            self._begin()
        if self._state in (_State.EARLY, _State.THOUGHT):
            yield from self._until_closed()
        elif self._state is _State.REPLY:
            yield from self._reply()

    def end(self) -> Iterator[Part]:
        """What was held back because it might have become a mark."""
        if self._held:
            yield Part(self._held, thought=self._state is _State.THOUGHT)
        self._held = ""

    def _begin(self) -> None:
        start = self._held.lstrip()
        if start.startswith(OPENING):
            self._held, self._state = start[len(OPENING) :], _State.THOUGHT
        elif not OPENING.startswith(start):
            self._state = _State.EARLY

    def _until_closed(self) -> Iterator[Part]:
        thought = self._state is _State.THOUGHT
        before, mark, after = self._held.partition(CLOSING)
        if not mark:
            ready = self._held[: len(self._held) - _beginning_of_mark(self._held)]
            before, after = ready, self._held[len(ready) :]
        self._held = after
        if before:
            yield Part(before, thought)
        if mark:
            self._state, self._trim = _State.REPLY, True
            if not thought:
                yield Part("", recast=True)
            yield from self._reply()

    def _reply(self) -> Iterator[Part]:
        """The empty lines between a thought and its reply are no part of either."""
        text, self._held = self._held.lstrip() if self._trim else self._held, ""
        if text:
            self._trim = False
            yield Part(text)


class PlainText:
    """In the place of a splitter once the server itself tells thoughts apart."""

    def feed(self, text: str) -> Iterator[Part]:
        """The text as it is."""
        yield Part(text)

    def end(self) -> Iterator[Part]:
        """Nothing is held back."""
        return iter(())


def _beginning_of_mark(text: str) -> int:
    """How many last characters may be the beginning of a closing mark."""
    for count in range(min(len(CLOSING) - 1, len(text)), 0, -1):
        if text.endswith(CLOSING[:count]):
            return count
    return 0

"""Which lines hold which phrases, asked of the words that are new.

Nearly all words of a log were seen before, and what phrases they can belong to is remembered. A
phrase is searched in the lines that hold its rarest word, and in no other. Memory is bounded: a log
of ever new words makes it forget.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

MAX_WORDS = 60_000
MAX_WORD_CHARS = 400
MAX_NEW_WORDS = 64

_COMMON = frozenset(
    {
        *("available", "version", "connect", "tokenizer", "return", "Failed"),
        *("failed", "Loading", "waiting", "architecture", "resource", "maximum"),
        *("process", "platform", "request", "engine", "backend", "memory"),
        *("found", "error", "weights", "parallel", "call", "Starting"),
        *("installed", "instead", "failure", "timeout", "environment", "parameters"),
        *("library", "processes", "application", "using", "with", "server"),
        *("model", "from", "requests", "completions", "safetensors"),
        *("device", "detected", "CUDA", "NCCL", "vLLM", "WSL", "driver"),
        *("INFO", "ERROR:", "error:", "GPU", "cache", "load", "loading", "start", "startup"),
        *("a", "are", "at", "be", "by", "for", "in", "is", "no", "not", "of", "on", "one"),
        *("out", "the", "to", "was", ":", "this", "must", "than", "you", "your"),
    }
)
"""Words that ordinary lines are full of; another word of a phrase is asked for if it has one."""


class Key(NamedTuple):
    """A piece of a phrase without a space, and whether a space or the line's end must stand on
    its sides, so that it begins or ends a word."""

    text: str
    begins: bool
    ends: bool


@dataclass(frozen=True, slots=True)
class Needle:
    """A phrase. Words are asked for ``key``; ``inner`` are all its words that must stand alone."""

    text: str
    key: Key
    inner: frozenset[str]


def needle_of(phrase: str) -> Needle:
    """The phrase with what it is looked for by: a rare word, if possible one that stands alone."""
    words = phrase.split()
    last = len(words) - 1
    keys = [
        Key(word, at > 0 or phrase[0].isspace(), at < last or phrase[-1].isspace())
        for at, word in enumerate(words)
    ]
    inner = frozenset(key.text for key in keys if key.begins and key.ends)
    key = max(keys, key=lambda k: (k.text not in _COMMON, k.begins and k.ends, len(k.text)))
    return Needle(phrase, key, inner)


class Vocabulary:
    """Remembers words over the lines of one log."""

    def __init__(self, phrases: Sequence[str]) -> None:
        self._by_key: dict[Key, list[Needle]] = {}
        for phrase in phrases:
            needle = needle_of(phrase)
            self._by_key.setdefault(needle.key, []).append(needle)
        self._known: set[str] = set()
        self._telling: dict[str, list[Key]] = {}
        self._long: dict[str, list[Key]] = {}
        self._always: set[Key] = set()

    def find(self, lines: Sequence[str]) -> dict[int, set[str]]:
        """Index of each line that holds phrases -> these."""
        split = [line.split() for line in lines]
        words: set[str] = set().union(*split)
        asked = self._asked(words)
        telling = self._telling_words(words, asked)
        found: dict[int, set[str]] = {}
        if telling:
            holding = set(telling).intersection
            for index, parts in enumerate(split):
                if told := holding(parts):
                    line = lines[index]
                    held = {n.text for word in told for n in telling[word] if n.text in line}
                    if held:
                        found[index] = held
        for needle in (n for key in self._always & asked.keys() for n in asked[key]):
            for index, line in enumerate(lines):
                if needle.text in line:
                    found.setdefault(index, set()).add(needle.text)
        return found

    def _asked(self, words: set[str]) -> dict[Key, list[Needle]]:
        """Phrases that may stand in lines of these words, by their keys."""
        self._long = {}
        if new := words - self._known:
            if len(self._known) + len(new) > MAX_WORDS:
                self._known.clear()
                self._telling.clear()
                new = words
            self._learn(new)
        keys = set(self._always)
        for known in (self._telling, self._long):
            keys.update(*(known[word] for word in words & known.keys()))
        return {
            key: needles
            for key in keys
            if (needles := [n for n in self._by_key[key] if n.inner <= words])
        }

    def _telling_words(
        self, words: set[str], asked: Mapping[Key, list[Needle]]
    ) -> dict[str, list[Needle]]:
        """Words that hold a key of the asked phrases -> the phrases."""
        telling: dict[str, list[Needle]] = {}
        for known in (self._telling, self._long):
            for word in words & known.keys():
                for key in known[word]:
                    if key in asked and key not in self._always:
                        telling[word] = telling.get(word, []) + asked[key]
        return telling

    def _learn(self, new: set[str]) -> None:
        text = "\n" + "\n".join(new) + "\n"
        for key in self._by_key:
            if key.begins and key.ends:
                if key.text in new:
                    self._telling.setdefault(key.text, []).append(key)
            elif key.text in text and key not in self._always:
                self._remember(key, text)
        self._known.update(word for word in new if len(word) <= MAX_WORD_CHARS)

    def _remember(self, key: Key, text: str) -> None:
        """Remember the words that hold a key; a key that ever new words hold is always asked."""
        piece = "\n" * key.begins + key.text + "\n" * key.ends
        position, times = text.find(piece), 0
        while position >= 0:
            start = position + 1 if key.begins else text.rfind("\n", 0, position) + 1
            end = text.find("\n", start)
            word = text[start:end]
            known = self._telling if len(word) <= MAX_WORD_CHARS else self._long
            known.setdefault(word, []).append(key)
            times += 1
            if times > MAX_NEW_WORDS:
                self._always.add(key)
                return
            position = text.find(piece, end)

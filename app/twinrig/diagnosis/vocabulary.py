"""Which phrases occur in a block of lines, asked of the words that are new.

Logs repeat themselves: nearly all words of a block were seen before, and what phrases they can
belong to is remembered. Memory is bounded: a log of ever new words makes it forget.
"""

from __future__ import annotations

from collections.abc import Sequence

from twinrig.diagnosis.index import Needle

MAX_WORDS = 60_000
MAX_WORD_CHARS = 400


class Vocabulary:
    """Remembers words over the blocks of one log."""

    def __init__(self, needles: Sequence[Needle]) -> None:
        self._by_key: dict[str, list[str]] = {}
        for needle in needles:
            self._by_key.setdefault(needle.key, []).append(needle.text)
        self._known: set[str] = set()
        self._telling: dict[str, list[str]] = {}

    def present(self, joined: str) -> list[str]:
        """Phrases that occur in the text of a block, in a fixed order."""
        words = set(joined.split())
        new = words - self._known
        if new:
            self._learn(new)
        keys = {key for word in words & self._telling.keys() for key in self._telling[word]}
        return sorted(text for key in keys for text in self._by_key[key] if text in joined)

    def _learn(self, new: set[str]) -> None:
        if len(self._known) + len(new) > MAX_WORDS:
            self._known.clear()
            self._telling.clear()
        text = "\n".join(new)
        keys = [key for key in self._by_key if key in text]
        if keys:
            for word in new:
                found = [key for key in keys if key in word]
                if found:
                    self._telling[word] = found
        self._known.update(word for word in new if len(word) <= MAX_WORD_CHARS)
